"""Choices of an expert who takes the action of highest value, up to noise (eq. random_action_2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from traceclass.arrays import as_doubles, as_floats, as_numbers
from traceclass.errors import UserTypeError, UserValueError
from traceclass.likelihoods.choice_probability import log_choice_probability
from traceclass.module import Module
from traceclass.validation import require_finite, require_positive, require_shape

Saturation = Callable[[Array], Array]


class ActionChoice(Module):
    r"""Demonstrations of an expert who picks argmax_a [ v(T(x_t, a)) + e_t(a) ].

        log L(a_1:T | v) = sum_t log P( v_t,a_t + e_a_t > v_t,j + e_j for all j != a_t ),
        v_t,j = s(v(T(x_t, j))),   e ~ N(0, noise^2 I)

    `successors` (T, M, d) holds T(x_t, j), the state that each action leads to, and `actions` (T,)
    the choices, counted from 0. `saturation` is s: None for the identity, a number c for
    c tanh(v/c), or a bounded function; a bounded s is what the theory of gradient-based
    function-space kernels asks for (Theorem 3).

    `points` holds the T * M successors action by action, the chosen action first: row r * T + t is
    the r-th successor of demonstration t. `by_action` puts values in the order of `successors`.
    Only differences of v enter: the likelihood does not change when a constant is added to v
    (without saturation).

    >>> import jax.numpy as jnp, traceclass as tc
    >>> likelihood = tc.ActionChoice(jnp.array([[[-1.0], [1.0]]]), jnp.array([1]), noise=0.1)
    >>> bool(jnp.isclose(likelihood.log_prob(jnp.zeros(2)), jnp.log(0.5)))
    True
    """

    points: Float[Array, "points dim"]
    actions: Int[Array, " demonstrations"]
    noise: float = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    saturation: Saturation | float | None = eqx.field(static=True)

    def __init__(
        self,
        successors: Any,
        actions: Any,
        *,
        noise: float,
        saturation: Saturation | float | None = None,
    ):
        successors = _checked_successors(successors)
        num_demonstrations, num_actions, dim = successors.shape
        actions = _checked_actions(actions, num_demonstrations, num_actions)
        self.actions = jnp.asarray(actions)
        order = np.argsort(_rows_of_actions(self.actions, num_actions), axis=1)
        ordered = np.take_along_axis(successors, order[:, :, None], axis=1)
        self.points = as_floats(np.swapaxes(ordered, 0, 1).reshape(-1, dim), "successors")
        self.num_actions = num_actions
        self.noise = require_positive(
            noise, "noise", "It is the standard deviation of the noise on each action's value."
        )
        if saturation is not None and not callable(saturation):
            saturation = require_positive(
                saturation, "saturation", "It bounds the values: s(v) = c tanh(v/c)."
            )
        self.saturation = saturation

    def log_prob(self, values: Float[Array, " points"], *, noise: Any = None) -> Float[Array, ""]:
        """log L(a | v), at another noise level if one is given."""
        return jnp.sum(self.log_prob_each(values, noise=noise))

    def log_prob_each(
        self, values: Float[Array, " points"], *, noise: Any = None
    ) -> Float[Array, " demonstrations"]:
        """The log-probability of each demonstration."""
        noise = self.noise if noise is None else noise
        require_shape(values, self.points.shape[:1], "values")
        saturated = self._saturate(values).reshape(self.num_actions, -1)
        return log_choice_probability((saturated[0] - saturated[1:]) / noise)

    def predict(self, values: Float[Array, " points"]) -> Int[Array, " demonstrations"]:
        """The actions without noise: argmax over the successors of each state."""
        return jnp.argmax(self.by_action(values), axis=1)

    def by_action(
        self, values: Float[Array, " points"]
    ) -> Float[Array, "demonstrations num_actions"]:
        """`values` in the order of the `successors` this likelihood was made from."""
        rows = _rows_of_actions(self.actions, self.num_actions)
        return jnp.take_along_axis(values.reshape(self.num_actions, -1).T, rows, axis=1)

    def _saturate(self, values: Array) -> Array:
        if self.saturation is None:
            return values
        if callable(self.saturation):
            return self.saturation(values)
        return self.saturation * jnp.tanh(values / self.saturation)


def log_choice_probabilities(
    values: Float[Array, "states actions"], *, noise: float
) -> Float[Array, "states actions"]:
    """The log-probability of each action when its successor has the given value, and noise on top.

    Their exponentials sum to one in each row, up to the precision of the quadrature.
    """
    num_actions = values.shape[1]

    def of_action(action: int) -> Array:
        rivals = [j for j in range(num_actions) if j != action]
        return log_choice_probability((values[:, action] - values[:, rivals].T) / noise)

    return jnp.stack([of_action(action) for action in range(num_actions)], axis=1)


def _rows_of_actions(actions: Array, num_actions: int) -> Array:
    """Where each action stands (T, M) once the chosen one is moved to the front."""
    label = jnp.arange(num_actions)
    chosen = actions[:, None]
    return jnp.where(label == chosen, 0, label + (label < chosen))


def _checked_successors(successors: Any) -> np.ndarray:
    successors = as_doubles(successors, "successors")
    if successors.ndim != 3 or 0 in successors.shape or successors.shape[1] < 2:
        raise UserValueError(
            "successors must have shape (T, M, d): for each of T >= 1 states, the state that each "
            f"of M >= 2 actions leads to; got {successors.shape}."
        )
    return require_finite(successors, "successors")


def _checked_actions(actions: Any, num_demonstrations: int, num_actions: int) -> np.ndarray:
    actions = as_numbers(actions, "actions")
    if actions.shape != (num_demonstrations,):
        raise UserValueError(
            f"actions must hold one action for each of the {num_demonstrations} states in "
            f"successors, got shape {actions.shape}."
        )
    if not np.issubdtype(actions.dtype, np.integer):
        raise UserTypeError(
            f"actions must be whole numbers, got {actions.dtype}. Convert with .astype(int)."
        )
    wrong = (actions < 0) | (actions >= num_actions)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise UserValueError(
            f"actions must lie in 0..{num_actions - 1}, got {actions[t]} at demonstration {t}. "
            "Actions are counted from 0, in the order of successors' second axis."
        )
    return actions.astype(np.int32)
