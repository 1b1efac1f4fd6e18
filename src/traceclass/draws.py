"""Functions of many posterior draws, with few of the draws in memory at a time."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from traceclass.priors.base import Prior

# Draws evaluated together: enough to fill matrix products, few enough for the memory.
AT_A_TIME = 32


def over_draws(
    function: Callable[[Array], Array],
    positions: Float[Array, "draws z"],
    at_a_time: int = AT_A_TIME,
) -> Float[Array, "draws *shape"]:
    """The function of every position; to be compiled with what calls it, or by `compiled_over`."""
    return jax.lax.map(function, positions, batch_size=at_a_time)


compiled_over = eqx.filter_jit(over_draws)


def mean_function(
    prior: Prior, positions: Float[Array, "draws z"]
) -> Callable[[Float[Array, "points dim"]], Float[Array, " points"]]:
    """x -> the mean of the functions of all positions, as a JAX function of points (n, d)."""

    def mean(x: Float[Array, "points dim"]) -> Float[Array, " points"]:
        return jnp.mean(over_draws(prior.at(x), positions), axis=0)

    return mean


def chain_means(function: Callable[[Array], Array], positions: Array) -> np.ndarray:
    """Means over the draws of each chain, (chains, ...), of positions (chains, draws, z)."""
    total = np.asarray(_folded(function, jnp.add, positions), dtype=np.float64)
    return total / positions.shape[1]


def chain_log_means(function: Callable[[Array], Array], positions: Array) -> np.ndarray:
    """Logarithms of the means of exp(f), which are right where exp(f) is too small a number."""
    total = np.asarray(_folded(function, jnp.logaddexp, positions), dtype=np.float64)
    return total - np.log(positions.shape[1])


@eqx.filter_jit
def _folded(
    function: Callable[[Array], Array], join: Callable[[Array, Array], Array], positions: Array
) -> Array:
    """f(z_1) joined with f(z_2), ... over the draws of each chain, one draw in memory at a time."""

    def of_chain(chain: Array) -> Array:
        return jax.lax.scan(
            lambda total, z: (join(total, function(z)), None), function(chain[0]), chain[1:]
        )[0]

    return jax.lax.map(of_chain, positions)


def carried(
    key: Key[Array, ""], positions: ArrayLike, prior: Prior, to: Prior
) -> Float[Array, "draws to_z"]:
    """Positions (draws, z) of `prior` as positions of a coarser or a finer prior `to`.

    See `Prior.restrict` and `Prior.prolong`, which draws new coordinates, each time others.
    """
    positions = jnp.asarray(positions)
    if to.num_coordinates < prior.num_coordinates:
        return jax.vmap(lambda z: prior.restrict(z, to))(positions)
    keys = jax.random.split(key, len(positions))
    return jax.vmap(lambda key, z: prior.prolong(key, z, to))(keys, positions)


def evenly_spaced(draws: np.ndarray, count: int) -> np.ndarray:
    """About `count` of the draws (chains, draws, ...), as many per chain, the last included."""
    each = min(max(1, count // len(draws)), draws.shape[1])
    chosen = np.linspace(0, draws.shape[1], each + 1)[1:].astype(int) - 1
    return draws[:, chosen]
