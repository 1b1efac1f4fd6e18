"""Which of several ways to move is the cheapest, by trials of each."""

from __future__ import annotations

import numpy as np
import pytest

from traceclass.sampling.adaptation.contest import Contest


def autoregression(kept, num_chains, steps, seed=0):
    """Chains of variance one that keep the share `kept` of themselves per step; 12 functionals."""
    rng = np.random.default_rng(seed)
    at = rng.normal(size=(num_chains, 12))
    rows = []
    for _ in range(steps):
        at = kept * at + np.sqrt(1 - kept**2) * rng.normal(size=at.shape)
        rows.append(at)
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("kept", [0.5, 0.9, 0.98])
def test_cost_is_that_of_the_closed_form(kept):
    """d(k) = 1 - kept^k is 0.8 at k = log(0.2) / log(kept); 64 chains make it nearly exact."""
    contest = Contest()
    contest.add(0, 7.0, autoregression(kept, 64, 400))
    steps = np.log(0.2) / np.log(kept)
    # Between two steps a line is drawn, and slow functionals are those at a quantile.
    assert contest.costs()[0] == pytest.approx(7.0 * steps, rel=0.2)


def test_beyond_the_end_of_a_trial_it_decays_on():
    contest = Contest()
    contest.add(0, 1.0, autoregression(0.99, 200, 100))
    contest.add(1, 1.0, autoregression(0.1, 200, 100, seed=1))
    costs = contest.costs()
    assert costs[0] == pytest.approx(np.log(0.2) / np.log(0.99), rel=0.25)
    assert costs[1] < 1.5


def test_hurrying_about_in_places_apart_is_not_mixing():
    """Chains that forget at once within modes they never leave, and chains that slowly travel."""
    apart = 10.0 * np.sign(np.arange(8) - 3.5)[:, None, None]
    contest = Contest()
    contest.add(0, 1.0, apart + autoregression(0.0, 8, 80))
    travelling = 10.0 * np.sign(autoregression(0.8, 8, 80)) + autoregression(0.0, 8, 80, seed=1)
    contest.add(1, 1.0, travelling)
    costs = contest.costs()
    assert costs[0] > 10 * costs[1]


def test_an_oscillation_does_not_win():
    """A change of four variances counts as one that has forgotten all, and not as more."""
    swinging = autoregression(0.0, 4, 1)[:, :1] * (-1.0) ** np.arange(40)[None, :, None]
    contest = Contest()
    contest.add(0, 1.0, swinging)
    assert contest.costs()[0] >= 0.8


def test_values_that_never_change_tell_nothing():
    contest = Contest()
    assert contest.costs() == {}
    contest.add(0, 1.0, np.ones((2, 20, 3)))
    assert contest.costs() == {}


def test_a_trial_goes_on_after_it_was_remembered():
    values = autoregression(0.7, 4, 80)
    whole, begun, resumed = Contest(), Contest(), Contest()
    whole.add(2, 5.0, values)
    begun.add(2, 5.0, values[:, :30])
    resumed.remember(begun.memory())
    resumed.add(2, 5.0, values[:, 30:])
    assert resumed.costs() == whole.costs()
