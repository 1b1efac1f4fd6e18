"""Functionals of a position that a run keeps: their shapes, and the memory they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array

from traceclass.errors import UserTypeError, UserValueError
from traceclass.posterior import Posterior
from traceclass.validation import physical_memory

Functional = Callable[[Array], Array]

_MAX_SHARE_OF_MEMORY = 0.5


def recordable(value: Array) -> Array:
    """A functional's value as a draw keeps it: truth values count as 0 and 1."""
    array = jnp.asarray(value)
    return array.astype(jnp.int32) if array.dtype == bool else array


def check_functionals(
    posterior: Posterior, functionals: Mapping[str, Functional]
) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the functionals' values; names the library uses itself are refused."""
    position = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), jnp.result_type(float))
    shapes = {}
    for name, functional in functionals.items():
        if name in ("position", "log_likelihood", "chain", "draw"):
            raise UserValueError(
                f"the name {name!r} is kept for the run itself; choose another one."
            )
        if not name or "/" in name:
            raise UserValueError(
                f"the name {name!r} of a functional must not be empty or hold a '/'."
            )
        # Wrapped, because JAX compares what it traces and modules that hold arrays cannot be.
        shape = jax.eval_shape(lambda z, functional=functional: functional(z), position)
        if not isinstance(shape, jax.ShapeDtypeStruct):
            raise UserTypeError(f"the functional {name!r} must return one array, got {shape!r}.")
        shapes[name] = shape
    return shapes


def bytes_per_draw(
    posterior: Posterior,
    shapes: Mapping[str, jax.ShapeDtypeStruct],
    store_positions: bool,
) -> int:
    """Bytes that one draw of one chain keeps."""
    size = jnp.zeros(()).dtype.itemsize
    positions = posterior.prior.num_coordinates * size if store_positions else 0
    return positions + size + sum(s.size * s.dtype.itemsize for s in shapes.values())


def counter_bytes(num_moves: int, num_temperatures: int) -> int:
    """Bytes of the counters of one draw of one chain.

    Four numbers of four bytes a move, see `chunk.Tally`, and three a temperature, see
    `TemperedState.recorded`.
    """
    return 4 * (4 * num_moves + 3 * num_temperatures)


def kept_bytes(
    posterior: Posterior,
    shapes: Mapping[str, jax.ShapeDtypeStruct],
    *,
    num_samples: int,
    position_every: int,
    num_moves: int,
    num_temperatures: int,
) -> int:
    """Bytes that all draws of one chain keep, with their counters."""
    counters = counter_bytes(num_moves, num_temperatures)
    without = bytes_per_draw(posterior, shapes, store_positions=False)
    of_positions = bytes_per_draw(posterior, shapes, store_positions=True) - without
    num_positions = -(-num_samples // position_every) if position_every else 0
    return num_samples * (without + counters) + num_positions * of_positions


def check_memory(num_bytes: int, store_positions: bool) -> None:
    limit = _MAX_SHARE_OF_MEMORY * physical_memory()
    if num_bytes > limit:
        advice = "store_positions=False, fewer samples or smaller functionals"
        kept = "positions and functionals" if store_positions else "functionals"
        raise UserValueError(
            f"the draws would take {num_bytes / 2**30:.1f} GiB ({kept}), more than half of this "
            f"machine's memory ({2 * limit / 2**30:.1f} GiB). Use {advice}."
        )
