"""How often a posterior of value functions takes the expert's action."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from traceclass import scores
from traceclass.control.policies import draw_values
from traceclass.likelihoods.choice_probability import log_choice_probability
from traceclass.priors import Prior

# States whose successors are evaluated together: bounds the memory.
_STATES_AT_A_TIME = 250


def values_of_successors(
    prior: Prior,
    positions: Float[Array, "draws z"],
    successors: Float[np.ndarray, "states actions dim"],
) -> Float[np.ndarray, "draws states actions"]:
    """The function of every position at every successor, some states at a time in memory."""
    pieces = []
    for begin in range(0, len(successors), _STATES_AT_A_TIME):
        piece = jnp.asarray(successors[begin : begin + _STATES_AT_A_TIME])
        values = draw_values(prior, positions, piece.reshape(-1, piece.shape[-1]))
        pieces.append(np.asarray(values).reshape(len(positions), *piece.shape[:2]))
    return np.concatenate(pieces, axis=1)


def choice_scores(
    values: Float[np.ndarray, "draws states actions"],
    actions: Int[np.ndarray, " states"],
    *,
    noise: float,
) -> dict[str, float]:
    """How often draws, their mean and their majority choose as the expert did.

    `log_score` is the mean log-probability of the expert's choices, each averaged over draws;
    `balanced` the balanced accuracy of the mean.
    """
    num_actions = values.shape[-1]
    best = values.argmax(axis=-1)
    votes = np.stack([(best == action).sum(axis=0) for action in range(num_actions)], axis=1)
    of_mean = values.mean(axis=0).argmax(axis=-1)
    return {
        "samples": float((best == actions).mean()),
        "mean": float((of_mean == actions).mean()),
        "vote": float((votes.argmax(axis=1) == actions).mean()),
        "balanced": scores.balanced_accuracy(of_mean, actions),
        "log_score": float(np.mean(_log_predictive(values, actions, noise))),
    }


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
