"""In words: converged, slow or separated; heavy tails; and data that are not reached."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest
from linear import linear_gaussian

import traceclass as tc
from traceclass.sampling.diagnostics import LARGEST_RHAT
from traceclass.sampling.verdict import verdict_of

RNG = np.random.default_rng(0)
GOOD = RNG.normal(size=(4, 500))


def walk(num_draws: int, seed: int = 0) -> np.ndarray:
    """Four chains with an autocorrelation time of about 400 draws."""
    rng = np.random.default_rng(seed)
    x = np.empty((4, num_draws))
    x[:, 0] = rng.normal(size=4)
    for i in range(1, num_draws):
        x[:, i] = 0.995 * x[:, i - 1] + np.sqrt(1 - 0.995**2) * rng.normal(size=4)
    return x


def state_of(draws: np.ndarray) -> str:
    return verdict_of({"good": GOOD, "f": draws}, LARGEST_RHAT, draws.shape[1]).state


def test_independent_draws_have_converged():
    verdict = verdict_of({"a": GOOD, "b": GOOD[..., None] * [1.0, 2.0]}, LARGEST_RHAT, 500)
    assert verdict.state == "converged"
    assert verdict.words.startswith("converged: ")


def test_chains_in_two_modes_are_separated():
    apart = GOOD + 20.0 * np.array([0, 0, 1, 1])[:, None]
    verdict = verdict_of({"good": GOOD, "f": apart}, LARGEST_RHAT, 500)
    assert verdict.state == "separated"
    assert verdict.of == "f"
    assert "run.stack()" in verdict.words


def test_a_slow_chain_is_told_how_long_it_would_take():
    """What it says is enough: chains that long have converged, and half of it is not too much."""
    short = walk(500)
    verdict = verdict_of({"f": short}, LARGEST_RHAT, 500)
    assert verdict.state == "slow"
    found = re.search(r"About ([\d,]+) draws per chain instead of 500", verdict.words)
    assert found
    wanted = int(found[1].replace(",", ""))
    assert 1_000 < wanted < 100_000
    assert state_of(walk(4 * wanted, seed=1)) == "converged"


@pytest.mark.parametrize("draws", [np.ones((4, 100)), GOOD[:, :3], np.full((2, 50), np.nan)])
def test_nothing_is_said_of_draws_that_say_nothing(draws):
    assert verdict_of({"f": draws}, LARGEST_RHAT, draws.shape[1]).state == "unknown"


def sampled(noise: float = 0.3, scale: float = 1.0, **settings):
    posterior, _, _ = linear_gaussian(noise)
    likelihood = posterior.likelihood
    shifted = tc.GaussianRegression(
        likelihood.points, scale * np.asarray(likelihood.observations), noise=noise
    )
    settings = {"num_warmup": 400, "num_samples": 300, "progress": False} | settings
    return tc.sample(tc.Posterior(posterior.prior, shifted), tc.hmc, **settings)


def test_a_good_run_says_so_first_and_warns_of_nothing():
    run = sampled()
    summary = run.summary()
    assert str(summary).startswith("converged: R-hat is at most")
    assert not summary.warnings
    assert run.monitored()["the values at the data"].shape == (4, 300, 8)
    assert (summary.table["tail_index"] < 0.7).all()


def test_data_that_the_prior_does_not_reach_are_a_warning():
    """Raw units: y of the order of 10^3 with noise 0.3, and a prior of size one."""
    summary = sampled(scale=1e3).summary()
    assert any("noise standard deviations" in words for words in summary.warnings)


def test_a_mean_that_few_draws_decide_is_marked():
    """1 / |z - median|^1.5 has a density like x^(-1 - 1/1.5): Pareto k is 1.5."""
    middle = float(linear_gaussian()[1][0])
    heavy = {"heavy": lambda z: jnp.abs(z[0] - middle) ** -1.5, "light": lambda z: z[1]}
    summary = sampled(record=heavy).summary()
    assert summary.table.loc["heavy", "tail_index"] > 0.7
    assert summary.table.loc["light", "tail_index"] < 0.7
    warnings = [words for words in summary.warnings if "tail index" in words]
    assert len(warnings) == 1
    assert "heavy" in warnings[0]
    assert "light" not in warnings[0]


def test_values_at_the_data_need_posterior_and_positions():
    run = sampled(store_positions=False)
    assert set(run.monitored()) == {"log_likelihood"}
    assert run.summary().verdict.state == "converged"


def test_ties_have_no_tail_and_break_nothing():
    """Truth values and counts, and chains that sit at their largest value."""
    record = {"sign": lambda z: z[0] > 0, "count": lambda z: jnp.round(z[1])}
    summary = sampled(record=record).summary()
    assert np.isnan(summary.table.loc["sign", "tail_index"])


def test_a_constant_of_each_chain_is_the_clearest_separation():
    own = np.array([0.0, 1.0, 0.0, 1.0])[:, None] + np.zeros((4, 200))
    verdict = verdict_of({"f": own}, LARGEST_RHAT, 200)
    assert verdict.state == "separated"
    assert "very large" in verdict.words


def test_the_advice_counts_all_draws_where_few_are_looked_at():
    verdict = verdict_of({"f": walk(500)}, LARGEST_RHAT, 5_000)
    assert "instead of 5,000" in verdict.words


def short_chains(num_starts: int, apart: float) -> np.ndarray:
    """128 chains too short to move: 6 draws close to one of the posterior, off by their start."""
    rng = np.random.default_rng(1)
    shifts = np.repeat(apart * rng.normal(size=num_starts), 128 // num_starts)
    places = rng.normal(size=128) + shifts
    return places[:, None] + 0.3 * rng.normal(size=(128, 6))


def test_many_short_chains_are_judged_by_their_starts():
    """Chains differ by where they are, means of 32 of them by little, if the start is forgotten."""
    draws = short_chains(4, 0.0)
    assert verdict_of({"f": draws}, LARGEST_RHAT, 6).state != "converged"
    verdict = verdict_of({"f": draws}, LARGEST_RHAT, 6, num_starts=4)
    assert verdict.state == "converged"
    assert "nested R-hat" in verdict.words
    remembered = short_chains(4, 1.0)
    assert verdict_of({"f": remembered}, LARGEST_RHAT, 6, num_starts=4).state != "converged"


def test_chains_begin_together_where_they_are_asked_to(tmp_path):
    posterior, _, _ = linear_gaussian()
    settings = {"num_chains": 6, "num_starts": 2, "num_warmup": 0, "step_size": 1e-6, "thin": 1}
    settings |= {"num_samples": 4, "progress": False, "store": tmp_path / "run"}
    run = tc.sample(posterior, tc.pcn, **settings)
    first = run.positions[:, 0]
    np.testing.assert_allclose(first[:3], first[:1].repeat(3, axis=0), atol=1e-4)
    np.testing.assert_allclose(first[3:], first[3:4].repeat(3, axis=0), atol=1e-4)
    assert np.abs(first[0] - first[3]).max() > 0.1
    assert (first[0] != first[1]).any()
    assert run.num_starts == tc.open_run(tmp_path / "run").num_starts == 2
    with pytest.raises(tc.StoreError, match="num_starts 2 there, none here"):
        tc.sample(posterior, tc.pcn, resume=True, **settings | {"num_starts": None})
    given = np.array([[0.0] * 6, [1.0] * 6])
    settings |= {"initial_positions": given, "store": None}
    run = tc.sample(posterior, tc.pcn, **settings)
    np.testing.assert_allclose(run.positions[:, 0], given.repeat(3, axis=0), atol=1e-4)
