"""Functionals of a position that a run keeps: their shapes, and the memory that draws take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.base import Kernel
from traceclass.module import Module
from traceclass.posterior import Posterior
from traceclass.validation import physical_memory, require_callable, shape_of, shortened

Functional = Callable[[Array], Array]

_MAX_SHARE_OF_MEMORY = 0.5
_MOST_POINTS = 200
# Every move has four counters of four bytes (see `chunk.Tally`); so has a number of a kernel's own.
_COUNTERS, _COUNTER_BYTES = 4, 4


def recordable(value: Array) -> Array:
    """A functional's value as a draw keeps it: truth values count as 0 and 1."""
    array = jnp.asarray(value)
    return array.astype(jnp.int32) if array.dtype == bool else array


def few_of(values: Array) -> Array:
    """At most about 200 of a function's values at the data: enough to see it move."""
    return jnp.ravel(values)[:: max(1, values.size // _MOST_POINTS)]


class FewValues(Module):
    """z -> `few_of` the values at fixed points."""

    values_of: Callable[[Array], Array]

    def __call__(self, z: Array) -> Array:
        return few_of(self.values_of(z))


def check_functionals(
    posterior: Posterior, functionals: Mapping[str, Functional]
) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the functionals' values; names that the library uses itself are refused."""
    position = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), jnp.result_type(float))
    shapes = {}
    for name, functional in functionals.items():
        if not isinstance(name, str):
            raise UserTypeError(f"the name {shortened(name)} of a functional must be text.")
        if name in ("position", "log_likelihood", "chain", "draw"):
            raise UserValueError(
                f"the name {name!r} is kept for the run itself; choose another one."
            )
        if not name or "/" in name:
            raise UserValueError(
                f"the name {name!r} of a functional must not be empty or hold a '/'."
            )
        require_callable(functional, f"the functional {name!r}", "a position")
        shape = shape_of(functional, position, name=f"the functional {name!r}")
        if not isinstance(shape, jax.ShapeDtypeStruct):
            raise UserTypeError(f"the functional {name!r} must return one array, got several.")
        shapes[name] = shape
    return shapes


class ChainBytes(NamedTuple):
    """Bytes that one chain keeps: per draw, per stored position, and once for running moments."""

    draw: int
    position: int
    moments: int

    def kept(self, num_samples: int, position_every: int) -> int:
        """Bytes of all draws, with the position of every `position_every`-th (0: of none)."""
        num_positions = -(-num_samples // position_every) if position_every else 0
        return num_samples * self.draw + num_positions * self.position


def chain_bytes(
    posterior: Posterior,
    kernel: Kernel,
    record: Mapping[str, Functional],
    moments: Mapping[str, Functional],
) -> ChainBytes:
    """What one chain keeps in a run of `kernel` that records these functionals."""
    size = jnp.zeros(()).dtype.itemsize
    counters = _COUNTERS * len(kernel.moves) + kernel.numbers_per_draw
    recorded = _total(check_functionals(posterior, record).values())
    return ChainBytes(
        draw=size + recorded + _COUNTER_BYTES * counters,
        position=posterior.prior.num_coordinates * size,
        # A running mean and a sum of squares, however many draws there are.
        moments=2 * _total(check_functionals(posterior, moments).values()),
    )


def _total(shapes: Iterable[jax.ShapeDtypeStruct]) -> int:
    return sum(shape.size * shape.dtype.itemsize for shape in shapes)


def check_memory(num_bytes: int, store_positions: bool) -> None:
    """Refuse draws that would take more than half of the memory."""
    limit = _MAX_SHARE_OF_MEMORY * physical_memory()
    if num_bytes > limit:
        advice = "store_positions=False, fewer samples or smaller functionals"
        kept = "positions and functionals" if store_positions else "functionals"
        raise UserValueError(
            f"the draws would take {num_bytes / 2**30:.1f} GiB ({kept}), more than half of this "
            f"machine's memory ({2 * limit / 2**30:.1f} GiB). Use {advice}."
        )
