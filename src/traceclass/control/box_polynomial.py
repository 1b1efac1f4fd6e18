r"""A smooth function on a rectangle as a polynomial: computed once, then evaluated often.

The mean of a thousand networks is slow to evaluate, and driving a car by it asks for millions of
values. It is analytic, so its Chebyshev interpolant converges geometrically: the error is that of
single precision long before the table is large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.errors import UserValueError
from traceclass.module import Module
from traceclass.validation import require_count


class BoxPolynomial(Module):
    r"""p(x) = sum_jk c_jk T_j(s_1) T_k(s_2) with s the point scaled to [-1, 1]^2.

    Points outside the rectangle are moved to its edge: a polynomial means nothing there.
    """

    coefficients: Float[Array, "degree degree"]
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, points: Float[Array, "points 2"]) -> Float[Array, " points"]:
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        scaled = jnp.clip(2 * (points - low) / (high - low) - 1, -1.0, 1.0)
        left, right = (_chebyshev(scaled[:, i], len(self.coefficients)) for i in range(2))
        return jnp.sum((left @ self.coefficients) * right, axis=1)


def box_nodes(
    low: Sequence[float], high: Sequence[float], nodes_a_side: int
) -> Float[np.ndarray, "nodes 2"]:
    """The Chebyshev points of the first kind in the rectangle, first coordinate slowest."""
    count = require_count(nodes_a_side, "nodes_a_side", "A polynomial needs nodes.")
    side = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    square = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.asarray(low) + (square + 1) / 2 * (np.asarray(high) - np.asarray(low))


def interpolant(values: Any, low: Sequence[float], high: Sequence[float]) -> BoxPolynomial:
    r"""The polynomial with the given values at `box_nodes(low, high, n)`, n^2 of them.

    At the Chebyshev points the T_j are orthogonal, so with C_ij = T_j(x_i)

        c = D C^T v C D / n^2,    D = diag(1, 2, 2, ...)
    """
    values = np.asarray(values, dtype=np.float64)
    count = round(values.size**0.5)
    if count**2 != values.size:
        raise UserValueError(
            f"interpolant needs a value at each node of a square grid, got {values.size} values."
        )
    angles = np.pi * (np.arange(count) + 0.5) / count
    table = np.cos(np.outer(angles, np.arange(count)))
    weights = np.where(np.arange(count) == 0, 1.0, 2.0) / count
    coefficients = weights[:, None] * (table.T @ values.reshape(count, count) @ table) * weights
    return BoxPolynomial(
        jnp.asarray(coefficients, dtype=float), tuple(map(float, low)), tuple(map(float, high))
    )


def largest_error(
    polynomial: BoxPolynomial,
    function: Callable[[Array], Array],
    key: Array,
    num_points: int = 500,
) -> float:
    """The largest difference to the function itself at random points of the rectangle."""
    low, high = jnp.asarray(polynomial.low), jnp.asarray(polynomial.high)
    points = low + (high - low) * jax.random.uniform(key, (num_points, 2))
    return float(jnp.max(jnp.abs(polynomial(points) - function(points))))


def _chebyshev(s: Float[Array, " points"], count: int) -> Float[Array, "points degree"]:
    """T_0 ... T_{count-1}: cosines, because the recurrence loses digits in single precision."""
    return jnp.cos(jnp.arccos(s)[:, None] * jnp.arange(count))
