"""The search: uphill by its formula, better by trials, and the same however often it stops."""

from __future__ import annotations

import dataclasses

import jaxtyping
import numpy as np
import pytest

from traceclass.control import half_cheetah, random_search
from traceclass.control.random_search import Search, begin, iterations, trial, tried

TINY = Search(
    num_iterations=6,
    num_directions=4,
    num_best=2,
    num_steps=12,
    requantise_at=(3,),
    trial_every=2,
    num_trials=4,
    trial_steps=15,
)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def last(search: Search, state=None):
    """The state after all iterations, and the trials on the way."""
    first = begin(search) if state is None else state
    steps = list(iterations(search, first))
    return steps[-1][0] if steps else first, [figures for _, figures in steps if figures]


def assert_same(a, b):
    assert a._fields == b._fields
    for name, one, other in zip(a._fields, a, b, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


# --- the update


def quadratic(num_directions: int, noise: float):
    """Returns of R(p) = -|p - c|^2 at p +- noise d, as the search lays them out; and c - p."""
    rng = np.random.default_rng(0)
    position, peak = rng.normal(size=(2, 3, 5))
    directions = rng.normal(size=(num_directions, 3, 5))
    moved = np.concatenate([position + noise * directions, position - noise * directions])
    returns = -np.sum((moved - peak) ** 2, axis=(1, 2))
    return returns, directions, peak - position


def test_the_move_is_the_formula():
    search = Search(num_directions=10, num_best=4, noise=0.1, step_size=0.5)
    returns, directions, _ = quadratic(10, 0.1)
    plus, minus = returns[:10], returns[10:]
    best = sorted(range(10), key=lambda i: -max(plus[i], minus[i]))[:4]
    used = [value for i in best for value in (plus[i], minus[i])]
    expected = sum((plus[i] - minus[i]) * directions[i] for i in best) * 0.5 / (4 * np.std(used))
    np.testing.assert_allclose(
        random_search._ascent(search, returns, directions), expected, rtol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_the_move_goes_uphill_whatever_the_unit_of_the_return(scale):
    """With many directions it is that of the gradient, 2 (c - p), up to Monte Carlo error.

    The cosine with 4,000 directions in 15 dimensions is about 1 - 15 / 8,000.
    """
    search = Search(num_directions=4000, num_best=4000, noise=0.05)
    returns, directions, uphill = quadratic(4000, 0.05)
    move = random_search._ascent(search, scale * returns, directions)
    cosine = np.sum(move * uphill) / np.linalg.norm(move) / np.linalg.norm(uphill)
    assert cosine > 0.99
    few = Search(num_directions=20, num_best=5, noise=0.05)
    returns, directions, uphill = quadratic(20, 0.05)
    assert np.sum(random_search._ascent(few, scale * returns, directions) * uphill) > 0


# --- the search


def test_a_search_climbs_a_return_with_a_known_peak(monkeypatch):
    """A gait of two poses, each with torques that it wants.

    The pose turns round at each step, s' = -sign(s), and the step gains |t|^2 - |u - sign(s) t|^2:
    at most |t|^2, with the linear u = t s and also with only two actions, t and -t; nothing
    without control, and less with controls at random. A search whose steps do not shrink hovers
    below the peak, at 0.6 to 0.9 of it; half is asked for.
    """
    wanted = np.array([0.5, -0.5, 0.3, 0.0, -0.2, 0.6])

    def advance(states, controls):
        side = np.where(states[:, :1] > 0, 1.0, -1.0)
        gain = wanted @ wanted - np.sum((controls - side * wanted) ** 2, axis=1)
        return -side * np.ones_like(states), gain

    monkeypatch.setattr(half_cheetah, "advance", advance)
    search = Search(
        num_iterations=60, num_directions=16, num_best=8, num_steps=10, noise=0.1, step_size=0.05,
        control_cost=0.0, top_speed=1e6, requantise_at=(30,), trial_every=10, num_trials=10,
        num_actions=2, trial_steps=10,
    )  # fmt: skip
    before = tried(search, begin(search))[1]
    after = last(search)[1][-1]
    assert before["continuous_distance"] == 0
    for name in ("discretised_distance", "continuous_distance"):
        assert after[name] > before[name]
        assert 0.5 * 10 * wanted @ wanted < after[name] <= 10 * wanted @ wanted


def test_the_best_expert_is_that_of_the_best_trial():
    search = dataclasses.replace(TINY, num_iterations=10, requantise_at=())
    steps = list(iterations(search, begin(search)))
    states = {state.iteration: state for state, _ in steps}
    state, trials = states[10], [figures for _, figures in steps if figures]
    assert [figures["iteration"] for figures in trials] == [2, 4, 6, 8, 10]
    best = max(trials, key=lambda figures: figures["score"])
    assert state.best_score == best["score"]
    then = states[best["iteration"]]
    for name in ("weights", "actions", "mean", "scale"):
        np.testing.assert_array_equal(getattr(state.best, name), getattr(then, name))
    # The trial can be had again from the expert alone.
    starts = half_cheetah.initial_states(
        np.random.default_rng([search.seed, random_search._TRIALS]), search.num_trials
    )
    again = trial(state.best, starts, search.trial_steps)
    assert {name: best[name] for name in again} == dict(again)


def test_a_trial_is_what_the_expert_does():
    """Distances of the two experts by single steps; shares of the actions along the way."""
    state, _ = last(TINY)
    expert = state.best
    starts = half_cheetah.initial_states(np.random.default_rng(9), 5)
    figures = trial(expert, starts, 20)
    for name in ("discretised", "continuous"):
        states, way, taken = starts, np.zeros(5), []
        for _ in range(20):
            chosen = expert.nearest(states)
            taken.append(chosen)
            controls = expert.actions[chosen] if name == "discretised" else expert.controls(states)
            states, moved = half_cheetah.advance(states, controls)
            way += moved
        np.testing.assert_allclose(figures[f"{name}_distance"], way.mean(), rtol=1e-6)
        if name == "discretised":
            shares = np.bincount(np.ravel(taken), minlength=8) / np.size(taken)
            assert figures["least_share"] == shares.min()
            assert figures["largest_share"] == shares.max()
    assert 0 <= figures["discretised_falls"] <= 1


@pytest.mark.long
def test_resumed_is_as_if_it_had_not_stopped():
    """Also across the iteration at which actions are replaced, and to more iterations."""
    whole, trials = last(TINY)
    for stop in (1, 3, 4):
        first, early = last(dataclasses.replace(TINY, num_iterations=stop))
        assert first.iteration == stop
        then, late = last(TINY, first)
        assert_same(then, whole)
        assert early + late == trials
    nothing_left, none = last(TINY, whole)
    assert_same(nothing_left, whole)
    assert none == []
    assert_same(whole, last(TINY)[0])
    assert (last(dataclasses.replace(TINY, seed=1))[0].weights != whole.weights).any()


def test_requantised_actions_are_all_in_use():
    """K-means of the controls: each is the nearest of some, and the mean of those."""
    state = last(dataclasses.replace(TINY, num_iterations=3, requantise_at=()))[0]
    # Controls that vary: those of three iterations are nearly zero.
    state = state._replace(weights=np.random.default_rng(0).normal(size=(6, 17)))
    search = dataclasses.replace(TINY, num_trials=20, trial_steps=30)
    generator = np.random.default_rng(1)
    centres = random_search._requantised(search, state, generator)
    assert centres.shape == (8, 6)
    assert np.abs(centres).max() <= 1 + 1e-12
    starts = half_cheetah.initial_states(np.random.default_rng(1), 20)
    expert = dataclasses.replace(
        state.best, weights=state.weights, mean=state.mean, scale=state.scale, actions=centres
    )
    states = [starts]
    for _ in range(29):
        states.append(half_cheetah.step(states[-1], expert.controls(states[-1])))
    visited = np.concatenate(states)
    nearest, controls = expert.nearest(visited), expert.controls(visited)
    assert set(nearest) == set(range(8))
    own = np.array([controls[nearest == number].mean(axis=0) for number in range(8)])
    # K-means stops when centres move by less than 1e-4 of the variance.
    np.testing.assert_allclose(own, centres, atol=0.05)


def test_an_episode_earns_nothing_after_a_fall(monkeypatch):
    """Upright for two steps, then on the back: two steps of speed 1, whatever comes after."""
    pitch = iter([0.0, 0.0, np.pi, 0.0, 0.0])

    def advance(states, controls):
        after = np.zeros_like(states)
        after[:, 1] = next(pitch)
        return after, np.full(len(states), 0.05)

    monkeypatch.setattr(half_cheetah, "advance", advance)
    expert, starts = begin(TINY).best, np.zeros((2, 17))
    episodes = random_search._episodes_of(expert, starts, 5, is_discrete=False)
    np.testing.assert_allclose(episodes.returns, [2, 2])
    np.testing.assert_allclose(episodes.distances, [0.25, 0.25])
    assert episodes.fell.all()
    assert episodes.states.shape == (5, 2, 17)


def test_tried_between_two_trials_changes_only_the_best():
    state, _ = last(dataclasses.replace(TINY, num_iterations=1))
    after, figures = tried(TINY, state)
    assert figures["iteration"] == 1
    assert after.best_score == figures["score"]
    np.testing.assert_array_equal(after.best_weights, state.weights)
    kept = {name: None for name in state._fields if name.startswith("best")}
    assert_same(after._replace(**kept), state._replace(**kept))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_actions": 1}, "num_actions must be at least 2, got 1"),
        ({"num_iterations": 0}, "num_iterations must be at least 1, got 0"),
        ({"num_directions": 0}, "num_directions must be at least 1, got 0"),
        ({"num_best": 0}, "num_best must be at least 1, got 0"),
        (
            {"num_best": 9, "num_directions": 8},
            "num_best must be at most num_directions, got 9 of 8",
        ),
        ({"step_size": 0.0}, "step_size must be positive and finite, got 0.0"),
        ({"noise": -0.1}, "noise must be positive and finite, got -0.1"),
        ({"noise": np.nan}, "noise must be positive and finite, got nan"),
        ({"top_speed": np.inf}, "top_speed must be positive and finite, got inf"),
        ({"num_steps": 0}, "num_steps must be at least 1"),
        ({"control_cost": -1.0}, "control_cost must be at least 0, got -1.0"),
        ({"requantise_at": (0,)}, "requantise_at must be at least 1, got 0"),
        ({"trial_every": 0}, "trial_every must be at least 1"),
        ({"num_trials": 0}, "num_trials must be at least 1"),
        ({"trial_steps": 0}, "trial_steps must be at least 1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
    ],
)
def test_wrong_settings_are_one_line(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        Search(**settings)
    assert "\n" not in str(error.value)


def test_counts_are_whole_numbers(monkeypatch):
    """As users have it: without the types checked at run time, which would speak first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(TypeError, match=r"num_steps must be a whole number, got 1\.5"):
        Search(num_steps=1.5)
