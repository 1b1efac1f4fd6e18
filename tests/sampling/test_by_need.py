"""Warm-up by the prior that looks for references where trajectories by it would get too long."""

from __future__ import annotations

import numpy as np
import pytest
from linear import linear_gaussian
from small import posterior as small_posterior
from small import sampled
from stopping import stopped_in_warm_up

import traceclass as tc
from traceclass.kernels.base import Kernel
from traceclass.sampling.adaptation import chainwise
from traceclass.sampling.adaptation.by_need import ByNeedAdaptation
from traceclass.sampling.adaptation.windows import WINDOW, Seen

# A thousandth of the prior's width is left: a quarter turn by the prior takes 1,500 kicks and more.
LOUD = 0.0005
SETTINGS = {"num_chains": 2, "progress": False}


def test_loud_data_get_references_unasked_and_the_posterior_is_the_closed_form():
    """Moments of 6 coordinates within 5 standard errors, by ESS; a false alarm in 10^5."""
    from traceclass.sampling.diagnostics import worst_of

    posterior, mean, covariance = linear_gaussian(noise=LOUD)
    run = tc.sample(posterior, tc.hmc, num_warmup=800, num_samples=500, **SETTINGS)
    assert run.moved_by == ["a reference of each chain"]
    assert min(run.chain_tunings[0]["step_size"]) > 0.1
    assert "moved by a reference of each chain" in str(run.summary())
    x = run.positions.astype(np.float64)
    ess = np.array([worst_of(x[..., i])[0] for i in range(6)])
    assert (np.abs(x.mean(axis=(0, 1)) - mean) < 5 * np.sqrt(np.diag(covariance) / ess)).all()
    spread = x.var(axis=(0, 1)) / np.diag(covariance)
    assert (np.abs(spread - 1) < 5 * np.sqrt(2 / ess)).all()


@pytest.mark.parametrize(
    ("kernel", "noise"),
    [(tc.hmc, 0.3), (tc.hmc.using(reference=None), LOUD), (tc.hmc.using(num_kicks=5), LOUD)],
)
def test_others_keep_the_prior(kernel, noise):
    """Data that are not loud, and a user who chose what trajectories are moved by or made of."""
    posterior, _, _ = linear_gaussian(noise=noise)
    run = tc.sample(posterior, kernel, num_warmup=400, num_samples=10, **SETTINGS)
    assert not run.chain_tunings
    assert "reference" not in run.tunings[0]


@pytest.mark.parametrize(("step_size", "is_needed"), [(1.6e-3, False), (1.5e-3, True)])
def test_a_quarter_turn_of_a_thousand_kicks_is_where_it_begins(step_size, is_needed):
    posterior, _, _ = linear_gaussian()
    adaptation = ByNeedAdaptation(tc.hmc, 400, posterior, num_chains=2)
    monitored = adaptation._plain._steps
    done = 0
    while done < 100:
        monitored.restart(at=step_size)
        rates = np.full((2, 1), 0.8)  # the target, so that the step size stays
        done += WINDOW
        adaptation.window(done - WINDOW)
        adaptation.update(
            done, Seen(rates[0], np.array([WINDOW]), rates, np.zeros((2, 6)), None), 0
        )
    assert adaptation.is_by_chain == is_needed


def test_references_are_frozen_before_draws_count():
    """They change in the first part of what is left of warm-up, and no more in the last."""
    posterior, _, _ = linear_gaussian()
    adaptation = ByNeedAdaptation(tc.hmc, 1_000, posterior, num_chains=2)
    rng, scales, done = np.random.default_rng(0), [], 0
    while done < 1_000:
        if not adaptation.is_by_chain:
            adaptation._plain._steps.restart(at=1e-4)
        tuning, steps = adaptation.window(done)
        x, rates = rng.normal(size=(2, steps, 6)), np.full((2, 1), 0.8)
        done += steps
        seen = Seen(rates[0], np.array([steps]), rates, x[:, -1], (x, -np.square(x)))
        adaptation.update(done, seen, 0)
        if "reference" in tuning:
            scales.append((done, tuning["reference"].scale.tobytes()))
    assert scales[0][0] == 250 // WINDOW * WINDOW + WINDOW
    # Seven tenths of the 760 steps that are left are for fits.
    assert len({scale for done, scale in scales if done <= 780}) > 3
    assert len({scale for done, scale in scales if done > 780}) == 1
    assert dict(scales)[780] != dict(scales)[800]
    assert adaptation.settled()["reference"].scale.tobytes() == scales[-1][1]


def test_kernels_without_trajectories_and_parts_of_mixtures_keep_the_prior(monkeypatch):
    posterior, _, _ = linear_gaussian(noise=LOUD)
    assert ByNeedAdaptation.is_possible(tc.hmc, posterior, 4)
    assert not ByNeedAdaptation.is_possible(tc.pcn, posterior, 4)
    with monkeypatch.context() as patched:
        patched.setattr(chainwise, "_MOST_BYTES", 10_000)  # no room for 60 draws of 4 chains
        assert not ByNeedAdaptation.is_possible(tc.hmc, posterior, 4)
    mixed = tc.mixture(tc.hmc, tc.pcn)
    run = tc.sample(posterior, mixed, num_warmup=800, num_samples=10, **SETTINGS)
    assert not run.chain_tunings


def test_it_is_traced_twice():
    """Once by the prior, and once when references are looked for; not with every reference."""
    traces = []

    def counting(posterior, step_size, num_kicks, reference=None):
        algorithm = tc.hmc.build(posterior, step_size, num_kicks, reference)

        def step(key, state):
            traces.append(reference is not None)
            return algorithm.step(key, state)

        return algorithm._replace(step=step)

    counted = Kernel(counting, tc.hmc.rule, thin=1, kicks=tc.hmc.kicks)
    posterior, _, _ = linear_gaussian(noise=LOUD)
    tc.sample(posterior, counted, num_warmup=800, num_samples=10, **SETTINGS)
    assert traces == [False, True]


def test_a_run_is_stored_resumed_and_opened(tmp_path):
    """Stopped between draws, it goes on to the same draws bit for bit."""
    settings = {"kernel": tc.hmc, "target": small_posterior(noise=1e-4)}
    whole = sampled(**settings)
    assert whole.moved_by == ["a reference of each chain"]
    sampled(tmp_path / "run", num_samples=50, **settings)
    assert sampled(tmp_path / "run", resume=True, **settings).sha256() == whole.sha256()
    opened = tc.open_run(tmp_path / "run", settings["target"])
    assert opened.chain_tunings == whole.chain_tunings


@pytest.mark.parametrize("stop", [100, 260, pytest.param(60, marks=pytest.mark.long)])
def test_a_run_that_is_stopped_in_warm_up_is_resumed(stop, tmp_path, monkeypatch):
    """When the reference is first looked for, after a fit, or before either."""
    settings = {"kernel": tc.hmc, "target": small_posterior(noise=1e-4), "num_samples": 10}
    settings |= {"chunk_size": None}
    whole = sampled(**settings)
    stopped_in_warm_up(monkeypatch, stop, tmp_path / "run", **settings)
    assert sampled(tmp_path / "run", resume=True, **settings).sha256() == whole.sha256()
