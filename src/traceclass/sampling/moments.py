"""Running mean and variance of a functional, one draw at a time (Welford 1962)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class Moments(NamedTuple):
    """Number n, mean, and sum of squared deviations m2 of the draws so far."""

    num_draws: Int[Array, "*chains"]
    mean: Float[Array, "*chains_and_shape"]
    m2: Float[Array, "*chains_and_shape"]


def no_moments(like: Array) -> Moments:
    """Moments of no draws of something shaped like `like`."""
    return Moments(jnp.zeros((), jnp.int32), jnp.zeros_like(like), jnp.zeros_like(like))


def add_draw(moments: Moments, value: Array) -> Moments:
    r"""mean' = mean + (x - mean)/n,  m2' = m2 + (x - mean)(x - mean')."""
    n = moments.num_draws + 1
    mean = moments.mean + (value - moments.mean) / n
    return Moments(n, mean, moments.m2 + (value - moments.mean) * (value - mean))


def moments_of(
    function: Callable[[Array], Array], positions: Float[Array, "draws z"]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of a function over positions, one of them in memory at a time."""
    shape = jax.eval_shape(function, positions[0])
    begin = no_moments(jnp.zeros(shape.shape, shape.dtype))

    def add(moments: Moments, z: Array) -> tuple[Moments, None]:
        return add_draw(moments, function(z)), None

    found, _ = jax.jit(lambda z: jax.lax.scan(add, begin, z))(positions)
    return pooled(jax.tree.map(lambda part: part[None], found))


def error_of_mean(moments: Moments) -> float:
    """The standard error of a mean field, from the spread of the chains' own means.

    It is the root mean square over the entries of the field; not a number of one chain.
    """
    means = np.asarray(moments.mean, dtype=np.float64)
    if len(means) < 2:
        return float("nan")
    return float(np.sqrt(np.mean(means.var(axis=0, ddof=1) / len(means))))


def pooled(moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over all chains (leading axis) and draws."""
    count = np.asarray(moments.num_draws, dtype=np.float64)
    mean = np.asarray(moments.mean, dtype=np.float64)
    m2 = np.asarray(moments.m2, dtype=np.float64)
    weights = count / count.sum()
    overall = np.tensordot(weights, mean, axes=1)
    between = np.tensordot(count, (mean - overall) ** 2, axes=1)
    # Rounding can leave a sum of squares slightly below zero where all draws are the same.
    variance = np.maximum(m2.sum(axis=0) + between, 0.0) / (count.sum() - 1)
    return np.asarray(overall), np.asarray(np.sqrt(variance))
