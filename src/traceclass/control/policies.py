"""Policies from a value function: a policy maps (key, states (n, d)) to actions (n,).

A value function maps states (n, d) to values (n,); `successors` maps states (n, d) to the states
(n, M, d) that the M actions lead to. Values are noise-free here; noise is the policy's.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from traceclass.draws import over_draws
from traceclass.module import Module
from traceclass.priors.base import Prior
from traceclass.validation import require_positive

# Draws evaluated together: enough to fill matrix products, few enough for the cache.
_AT_A_TIME = 16

ValueFunction = Callable[[Float[Array, "states dim"]], Float[Array, " states"]]
Successors = Callable[[Float[Array, "states dim"]], Float[Array, "states actions dim"]]
Policy = Callable[[Key[Array, ""], Float[Array, "states dim"]], Int[Array, " states"]]


def successor_values(
    value: ValueFunction, successors: Successors, states: Float[Array, "states dim"]
) -> Float[Array, "states actions"]:
    """The value of the state that each action leads to."""
    after = successors(states)
    return value(after.reshape(-1, after.shape[-1])).reshape(after.shape[:-1])


class Argmax(Module):
    """See `argmax_policy`; a module, so that rollouts of many value functions compile once."""

    value: ValueFunction
    successors: Successors = eqx.field(static=True)

    def __call__(self, key: Key[Array, ""], states: Array) -> Array:
        del key
        return jnp.argmax(successor_values(self.value, self.successors, states), axis=-1)


class NoisyArgmax(Module):
    """See `noisy_argmax_policy`."""

    value: ValueFunction
    successors: Successors = eqx.field(static=True)
    noise: float = eqx.field(static=True)

    def __call__(self, key: Key[Array, ""], states: Array) -> Array:
        values = successor_values(self.value, self.successors, states)
        return jnp.argmax(values + self.noise * jax.random.normal(key, values.shape), axis=-1)


class Thompson(Module):
    """See `thompson_policy`."""

    prior: Prior
    positions: Float[Array, "states z"]
    successors: Successors = eqx.field(static=True)

    def __call__(self, key: Key[Array, ""], states: Array) -> Array:
        del key
        values = own_values(self.prior, self.positions, self.successors(states))
        return jnp.argmax(values, axis=-1)


class MeanValue(Module):
    """x -> the mean of v(x) over the functions of `positions`; a module, so it compiles once."""

    prior: Prior
    positions: Float[Array, "draws z"]

    def __call__(self, states: Float[Array, "states dim"]) -> Float[Array, " states"]:
        return jnp.mean(draw_values(self.prior, self.positions, states), axis=0)


class Majority(Module):
    """See `majority_policy`."""

    prior: Prior
    positions: Float[Array, "draws z"]
    successors: Successors = eqx.field(static=True)

    def __call__(self, key: Key[Array, ""], states: Array) -> Array:
        del key
        after = self.successors(states)
        values = draw_values(self.prior, self.positions, after.reshape(-1, after.shape[-1]))
        best = jnp.argmax(values.reshape(-1, *after.shape[:-1]), axis=-1)
        votes = jnp.sum(jax.nn.one_hot(best, after.shape[1]), axis=0)
        return jnp.argmax(votes, axis=-1)


@eqx.filter_jit
def draw_values(
    prior: Prior, positions: Float[Array, "draws z"], points: Float[Array, "points dim"]
) -> Float[Array, "draws points"]:
    """The function of every position at every point, some at a time in memory."""
    return over_draws(prior.at(points), positions, _AT_A_TIME)


@eqx.filter_jit
def own_values(
    prior: Prior, positions: Float[Array, "states z"], after: Float[Array, "states actions dim"]
) -> Float[Array, "states actions"]:
    """Row by row, the function of one position at the successors of one state."""
    return jax.vmap(prior.evaluate)(positions, after)


def argmax_policy(value: ValueFunction, successors: Successors) -> Policy:
    """The action whose successor has the highest value (eq. opt_pol, deterministic dynamics)."""
    return Argmax(value, successors)


def noisy_argmax_policy(value: ValueFunction, successors: Successors, *, noise: float) -> Policy:
    r"""argmax_a [v(T(x, a)) + e_a], e ~ N(0, noise^2 I): the expert of eq. random_action_2."""
    noise = require_positive(noise, "noise", "Without noise use argmax_policy.")
    return NoisyArgmax(value, successors, noise)


def majority_policy(
    prior: Prior, positions: Float[Array, "draws z"], successors: Successors
) -> Policy:
    """The action that is the best of most posterior draws; of several, the first."""
    return Majority(prior, positions, successors)


def thompson_policy(
    prior: Prior, positions: Float[Array, "states z"], successors: Successors
) -> Policy:
    """One posterior draw per episode: episode e acts by the argmax of the function of positions[e].

    The policy keeps episode and draw together, so its `states` must hold one row per position.
    """
    return Thompson(prior, positions, successors)
