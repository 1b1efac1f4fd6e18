"""How often a posterior or a classifier takes the expert's action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from traceclass import control
from traceclass.control import half_cheetah as cheetah
from traceclass.control.policies import draw_values
from traceclass.experiments.cheetah import DataSet
from traceclass.experiments.driving import mean_over
from traceclass.likelihoods.choice_probability import log_choice_probability
from traceclass.priors import Prior

CLONES = (*control.CLONES, "forest")
# Test states whose successors are evaluated together: bounds the memory.
_STATES_AT_A_TIME = 250


def scores(prior: Prior, positions: Array, data: DataSet, *, noise: float) -> dict[str, float]:
    """On the test set: how often draws, their mean and their majority choose as the expert did.

    `log_score` is the mean log-probability of the expert's choices, that of each the mean over
    draws; `balanced` the mean over actions of the share in which the mean chooses them rightly.
    """
    actions = data.tests.actions
    num_actions = data.test_successors.shape[1]
    values = held_out_values(prior, positions, data)
    best = values.argmax(axis=-1)
    votes = np.stack([(best == action).sum(axis=0) for action in range(num_actions)], axis=1)
    of_mean = values.mean(axis=0).argmax(axis=-1)
    return {
        "samples": float((best == actions).mean()),
        "mean": float((of_mean == actions).mean()),
        "vote": float((votes.argmax(axis=1) == actions).mean()),
        "balanced": balanced_accuracy(of_mean, actions),
        "log_score": float(np.mean(_log_predictive(values, actions, noise))),
    }


def held_out_values(prior: Prior, positions: Array, data: DataSet) -> np.ndarray:
    """Values (draws, states, actions) of the test set's successors."""
    after, count = data.test_successors, len(data.test_successors)
    pieces = []
    for begin in range(0, count, _STATES_AT_A_TIME):
        piece = jnp.asarray(after[begin : begin + _STATES_AT_A_TIME])
        values = draw_values(prior, positions, piece.reshape(-1, piece.shape[-1]))
        pieces.append(np.asarray(values).reshape(len(positions), *piece.shape[:2]))
    return np.concatenate(pieces, axis=1)


def _log_predictive(values: np.ndarray, actions: np.ndarray, noise: float) -> np.ndarray:
    """log mean over draws of p(the expert's action), for each test state."""
    # The expert's action first, its rivals after it, as the probability of a choice wants them.
    is_rival = np.arange(values.shape[-1]) != actions[:, None]
    order = jnp.asarray(np.argsort(is_rival, axis=1, kind="stable"))

    def log_probability(v: Array) -> Array:
        chosen, *rivals = jnp.take_along_axis(v, order, axis=1).T
        return log_choice_probability((chosen - jnp.stack(rivals)) / noise)

    @jax.jit
    def log_means(values: Array) -> Array:
        each = jax.lax.map(log_probability, values)
        return jax.nn.logsumexp(each, axis=0) - jnp.log(len(values))

    return np.asarray(log_means(jnp.asarray(values)), dtype=np.float64)


def balanced_accuracy(predicted: np.ndarray, actions: np.ndarray) -> float:
    """The mean over actions, of those that occur, of the share predicted rightly."""
    shares = [(predicted[actions == a] == a).mean() for a in np.unique(actions)]
    return float(np.mean(shares))


def clone_of(method: str, data: DataSet) -> Any:
    """A classifier of the demonstrated states, which is a policy too."""
    seen = data.demonstrations
    count = data.successors.shape[1]
    if method == "forest":
        return control.forest(seen.states, seen.actions, num_actions=count, seed=data.seed)
    return control.clone(
        jnp.asarray(seen.states),
        seen.actions,
        cheetah.LOW,
        cheetah.HIGH,
        num_actions=count,
        method=method,  # pyright: ignore[reportArgumentType]
        seed=data.seed,
    )


def clone_scores(clone: Any, data: DataSet) -> dict[str, float]:
    """On the test set, as `scores`."""
    actions = data.tests.actions
    log_probabilities = np.asarray(clone.log_probabilities(jnp.asarray(data.tests.states)))
    best = log_probabilities.argmax(axis=1)
    return {
        "mean": float((best == actions).mean()),
        "balanced": balanced_accuracy(best, actions),
        "log_score": float(log_probabilities[np.arange(len(actions)), actions].mean()),
    }


def over_data_sets(cells: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """Mean and standard error over data sets of each figure."""
    return {name: mean_over([cell[name] for cell in cells]) for name in names}
