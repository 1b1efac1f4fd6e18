"""What every prior is: a Gaussian measure on functions, seen through whitened coordinates."""

from __future__ import annotations

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from traceclass.module import Module
from traceclass.validation import require_finite


class Prior(Module):
    r"""A Gaussian prior on functions v: R^d -> R, in coordinates z ~ N(0, I).

    The prior owns the map

        z  ->  theta = C^(1/2) z  ->  v(.; theta),

    so a sampler never sees a covariance: to it every prior is a standard normal.
    Subclasses say how the function is built from z at fixed points (`at`).
    """

    num_inputs: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def num_coordinates(self) -> int:
        """Length of a position z."""

    @abc.abstractmethod
    def at(self, points: ArrayLike) -> Callable[[Array], Array]:
        """The map z -> (v(x_1), ..., v(x_n)), with all that does not depend on z precomputed."""

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape z"]:
        """Positions z ~ N(0, I), one for each entry of `shape`."""
        return jax.random.normal(key, (*shape, self.num_coordinates))

    def evaluate(self, z: Float[Array, " z"], x: ArrayLike) -> Float[Array, "*points"]:
        """The function of position z at one point x (d,) or at many (n, d)."""
        points = jnp.atleast_2d(jnp.asarray(x, dtype=float))
        values = self.at(points)(z)
        return values[0] if jnp.ndim(x) == 1 else values

    def checked_points(self, points: ArrayLike) -> Float[Array, "points dim"]:
        """`points` as a finite (n, d) array, or an error that says what is wrong with them."""
        array = jnp.asarray(points, dtype=float)
        if array.ndim != 2 or array.shape[1] != self.num_inputs:
            raise ValueError(
                f"{type(self).__name__} was made for num_inputs={self.num_inputs}, so points must "
                f"have shape (n, {self.num_inputs}); got {array.shape}."
            )
        return require_finite(array, "points")
