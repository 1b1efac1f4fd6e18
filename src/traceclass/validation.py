"""Checks of what users pass in; each failure is one sentence that teaches."""

from __future__ import annotations

import math
import numbers
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from traceclass.errors import UserTypeError, UserValueError

F = TypeVar("F", bound=Callable[..., Any])
# Python refuses to print whole numbers of more than about 14,000 bits.
_LARGEST_PRINTED = 200
# Bytes of one name in a path, on all file systems in use.
_LONGEST_NAME = 255
# What JAX says where a function looks at the numbers in an array that is being traced.
_LOOKS_AT_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def no_type_check(function: F) -> F:
    """Mark a function that checks its arguments itself, in words of its own.

    jaxtyping's checks in the tests know it by this name or attribute, and leave it alone.
    """
    function.__no_type_check__ = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


def require_number(value: Any, name: str) -> float:
    """`value` as a float, if it is one real number; truth values, text and dates are none."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    is_number = kind in "iuf" if kind else isinstance(value, numbers.Real)
    if not is_number or isinstance(value, bool) or np.ndim(value) != 0:
        shown = shortened(value)
        raise UserTypeError(f"{name} must be a number, got {shown} ({type(value).__name__}).")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def require_positive(value: float, name: str, why: str) -> float:
    """`value` as a float, if it is a finite number above zero."""
    number = require_number(value, name)
    # In the precision it will be used in: 1e-50 is zero in single precision.
    with np.errstate(over="ignore", under="ignore"):
        working = float(np.asarray(number, dtype=jnp.zeros(()).dtype))
    if not (math.isfinite(working) and working > 0):
        raise UserValueError(f"{name} must be positive and finite, got {shortened(value)}. {why}")
    return number


def shortened(value: Any, length: int = 60) -> str:
    """What `value` looks like, in a few words of one line."""
    if isinstance(value, int) and value.bit_length() > _LARGEST_PRINTED:
        return f"a whole number of {value.bit_length()} bits"
    text = " ".join(repr(value).split())
    return text if len(text) <= length else text[: length - 3] + "..."


def require_count(value: int, name: str, why: str, smallest: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `smallest`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or np.ndim(value) != 0:
        raise UserTypeError(
            f"{name} must be a whole number, got {shortened(value)} ({type(value).__name__})."
        )
    if value < smallest:
        raise UserValueError(f"{name} must be at least {smallest}, got {shortened(value)}. {why}")
    return int(value)


def per_layer(value: float | Sequence[float], num_layers: int, name: str) -> tuple[float, ...]:
    """One positive number per layer, from a scalar or from one number per layer."""
    why = "A variance of zero or less leaves no prior in that layer."
    if not isinstance(value, (Sequence, np.ndarray, jax.Array)) or np.ndim(value) == 0:
        return (require_positive(value, name, why),) * num_layers  # pyright: ignore[reportArgumentType]
    values = tuple(value)
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


def require_callable(function: Any, name: str, of: str) -> None:
    """Refuse what is no function; `of` says of what it should be one."""
    if not callable(function):
        raise UserTypeError(f"{name} must be a function of {of}, got {shortened(function)}.")


def require_path(path: Any, name: str) -> Path:
    """`path` as a Path, if it can be one."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise UserTypeError(f"{name} must be a path, got {shortened(path)}.")
    text = os.fspath(path)
    longest = max(map(len, os.fsencode(text).split(os.fsencode(os.sep))))
    if not text or "\0" in text or longest > _LONGEST_NAME:
        why = "It is empty." if not text else "No file system takes such a name."
        raise UserValueError(f"{name} must be a path, got {shortened(text)}. {why}")
    return Path(text)


def shape_of(function: Callable[..., Any], *arguments: Any, name: str) -> Any:
    """Shapes and dtypes of what `function` returns for arrays like `arguments`, not computed.

    A user's function that is not written in JAX, or returns something else than arrays, is refused;
    an error inside it is its own, and keeps its traceback.
    """

    def checked(*given: Any) -> Any:
        value = function(*given)
        wrong = [leaf for leaf in jax.tree.leaves(value) if not eqx.is_array_like(leaf)]
        if wrong:
            raise UserTypeError(f"{name} must return numbers, got {shortened(wrong[0])}.")
        return value

    try:
        # Wrapped, because JAX compares what it traces and modules that hold arrays cannot be.
        return jax.eval_shape(checked, *arguments)
    except _LOOKS_AT_NUMBERS as error:
        raise UserTypeError(
            f"{name} must be written in JAX, but it looks at the numbers of its argument, as NumPy "
            "functions, float() and `if` do. Use jax.numpy, or jax.pure_callback for other code."
        ) from error
