"""Maps from a point of the domain to what a prior reads: scaling and extra features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.arrays import as_doubles
from traceclass.errors import UserValueError
from traceclass.module import Module

Inputs = Callable[[Array], Array]


class ScaleToBox(Module):
    r"""The affine map of the box [low, high] to [-1, 1]^d, with optional features appended.

    s(x) = 2 (x - low) / (high - low) - 1,    x -> (s(x), features(s(x)))
    """

    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    features: Inputs | None = eqx.field(static=True)

    # No arrays here: two maps of one box are the same, so that priors made apart refine each other.
    def __hash__(self) -> int:
        return hash((self.low, self.high, self.features))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaleToBox) and (
            (self.low, self.high, self.features) == (other.low, other.high, other.features)
        )

    def __call__(self, points: Float[Array, "points dim"]) -> Float[Array, "points features"]:
        scaled = 2 * self.to_unit_cube(points) - 1
        if self.features is None:
            return scaled
        return jnp.concatenate([scaled, self.features(scaled)], axis=-1)

    def to_unit_cube(self, points: Float[Array, "points dim"]) -> Float[Array, "points dim"]:
        """(x - low) / (high - low), the scaling that a series prior reads; without features."""
        if points.shape[-1] != len(self.low):
            raise UserValueError(
                f"scale_to_box was given a box in {len(self.low)} dimensions, but the points have "
                f"{points.shape[-1]}."
            )
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return (points - low) / (high - low)


def scale_to_box(
    low: Sequence[float], high: Sequence[float], *, features: Inputs | None = None
) -> ScaleToBox:
    """A map of the box with corners `low` and `high` onto [-1, 1]^d, for a prior's `inputs=`.

    `features` takes the scaled points (n, d) and gives extra columns (n, k) to append, e.g.
    `lambda s: jnp.sin(jnp.pi * s)`.

    >>> import jax.numpy as jnp
    >>> to_box = scale_to_box([0.0, -2.0], [1.0, 2.0])
    >>> to_box(jnp.array([[0.0, 2.0]])).tolist()
    [[-1.0, 1.0]]
    """
    low_array = np.atleast_1d(as_doubles(low, "low"))
    high_array = np.atleast_1d(as_doubles(high, "high"))
    if low_array.ndim != 1 or low_array.shape != high_array.shape:
        raise UserValueError(
            f"scale_to_box needs two corners of one length, got shapes {low_array.shape} and "
            f"{high_array.shape}."
        )
    wrong = ~(np.isfinite(low_array) & np.isfinite(high_array) & (low_array < high_array))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise UserValueError(
            f"scale_to_box needs low < high, both finite, got [{low_array[i]}, {high_array[i]}] in "
            f"dimension {i}. An empty side cannot be scaled to [-1, 1]."
        )
    return ScaleToBox(tuple(low_array.tolist()), tuple(high_array.tolist()), features)
