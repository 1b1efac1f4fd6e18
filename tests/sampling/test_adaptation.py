"""Warm-up: step sizes, trajectory lengths and hopeless starts, unattended."""

from __future__ import annotations

import numpy as np
import pytest
from linear import linear_gaussian

import traceclass as tc
from traceclass.sampling.adaptation import Annealing
from traceclass.sampling.adaptation.move import MoveAdaptation
from traceclass.sampling.adaptation.step_size import StepSizeAdaptation
from traceclass.sampling.adaptation.trajectory import SHARES, TrajectoryAdaptation

QUIET = {"progress": False, "store_positions": False}


def regression(noise: float) -> tc.Posterior:
    x = np.linspace(-1, 1, 10)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(5, 5), weight_variance=3.0)
    return tc.Posterior(prior, tc.GaussianRegression(x, np.sin(3 * x[:, 0]), noise=noise))


def test_hmc_needs_no_arguments():
    run = tc.sample(regression(0.5), tc.hmc, **QUIET)
    assert run.acceptance_rate == pytest.approx(0.8, abs=0.05)
    assert run.tuning["hmc"]["num_kicks"] > 1
    assert run.thin == 1
    table = run.summary().table
    assert table["r_hat"].max() < 1.05
    assert run.to_arviz()["sample_stats"].attrs["num_kicks"] == run.tuning["hmc"]["num_kicks"]
    assert "num kicks" in str(run.summary())


def test_adaptation_begins_where_it_is_told():
    """Also after a restart, and before it has learnt anything."""
    steps = StepSizeAdaptation(tc.hmc.rule)
    assert steps.settled() == pytest.approx(tc.hmc.rule.first)
    assert steps.step_size == pytest.approx(tc.hmc.rule.first)
    for _ in range(30):
        steps.update(0.99, 20)
    found = steps.settled()
    steps.restart()
    assert found > tc.hmc.rule.first
    assert steps.step_size == pytest.approx(found)


@pytest.mark.long
def test_what_is_fixed_is_not_tuned():
    kernel = tc.hmc.using(num_kicks=3)
    run = tc.sample(regression(0.5), kernel, num_warmup=400, num_samples=4, **QUIET)
    assert set(run.tuning["hmc"]) == {"step_size"}
    run = tc.sample(regression(0.5), tc.hmc, step_size=0.1, num_warmup=0, num_samples=4, **QUIET)
    assert run.tuning["hmc"] == {"step_size": 0.1, "num_kicks": 16}


@pytest.mark.long
def test_every_part_of_a_cycle_meets_its_own_target():
    """16 chains: pCNL moves slowly, and how much it accepts depends on where a chain is."""
    run = tc.sample(
        regression(0.5), tc.cycle(tc.pcn, tc.node_swap, tc.pcnl), num_warmup=6000,
        num_samples=200, thin=10, num_chains=16, **QUIET,
    )  # fmt: skip
    rates = run.move_acceptance_rates
    assert rates["pcn"] == pytest.approx(0.234, abs=0.06)
    assert rates["pcnl"] == pytest.approx(0.574, abs=0.08)
    assert set(run.tuning) == {"pcn", "node_swap", "pcnl"}
    assert run.tuning["node_swap"] == {}


@pytest.mark.long
def test_a_hopeless_start_is_left():
    """Prior draws between -10^6 and -10^8: HMC with default arguments reaches the data."""
    run = tc.sample(regression(1e-3), tc.hmc, num_samples=50, **QUIET)
    first = tc.sample(
        regression(1e-3), tc.pcn, step_size=1e-6, num_warmup=0, num_samples=1, thin=1, **QUIET
    )
    assert first.draws["log_likelihood"].min() < -1e7
    assert first.draws["log_likelihood"].max() < -1e5
    # 10 observations at their noise: log-likelihood about -10 (log(noise sqrt(2 pi)) + 1/2) = 55.
    assert run.draws["log_likelihood"][:, -1].min() > 0


def test_annealing_ends_at_the_posterior_and_spares_good_starts():
    hopeless = Annealing(-1e8, num_warmup=2000)
    powers = [hopeless.inverse_temperature(done) for done in range(0, 2000, 20)]
    assert powers[0] == pytest.approx(1e-5)
    assert (np.diff(powers) >= 0).all()
    assert set(powers[25:]) == {1.0}
    good = Annealing(-9000.0, num_warmup=2000)
    assert {good.inverse_temperature(done) for done in range(0, 2000, 20)} == {1.0}


def oscillators(frequencies: np.ndarray, seed: int) -> float:
    """The share chosen for independent oscillators f'' = -omega^2 f, integrated exactly."""
    rng = np.random.default_rng(seed)
    adaptation = TrajectoryAdaptation(lambda positions: positions)
    step_size, positions = 0.05, rng.normal(size=(4, len(frequencies)))
    adaptation.look(positions)
    for _ in range(120):
        for _ in range(adaptation.next_trial(step_size)):
            turn = frequencies * step_size * adaptation.kicks(step_size)
            noise = rng.normal(size=positions.shape)
            positions = np.cos(turn) * positions + np.sin(turn) * noise
        adaptation.learn(positions)
    adaptation.choose()
    return adaptation.share


def test_the_trajectory_is_as_long_as_the_slow_functionals_want():
    """Frequency 1 (the prior's) wants a quarter turn.

    At frequency 4 that is a full period, after which all is as before; half of it is a reflection,
    of which an even number is nothing either; a quarter of it forgets.
    """
    assert oscillators(np.full(10, 1.0), seed=0) == SHARES[0]
    assert oscillators(np.full(10, 4.0), seed=0) == SHARES[2]


def test_the_last_step_size_is_found_at_the_length_that_is_frozen():
    """More than 200 kicks are made in trials and after them."""
    posterior, _, _ = linear_gaussian()
    adaptation = MoveAdaptation(tc.hmc, 400, posterior)
    adaptation._steps.restart(at=2e-3)
    at = [adaptation.window(done)[0]["num_kicks"] for done in (0, 100, 300)]
    assert at == [10, 200, 785]
    assert adaptation.settled()["num_kicks"] == 785


def test_what_is_learnt_survives_being_stored():
    """Half a window of trials is kept too: the second half then completes it."""
    whole, first, second = (StepSizeAdaptation(tc.pcn.rule) for _ in range(3))
    for _ in range(5):
        whole.update(0.1, 20)
        first.update(0.1, 20)
    for steps in (whole, first):
        steps.update(0.9, 7)  # too few for a window
    second.remember({name: np.array(array) for name, array in first.memory().items()})
    for steps in (whole, second):
        steps.update(0.1, 13)
    assert second.step_size == whole.step_size
    forgetful = StepSizeAdaptation(tc.pcn.rule)
    forgetful.remember(first.memory() | {"pooled": 0 * first.memory()["pooled"]})
    forgetful.update(0.1, 13)
    assert forgetful.step_size != whole.step_size
