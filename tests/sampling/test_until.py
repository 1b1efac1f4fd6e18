"""When draws are good enough: what `Until` asks of them."""

from __future__ import annotations

import numpy as np
import pytest
from small import sampled

import traceclass as tc

GOOD = np.random.default_rng(0).normal(size=(4, 500))


@pytest.fixture
def until():
    return tc.Until(ess=200, rhat=1.05)


def test_good_draws_are_good_enough(until):
    assert until.is_reached({"log_likelihood": GOOD})


def test_a_chain_that_never_moved_is_not_averaged_away():
    """It stands in the middle of 63 others, where R-hat (1.05) and ESS hardly see it."""
    until = tc.Until(ess=200, rhat=1.1)
    many = np.random.default_rng(1).normal(size=(64, 100))
    assert until.is_reached({"log_likelihood": many})
    many[5] = np.median(many)
    assert not until.is_reached({"log_likelihood": many})


def test_what_is_not_a_number_is_not_good(until):
    broken = GOOD.copy()
    broken[0, 0] = np.nan
    assert not until.is_reached({"log_likelihood": broken})


def test_each_of_the_two_is_asked_for_by_itself():
    """One of four chains a standard deviation away: R-hat is about 1.1, and ESS about 30."""
    apart = GOOD + np.array([0.0, 0.0, 0.0, 1.0])[:, None]
    assert not tc.Until(rhat=1.05).is_reached({"f": apart})
    assert not tc.Until(ess=200).is_reached({"f": apart})
    assert tc.Until(rhat=1.5).is_reached({"f": apart})


def test_every_component_counts_and_constants_do_not(until):
    apart = GOOD + np.array([0.0, 0.0, 0.0, 3.0])[:, None]
    assert not until.is_reached({"f": np.stack([GOOD, apart], axis=-1)})
    assert until.is_reached({"f": np.stack([GOOD, np.ones_like(GOOD)], axis=-1)})
    assert tc.Until(ess=200, of=("g",)).is_reached({"f": apart, "g": GOOD})


def test_goals_grow_by_a_tenth_up_to_the_most():
    until = tc.Until(ess=10, max_samples=115)
    assert [until.next_goal(goal) for goal in (100, 110, 115)] == [111, 115, 115]


def test_a_run_that_time_ends_in_warm_up_has_no_draws_and_says_so(tmp_path):
    """In words, whatever is asked of it; and it can be resumed."""
    run = sampled(
        tmp_path / "run", num_warmup=100_000, until=tc.Until(ess=10, max_time=1e-3), num_samples=10
    )
    assert run.stopped_by == "max_time"
    assert run.num_samples == 0
    assert run.draws["ends"].shape == (2, 0, 2)
    assert "has no draws" in str(run.summary())
    assert run.to_arviz()["posterior"].sizes["draw"] == 0
    with pytest.raises(tc.UserError, match="ended in warm-up"):
        run.predict(np.zeros((1, 1)))
    with pytest.raises(tc.UserError, match="no draws yet"):
        tc.open_run(tmp_path / "run")
