"""Scores of held-out predictions, and figures of a learned function, against hand counts."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.control.box_polynomial import BoxPolynomial
from traceclass.control.grid_value import GridValue
from traceclass.draws import mean_function
from traceclass.experiments.car import choices, held_out, prior_of, true_value
from traceclass.experiments.learned import Course, ask, learned_from
from traceclass.sampling.diagnostics import mean_and_error
from traceclass.scores import binomial_error, mean_failures, mean_over, probability_scores


def test_scores_by_hand():
    probabilities = np.array([[0.9, 0.05, 0.05], [0.2, 0.2, 0.6], [0.5, 0.25, 0.25]])
    figures = probability_scores(np.log(probabilities), np.array([0, 2, 1]))
    assert figures["log_score"] == pytest.approx(np.log([0.9, 0.6, 0.25]).mean())
    assert figures["accuracy"] == pytest.approx(2 / 3)
    # Bins of tenths: 0.05 twice (none taken), 0.2 four times (one taken), 0.5, 0.6, 0.9.
    by_count = {
        round(b["predicted"], 3): (b["observed"], b["count"]) for b in figures["calibration"]
    }
    assert by_count[0.05] == (0.0, 2)
    assert by_count[0.225] == (0.25, 4)
    assert by_count[0.9] == (1.0, 1)
    distances = 2 * 0.05 + 4 * 0.025 + 0.5 + 0.4 + 0.1
    assert figures["calibration_error"] == pytest.approx(distances / 9)


def test_an_impossible_choice_that_was_made_scores_minus_infinity():
    with np.errstate(divide="ignore"):
        assert probability_scores(np.log([[0.0, 1.0]]), np.array([0]))["log_score"] == -np.inf


def test_honest_probabilities_are_calibrated_and_boastful_ones_are_not():
    """20,000 choices drawn from their probabilities; a bin's share errs by 0.02 at most (4 sd)."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1.0, 1.0, 1.0], 20_000)
    actions = (rng.random((20_000, 1)) > probabilities.cumsum(axis=1)[:, :2]).sum(axis=1)
    honest = probability_scores(np.log(probabilities), actions)
    for b in honest["calibration"]:
        assert abs(b["predicted"] - b["observed"]) < 4 * np.sqrt(0.25 / b["count"])
    sharper = probabilities**4 / (probabilities**4).sum(axis=1, keepdims=True)
    boastful = probability_scores(np.log(sharper), actions)
    assert boastful["calibration_error"] > 5 * honest["calibration_error"]
    assert boastful["log_score"] < honest["log_score"]


def test_mean_over_leaves_out_what_has_no_value():
    assert mean_over([None, None]) is None
    assert mean_over([-np.inf, -1.0])["mean"] == -np.inf
    assert mean_over([1.0, None, 2.0]) == {"mean": 1.5, "error": 0.5, "each": [1.0, 2.0]}


def test_errors_of_failures():
    """Never zero, binomial for one data set, and between data sets where that is more."""
    assert binomial_error(50, 100) == pytest.approx(5.0)
    assert 0.5 < binomial_error(0, 100) < 1.0
    assert mean_failures([20], 100) == {
        "mean": 20.0, "error": pytest.approx(4.0, rel=0.02), "each": [20]
    }  # fmt: skip
    assert mean_failures([0, 0, 0], 100)["error"] > 0
    assert mean_failures([10, 50], 100)["error"] == pytest.approx(20.0)
    # 20 of 100 in each of four: over all 400 episodes the error of their mean is 2.
    assert mean_failures([20, 20, 20, 20], 100)["error"] == pytest.approx(2.0, rel=0.02)


def test_error_of_a_mean_of_independent_draws():
    draws = np.random.default_rng(0).normal(size=(4, 2500))
    figures = mean_and_error(draws)
    assert figures["error"] == pytest.approx(0.01, rel=0.2)
    assert np.isnan(mean_and_error(np.zeros((2, 10)))["error"])
    draws[0] = 0.5  # one chain that stands still does not take the error away
    assert mean_and_error(draws)["error"] > 0.01


@pytest.fixture
def compiled(monkeypatch):
    """Operation by operation, each of these compiles a dozen programs for every set of points."""
    for of, name in (
        (GridValue, "__call__"),
        (BoxPolynomial, "__call__"),
        (tc.FourierSeries, "_waves"),
    ):
        monkeypatch.setattr(of, name, eqx.filter_jit(getattr(of, name)))


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_a_learned_function_is_the_mean_of_its_kept_draws():
    """Its table against the exact mean, chain means against theirs, and the counts."""
    prior = prior_of("kl", max_frequency=3)
    seen = car.demonstrate(jax.random.key(0), num_demonstrations=10)
    truth = eqx.filter_jit(true_value)(30)
    asked = ask(prior, held_out(0, 6), truth, noise=0.1)
    run = tc.sample(
        tc.Posterior(prior, choices(seen, noise=0.1)), tc.pcn, record=asked.record, step_size=0.3,
        num_chains=2, num_warmup=20, num_samples=10, thin=1, progress=False,
    )  # fmt: skip
    learned = learned_from(run, asked, num_kept=10)
    assert learned.kept.shape == (2, 5, prior.num_coordinates)
    np.testing.assert_array_equal(learned.kept[:, -1], run.positions[:, -1])
    states = held_out(1, 20).states
    of_all = jax.jit(mean_function(prior, learned.positions))(states)
    np.testing.assert_allclose(learned.mean(states), of_all, atol=1e-4)
    first = np.mean(eqx.filter_jit(prior.evaluate)(learned.kept[0], states), axis=0)
    np.testing.assert_allclose(learned.chain_means[0](states), first, atol=1e-4)
    log_probabilities = jax.jit(lambda z: jax.lax.map(asked.log_probabilities, z))
    each = np.asarray(log_probabilities(learned.kept.reshape(10, -1)))
    taken = np.exp(each[:, np.arange(6), np.asarray(asked.tests.actions)]).mean(axis=0)
    assert learned.numbers["log_score"] == pytest.approx(np.log(taken).mean(), rel=1e-4)
    assert learned.numbers["interpolation_error"] < 1e-4
    assert learned.numbers["draws"] == 20
    assert not learned.numbers["is_converged"]


def test_a_course_counts_failures_and_steps():
    """The expert arrives within 250 steps from everywhere; nobody does in 30; the same twice."""

    def expert(_, states):
        return car.expert(states)

    long = Course(seed=3, num_episodes=6, max_steps=250).drive(expert)
    assert long["failures"] == 0
    assert long["median_steps"] == np.median(long["steps"])
    assert Course(seed=3, num_episodes=6, max_steps=250).drive(expert) == long
    assert Course(seed=4, num_episodes=6, max_steps=250).drive(expert) != long
    short = Course(seed=3, num_episodes=6, max_steps=30).drive(expert)
    assert short == {"failures": 6, "steps": [-1] * 6, "median_steps": None}
