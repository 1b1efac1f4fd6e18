"""Functions that are sums of products of one-dimensional factors, without their full basis."""

from __future__ import annotations

import string

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from traceclass.module import Module


class ProductAtPoints(Module):
    r"""v(x_n) = sum_k s_k z_k prod_j phi_{k_j}(x_nj) at scattered points.

    `factors` holds phi of each input dimension, (n, K_j); the products are never formed for all k
    at once: one dimension is summed after the other.
    """

    factors: tuple[Float[Array, "points _"], ...]
    scale: Float[Array, "*terms"]

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        summed = self.scale * z.reshape(self.scale.shape)
        letters = string.ascii_lowercase[: len(self.factors)]
        # (first factor) x (coefficients) -> points x remaining terms, then rowwise
        summed = jnp.tensordot(self.factors[0], summed, axes=1)
        for letter, factor in zip(letters[1:], self.factors[1:], strict=True):
            rest = letters[letters.index(letter) + 1 :]
            summed = jnp.einsum(f"Z{letter}{rest},Z{letter}->Z{rest}", summed, factor)
        return summed


class ProductOnGrid(Module):
    r"""The same in two dimensions on a grid: V = A (s * Z) B', two small matrix products.

    `by_row` says whether the first coordinate of the points varies slowest.
    """

    first: Float[Array, "nx K"]
    second: Float[Array, "ny K"]
    scale: Float[Array, "K K"]
    by_row: bool

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        values = self.first @ (self.scale * z.reshape(self.scale.shape)) @ self.second.T
        return values.ravel() if self.by_row else values.T.ravel()


def grid_sides(points: Array) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Sides (x, y) of the grid that two-dimensional points form, and whether x varies slowest.

    None if they form no grid, or are being traced and cannot be looked at.
    """
    if isinstance(points, Tracer) or points.shape[1] != 2:
        return None
    array = np.asarray(points)
    for slow, fast in ((0, 1), (1, 0)):
        num_fast = int(np.argmax(array[:, slow] != array[0, slow])) or len(array)
        if len(array) % num_fast:
            continue
        outer, inner = array[::num_fast, slow], array[:num_fast, fast]
        if np.array_equal(array[:, slow], np.repeat(outer, num_fast)) and np.array_equal(
            array[:, fast], np.tile(inner, len(outer))
        ):
            return (outer, inner, True) if slow == 0 else (inner, outer, False)
    return None
