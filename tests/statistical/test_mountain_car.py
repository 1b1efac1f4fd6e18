"""The mountain-car figures that the project promises."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import traceclass as tc
from traceclass.experiments import EXPERIMENTS
from traceclass.experiments.cells import Chains, run_experiment

car = tc.control.mountain_car


def posterior(width: int, seed: int = 0) -> tc.Posterior:
    demonstrations = car.demonstrate(jax.random.key(seed))
    prior = tc.TraceClassNetwork(
        num_inputs=2, widths=(width,) * 3, alpha=1.5, weight_variance=2.0, bias_variance=2.0,
        inputs=tc.scale_to_box(car.LOW, car.HIGH),
    )  # fmt: skip
    successors = car.successors(demonstrations.states)
    return tc.Posterior(prior, tc.ActionChoice(successors, demonstrations.actions, noise=0.1))


@pytest.mark.long
def test_acceptance_does_not_fall_with_width():
    """pCN at beta = 0.1 (Table 1): between 19 and 26 % at widths 10, 30 and 100."""
    rates = {}
    for width, samples in ((10, 2000), (30, 1000), (100, 400)):
        run = tc.sample(
            posterior(width), tc.pcn, step_size=0.1, num_chains=8, num_warmup=10_000,
            num_samples=samples, thin=50, store_positions=False, progress=False,
        )  # fmt: skip
        rates[width] = run.acceptance_rate
    assert all(0.19 <= rate <= 0.26 for rate in rates.values()), rates


@pytest.mark.long
@pytest.mark.parametrize("width", [10, 30, 100])
def test_hmc_from_a_cold_start_with_default_arguments(width):
    """Acceptance within 0.05 of its target, R-hat of value differences below 1.05."""
    target = posterior(width)
    values_of = target.values_of

    def differences(z):
        values = values_of(z).reshape(car.NUM_ACTIONS, -1)[:, ::10]
        return (values[1:] - values[0]).ravel()

    run = tc.sample(
        target, tc.hmc, seed=1, record={"difference": differences}, store_positions=False,
        progress=False,
    )  # fmt: skip
    assert run.acceptance_rate == pytest.approx(tc.hmc.rule.target, abs=0.05)
    assert run.summary().table["r_hat"].max() < 1.05


@pytest.mark.long
def test_the_paper_preset_reaches_its_figures():
    """Converged, a noisy driver within sampling error of the paper's, a plain one better, and the
    standard network clearly worse.

    The paper's 23 failures are one data set and one run; ours vary between data sets. Failures of
    100 episodes have a binomial standard error of 4, so 23 + 17 allows for both spreads.
    """
    experiment = EXPERIMENTS["mountain-car"]
    changes = {"priors": ("tcnn", "bnn"), "kernels": ("pcn", "hmc"), "num_data_sets": 1}
    config = experiment.presets["paper"].model_copy(update=changes)
    result = run_experiment(experiment, config, Chains(progress=False))
    numbers = result.numbers
    assert all(np.isfinite(result.arrays[name]).all() for name in ("value_mean", "value_sd"))
    rows = {(row["prior"], row["kernel"]): row for row in numbers["rows"]}
    assert all(row["num_converged"] == 1 and row["rhat"] < 1.02 for row in rows.values())
    noisy = {cell: row["failures"]["noisy_argmax"]["mean"] for cell, row in rows.items()}
    assert noisy["tcnn", "pcn"] <= 40
    assert noisy["bnn", "pcn"] >= noisy["tcnn", "pcn"] + 20
    # The same posterior, so the same policy up to Monte Carlo error: three binomial errors.
    assert abs(noisy["tcnn", "pcn"] - noisy["tcnn", "hmc"]) <= 15
    assert all(row["failures"]["argmax"]["mean"] <= 5 for row in rows.values())
    others = {row["name"]: row["failures"]["mean"] for row in numbers["alternatives"]}
    assert others["expert"] == others["optimal"] == 0
