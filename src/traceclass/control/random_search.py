r"""Augmented random search for a linear expert and its actions together.

With parameters p = (W, A), perturbations d_i ~ N(0, I), and R(p) the return of p,

    p <- p + step / (b s) sum_{i best b} [R(p + noise d_i) - R(p - noise d_i)] d_i

where the best b of N directions are those with the largest max of the two returns, and s is the
standard deviation of the returns used (Mania, Guy & Recht 2018, V2-t). States are normalised by
the mean and the deviation of all that were visited.

R is the sum of the returns of the *continuous* expert W and of the *discretised* one, which takes
the nearest of the actions A: an expert found alone has saturated controls that no few actions
stand for. At given iterations A is replaced by the k-means of the continuous expert's controls,
which keeps all of them in use. An episode earns nothing after a fall on the back, nor for speed
beyond a limit, past which gaits are erratic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from traceclass.control import half_cheetah
from traceclass.control.cheetah_model import TIMESTEP
from traceclass.control.linear_expert import LinearExpert
from traceclass.errors import UserValueError
from traceclass.validation import require_count, require_positive

_STEP_SECONDS = TIMESTEP * half_cheetah.FRAME_SKIP
# Sets the generator of the trials apart from those of the search.
_TRIALS = 0x7E57
_LARGEST_SEED = 2**32 - 1  # of scikit-learn


@dataclasses.dataclass(frozen=True)
class Search:
    """Settings; those of the committed expert are the defaults."""

    num_actions: int = 8
    num_iterations: int = 100
    num_directions: int = 32
    num_best: int = 8
    step_size: float = 0.02
    noise: float = 0.03
    num_steps: int = 150
    control_cost: float = 0.3
    top_speed: float = 2.5
    requantise_at: tuple[int, ...] = (60,)
    trial_every: int = 10
    num_trials: int = 50
    trial_steps: int = 100
    seed: int = 3  # of 0 to 3, the one all of whose actions are in use

    def __post_init__(self):
        for name in ("num_iterations", "num_directions", "num_best", "num_steps"):
            require_count(getattr(self, name), name, "A search needs some.")
        for name in ("trial_every", "num_trials", "trial_steps"):
            require_count(getattr(self, name), name, "The best expert is found by trials.")
        require_count(self.num_actions, "num_actions", "One leaves nothing to choose.", 2)
        for name in ("step_size", "noise", "top_speed"):
            require_positive(getattr(self, name), name, "Without it nothing is learnt.")
        for iteration in self.requantise_at:
            require_count(iteration, "requantise_at", "Before the first, no control is in use.")
        if self.num_best > self.num_directions:
            raise UserValueError(
                f"num_best must be at most num_directions, got {self.num_best} of "
                f"{self.num_directions}: the best are some of them."
            )
        if not 0 <= self.control_cost < np.inf:
            raise UserValueError(f"control_cost must be at least 0, got {self.control_cost}.")
        if require_count(self.seed, "seed", "", 0) > _LARGEST_SEED:
            raise UserValueError(f"seed must be at most {_LARGEST_SEED}, got {self.seed}.")


class SearchState(NamedTuple):
    """Where a search is: everything the next iteration needs, and the best expert so far."""

    iteration: int
    weights: np.ndarray
    actions: np.ndarray
    num_visited: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    best_score: np.ndarray
    best_weights: np.ndarray
    best_actions: np.ndarray
    best_mean: np.ndarray
    best_scale: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The mean of all visited states."""
        return self.total / max(float(self.num_visited), 1.0)

    @property
    def scale(self) -> np.ndarray:
        """Their standard deviation; one before any was seen."""
        if self.num_visited == 0:
            return np.ones_like(self.total)
        return np.sqrt(np.maximum(self.squares / self.num_visited - self.mean**2, 1e-8))

    @property
    def best(self) -> LinearExpert:
        """The expert that did best in trials so far."""
        return LinearExpert(self.best_weights, self.best_mean, self.best_scale, self.best_actions)


def begin(search: Search) -> SearchState:
    """No control at all, and actions at random."""
    generator = np.random.default_rng([search.seed, 0])
    dim, controls = half_cheetah.DIM, half_cheetah.NUM_CONTROLS
    weights = np.zeros((controls, dim))
    actions = generator.uniform(-1, 1, (search.num_actions, controls))
    zeros, ones = np.zeros(dim), np.ones(dim)
    return SearchState(
        0, weights, actions, np.zeros(()), zeros, zeros,
        np.array(-np.inf), weights, actions, zeros, ones,
    )  # fmt: skip


def iterations(search: Search, state: SearchState) -> Iterator[tuple[SearchState, dict[str, Any]]]:
    """Go on to `num_iterations`: after each, the state and, after some, how trials went.

    Randomness comes from (seed, iteration), so a search that was stopped goes on as if it had not.
    """
    while state.iteration < search.num_iterations:
        state = _improved(search, state)
        trial: dict[str, Any] = {}
        if state.iteration % search.trial_every == 0:
            state, trial = tried(search, state)
        yield state, trial


def tried(search: Search, state: SearchState) -> tuple[SearchState, dict[str, Any]]:
    """Trials from fixed starts; the best expert is that with the best score.

    The score is the discretised expert's distance, less a metre for each per cent of either
    expert's falls, and less where an action is hardly used.
    """
    starts = half_cheetah.initial_states(
        np.random.default_rng([search.seed, _TRIALS]), search.num_trials
    )
    now = LinearExpert(state.weights, state.mean, state.scale, state.actions)
    figures = dict(trial(now, starts, search.trial_steps))
    falls = figures["discretised_falls"] + figures["continuous_falls"]
    unused = max(0.0, 0.05 - figures["least_share"])
    score = figures["discretised_distance"] - 100 * falls - 100 * unused
    figures |= {"iteration": state.iteration, "score": score}
    if score > state.best_score:
        state = state._replace(
            best_score=np.array(score),
            best_weights=state.weights,
            best_actions=state.actions,
            best_mean=state.mean,
            best_scale=state.scale,
        )
    return state, figures


def trial(expert: LinearExpert, starts: np.ndarray, num_steps: int) -> Mapping[str, float]:
    """Distances and falls of both experts, and the least share of steps an action is taken in."""
    figures: dict[str, float] = {}
    for name, is_discrete in (("discretised", True), ("continuous", False)):
        episodes = _episodes_of(expert, starts, num_steps, is_discrete=is_discrete)
        figures[f"{name}_distance"] = float(episodes.distances.mean())
        figures[f"{name}_falls"] = float(episodes.fell.mean())
        if is_discrete:
            visited = expert.nearest(episodes.states.reshape(-1, half_cheetah.DIM))
            shares = np.bincount(visited, minlength=expert.num_actions) / visited.size
            figures["least_share"], figures["largest_share"] = map(
                float, (shares.min(), shares.max())
            )
    return figures


class Episodes(NamedTuple):
    """Many episodes: returns, distances, falls, and the states before each step."""

    returns: np.ndarray
    distances: np.ndarray
    fell: np.ndarray
    states: np.ndarray


def _improved(search: Search, state: SearchState) -> SearchState:
    """One iteration."""
    generator = np.random.default_rng([search.seed, 1, state.iteration])
    if state.iteration in search.requantise_at:
        state = state._replace(actions=_requantised(search, state, generator))
    count = search.num_directions
    directions = [
        generator.standard_normal((count, *p.shape)) for p in (state.weights, state.actions)
    ]
    weights, actions = (
        np.concatenate([p + search.noise * d, p - search.noise * d] * 2)
        for p, d in zip((state.weights, state.actions), directions, strict=True)
    )
    starts = np.repeat(half_cheetah.initial_states(generator, 1), len(weights), axis=0)
    episodes = _episodes(
        weights,
        np.clip(actions, -1, 1),
        state.mean,
        state.scale,
        starts,
        search.num_steps,
        is_discrete=np.arange(len(weights)) < 2 * count,
        control_cost=search.control_cost,
        top_speed=search.top_speed,
    )
    returns = episodes.returns[: 2 * count] + episodes.returns[2 * count :]
    moves = [_ascent(search, returns, d) for d in directions]
    visited = episodes.states.reshape(-1, half_cheetah.DIM)
    return state._replace(
        iteration=state.iteration + 1,
        weights=state.weights + moves[0],
        actions=np.clip(state.actions + moves[1], -1, 1),
        num_visited=state.num_visited + len(visited),
        total=state.total + visited.sum(axis=0),
        squares=state.squares + (visited**2).sum(axis=0),
    )


def _ascent(search: Search, returns: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """step / (b s) sum (R+ - R-) d over the best directions."""
    plus, minus = np.split(returns, 2)
    best = np.argsort(-np.maximum(plus, minus))[: search.num_best]
    spread = np.concatenate([plus[best], minus[best]]).std() + 1e-8
    total = np.tensordot((plus - minus)[best], directions[best], axes=1)
    return search.step_size / (search.num_best * spread) * total


def _episodes(
    weights: np.ndarray,
    actions: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    states: np.ndarray,
    num_steps: int,
    *,
    is_discrete: np.ndarray,
    control_cost: float,
    top_speed: float = np.inf,
) -> Episodes:
    """Row i with its own weights (6, 17) and actions (M, 6), discretised where told."""
    rows = np.arange(len(states))
    returns, distances = np.zeros(len(states)), np.zeros(len(states))
    fell, visited = np.zeros(len(states), bool), []
    for _ in range(num_steps):
        controls = np.einsum("nij,nj->ni", weights, (states - mean) / scale)
        controls = np.clip(controls, -1, 1)
        nearest = np.argmin(np.sum((actions - controls[:, None]) ** 2, axis=-1), axis=-1)
        controls = np.where(is_discrete[:, None], actions[rows, nearest], controls)
        visited.append(states)
        states, way = half_cheetah.advance(states, controls)
        distances += way
        fell |= half_cheetah.on_back(states)
        speed = np.minimum(way / _STEP_SECONDS, top_speed)
        reward = speed - control_cost * np.sum(controls**2, axis=1)
        returns += np.where(fell, 0.0, reward)
    return Episodes(returns, distances, fell, np.array(visited))


def _episodes_of(
    expert: LinearExpert, starts: np.ndarray, num_steps: int, *, is_discrete: bool
) -> Episodes:
    """One expert from every start."""
    return _episodes(
        np.broadcast_to(expert.weights, (len(starts), *expert.weights.shape)),
        np.broadcast_to(expert.actions, (len(starts), *expert.actions.shape)),
        expert.mean,
        expert.scale,
        starts,
        num_steps,
        is_discrete=np.full(len(starts), is_discrete),
        control_cost=0.0,
    )


def _requantised(search: Search, state: SearchState, generator: np.random.Generator) -> np.ndarray:
    """Centres of the continuous expert's controls by k-means."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    starts = half_cheetah.initial_states(generator, search.num_trials)
    continuous = LinearExpert(state.weights, state.mean, state.scale, state.actions)
    episodes = _episodes_of(continuous, starts, search.trial_steps, is_discrete=False)
    controls = continuous.controls(episodes.states.reshape(-1, half_cheetah.DIM))
    means = KMeans(search.num_actions, n_init=5, random_state=search.seed)  # pyright: ignore[reportArgumentType]
    # Threads add up in the order in which they end, and so not to the same bits every time.
    with threadpool_limits(1):
        return means.fit(controls).cluster_centers_
