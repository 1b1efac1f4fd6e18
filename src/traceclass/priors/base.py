"""What every prior is: a Gaussian measure on functions, seen through whitened coordinates."""

from __future__ import annotations

import abc
import math
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from traceclass.arrays import as_floats
from traceclass.errors import UserValueError
from traceclass.module import Module
from traceclass.priors.inputs import Inputs, ScaleToBox
from traceclass.representation import as_table, fields_of, one_line
from traceclass.validation import require_finite, require_shape

# By name: numbers, or arrays of one number per layer. Those left out are the prior's own.
Hyperparameters = Mapping[str, Any]
ITS_OWN: Hyperparameters = MappingProxyType({})

# What `evaluate` may hold at once besides its result.
_MAX_BYTES = 256 * 2**20
# Points may leave a box by rounding; a share of its side below this is not worth a word.
_BOX_TOLERANCE = 1e-5


class Prior(Module):
    r"""A Gaussian prior on functions v: R^d -> R, in coordinates z ~ N(0, I).

    The prior owns the map

        z  ->  theta = C^(1/2) z  ->  v(.; theta),

    so a sampler never sees a covariance: to it every prior is a standard normal.

    Subclasses say how the function is built from z at fixed points (`at`), and how z is made of
    blocks, arrays that grow at their ends when the prior is refined (`blocks`). Their `refine`
    takes the sizes each has: `widths`, `max_frequency`, `num_modes`.
    """

    num_inputs: eqx.AbstractVar[int]
    inputs: eqx.AbstractVar[Inputs | None]
    # Whether points are read on [0, 1]^d unless `inputs` says otherwise.
    on_unit_cube: ClassVar[bool] = False
    # What `rescaled` takes, and `Hyper` can infer.
    hyperparameter_names: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays that z is made of, in order, each flattened row by row."""

    @abc.abstractmethod
    def at(self, points: ArrayLike) -> Callable[[Array], Array]:
        """The map z -> (v(x_1), ..., v(x_n)), with all that does not depend on z precomputed."""

    def rescaled(
        self, values_of: Any, hyperparameters: Hyperparameters
    ) -> Callable[[Array], Array]:
        """The map that `at` made, with the standard deviations of these hyperparameters."""
        if hyperparameters:
            raise UserValueError(
                f"{type(self).__name__} has no hyperparameters to change, got "
                f"{', '.join(hyperparameters)}."
            )
        return values_of

    def noise(self, position: Float[Array, " z"]) -> Float[Array, ""] | None:
        """The noise level at a position; None leaves it to the likelihood (see `Hyper`)."""
        del position
        return None

    def _words(self) -> dict[str, str]:
        """What `repr` says of it, by name."""
        return fields_of(self)

    def described(self) -> dict[str, str]:
        """What it was made from, in words by name."""
        return self._words()

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._words())

    def _repr_html_(self) -> str:
        return as_table(type(self).__name__, self._words())

    @property
    def num_coordinates(self) -> int:
        """Length of a position z."""
        return sum(math.prod(shape) for shape in self.blocks())

    def split(self, z: Float[Array, " z"]) -> list[Array]:
        """z cut into its blocks."""
        pieces, start = [], 0
        for shape in self.blocks():
            size = math.prod(shape)
            pieces.append(z[start : start + size].reshape(shape))
            start += size
        return pieces

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape z"]:
        """Positions z ~ N(0, I), one for each entry of `shape`."""
        return jax.random.normal(key, (*shape, self.num_coordinates))

    def evaluate(
        self, z: Float[Array, "*functions z"], x: ArrayLike
    ) -> Float[Array, "*functions *points"]:
        """Functions of one position (z,) or many (..., z), at a point (d,) or at many (n, d).

        Many functions at many points are worked off in pieces of limited memory.
        """
        points = as_floats(x, "x")
        rows = self.checked_points(jnp.atleast_2d(points))
        require_shape(z, (*jnp.shape(z)[:-1], self.num_coordinates), "positions")
        positions = jnp.reshape(z, (-1, self.num_coordinates))
        # One function at `step` points, or `batch` functions at all points, fit the memory.
        fitting = max(1, _MAX_BYTES // (self.floats_per_value * rows.dtype.itemsize))
        step = min(len(rows), fitting)
        batch = max(1, fitting // step)
        parts = []
        for start in range(0, len(rows), step):
            values_of = self.at(rows[start : start + step])
            parts.append(jax.lax.map(values_of, positions, batch_size=min(batch, len(positions))))
        values = jnp.concatenate(parts, axis=1)
        values = values if points.ndim == 2 else values[:, 0]
        return values.reshape(*jnp.shape(z)[:-1], *values.shape[1:])

    @property
    @abc.abstractmethod
    def floats_per_value(self) -> int:
        """Numbers held, at most, to compute one value of one function."""

    def prolong(
        self, key: Key[Array, ""] | None, z: Float[Array, " z"], finer: Prior
    ) -> Float[Array, " finer_z"]:
        """The position of `finer` that keeps z and draws its new coordinates from the prior.

        Without a key they are zero, so that the function stays as it is.
        """
        new = jnp.zeros(finer.num_coordinates) if key is None else finer.sample(key)
        return new.at[self._places_in(finer)].set(z)

    def restrict(self, z: Float[Array, " z"], coarser: Prior) -> Float[Array, " coarser_z"]:
        """The coordinates of z that `coarser` has: undoes `coarser.prolong(key, ..., self)`."""
        return z[coarser._places_in(self)]

    def _places_in(self, finer: Prior) -> np.ndarray:
        """Where this prior's coordinates stand in `finer`: the leading corner of each block."""
        if not self._is_refined_by(finer):
            raise UserValueError(
                f"{finer} is not a refinement of {self}. Make it with refine(), so that all but "
                "the sizes stay the same."
            )
        places, start = [], 0
        for coarse, fine in zip(self.blocks(), finer.blocks(), strict=True):
            numbers = start + np.arange(math.prod(fine)).reshape(fine)
            places.append(numbers[tuple(slice(n) for n in coarse)].ravel())
            start += numbers.size
        return np.concatenate(places)

    def _is_refined_by(self, finer: Prior) -> bool:
        shapes = self.blocks(), finer.blocks()
        if type(self) is not type(finer) or len(shapes[0]) != len(shapes[1]):
            return False
        larger = all(
            len(a) == len(b) and all(m <= n for m, n in zip(a, b, strict=True))
            for a, b in zip(*shapes, strict=True)
        )
        return larger and self.settings() == finer.settings()

    @abc.abstractmethod
    def settings(self) -> tuple[object, ...]:
        """What two refinements of one prior have in common: all but the sizes."""

    def checked_points(self, points: ArrayLike) -> Float[Array, "points dim"]:
        """`points` as a finite (n, d) array, or an error that says what is wrong with them.

        Points outside the box that `inputs` scales are taken, with a warning.
        """
        array = as_floats(points, "points")
        if array.ndim != 2 or array.shape[1] != self.num_inputs:
            raise UserValueError(
                f"{type(self).__name__} was made for num_inputs={self.num_inputs}, so points must "
                f"have shape (n, {self.num_inputs}); got {array.shape}."
            )
        require_finite(array, "points")
        box = self._box()
        if box is not None and not isinstance(array, Tracer):
            _warn_outside(np.asarray(array), *box)
        return array

    def _box(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Corners of the box the prior is declared on, if there is one."""
        if isinstance(self.inputs, ScaleToBox):
            return np.array(self.inputs.low), np.array(self.inputs.high)
        if self.on_unit_cube and self.inputs is None:
            return np.zeros(self.num_inputs), np.ones(self.num_inputs)
        return None


def _warn_outside(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    excess = np.maximum(low - points, points - high) / (high - low)
    outside = (excess > _BOX_TOLERANCE).any(axis=1)
    if outside.any():
        warnings.warn(
            f"{int(outside.sum())} of {len(points)} points lie outside the prior's box, by up to "
            f"{excess.max():.2g} of a side. The function is extrapolated there; widen the box if "
            "that is not meant.",
            stacklevel=4,
        )
