"""Checks of what users pass in; each failure is one sentence that teaches."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from traceclass.errors import UserTypeError, UserValueError


def require_positive(value: float, name: str, why: str) -> float:
    """`value` as a float, if it is a finite number above zero."""
    if isinstance(value, (bool, str)) or np.ndim(value) != 0:
        raise UserTypeError(f"{name} must be a number, got {value!r} ({type(value).__name__}).")
    # In the precision it will be used in: 1e-50 is zero in single precision.
    with np.errstate(over="ignore", under="ignore"):
        working = float(np.asarray(float(value), dtype=jnp.zeros(()).dtype))
    if not (math.isfinite(working) and working > 0):
        raise UserValueError(f"{name} must be positive and finite, got {value}. {why}")
    return float(value)


def require_count(value: int, name: str, why: str, smallest: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `smallest`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or np.ndim(value) != 0:
        raise UserTypeError(
            f"{name} must be a whole number, got {value!r} ({type(value).__name__})."
        )
    if value < smallest:
        raise UserValueError(f"{name} must be at least {smallest}, got {value}. {why}")
    return int(value)


def per_layer(value: float | Sequence[float], num_layers: int, name: str) -> tuple[float, ...]:
    """One positive number per layer, from a scalar or from one number per layer."""
    why = "A variance of zero or less leaves no prior in that layer."
    if np.ndim(value) == 0:
        return (require_positive(value, name, why),) * num_layers  # pyright: ignore[reportArgumentType]
    values = tuple(value)  # pyright: ignore[reportArgumentType]
    if len(values) != num_layers:
        raise UserValueError(
            f"{name} needs one number, or one for each of the {num_layers} layers (hidden layers "
            f"and output), got {len(values)}: {list(values)}."
        )
    return tuple(require_positive(v, f"{name}[{i}]", why) for i, v in enumerate(values))


def require_shape(array: Any, shape: tuple[int, ...], name: str) -> None:
    """Refuse an array of another shape; known when traced, so it costs nothing in a program."""
    if np.shape(array) != shape:
        raise UserValueError(f"{name} must have shape {shape}, got {np.shape(array)}.")


def physical_memory() -> int:
    """Bytes of memory of this machine; where the system does not tell, more than any has."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(num_coordinates: int, what: str) -> None:
    """Refuse a prior of which a few positions would not fit the memory."""
    needed = 4 * num_coordinates
    if needed > physical_memory() / 8:
        raise UserValueError(
            f"{what} has {num_coordinates:,} coefficients, {needed / 2**30:.3g} GiB for one "
            f"position in single precision; this machine has {physical_memory() / 2**30:.3g} GiB. "
            "Use fewer terms or narrower layers."
        )


def require_finite(array: Any, name: str) -> Any:
    """`array` itself, if it holds no NaN and no infinity (unchecked while being traced)."""
    if isinstance(array, Tracer):
        return array
    bad = ~np.isfinite(np.asarray(array))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise UserValueError(
            f"{name} must be finite, got {np.asarray(array)[where]} at index {where} "
            f"({int(bad.sum())} of {bad.size} entries). Remove or repair these rows."
        )
    return array
