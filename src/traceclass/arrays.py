"""Arrays from outside: the one gate by which a user's numbers enter.

What is no real number is refused rather than turned into one: masked entries, dates, text, Python
objects, complex numbers. What single precision cannot tell apart is said.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from traceclass.errors import UserTypeError, UserValueError

# Kinds of dtype that are real numbers; truth values count as 0 and 1.
_REAL = "biuf"
_KINDS = {
    "c": "complex numbers. Give real and imaginary parts as two columns",
    "M": "dates. Turn them into numbers, e.g. days since the first",
    "m": "durations. Turn them into numbers, e.g. seconds",
    "O": "Python objects. Convert with .astype(float), missing values first",
    "S": "text. Convert with .astype(float)",
    "T": "text. Convert with .astype(float)",
    "U": "text. Convert with .astype(float)",
    "V": "records. Choose one field, or stack the fields as columns",
}
# Two values that differ by less than this share of their column's range may become one: data that
# are spread over a whole interval lose that little in single precision, and nobody misses it.
_NEGLIGIBLE = 1e-6


def as_numbers(array: Any, name: str) -> Any:
    """`array` as a NumPy array of real numbers, as they were given; one being traced stays so.

    Parameters
    ----------
    array : array-like
        What a user passed.
    name : str
        What the user knows it by, for the error.
    """
    if isinstance(array, Tracer):
        return array
    if isinstance(array, np.ma.MaskedArray):
        _refuse_masked(array, name)
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise UserTypeError(f"{name} must be numbers, got random keys.")
    try:
        plain = np.asarray(array)
    except (ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise UserValueError(f"{name} is not an array of numbers ({reason}).") from error
    kind = plain.dtype.kind
    # JAX's own small floats (bfloat16) are records to NumPy.
    if kind not in _REAL and not jnp.issubdtype(plain.dtype, jnp.floating):
        raise UserTypeError(f"{name} must be numbers, got {_KINDS[kind]}.")
    return plain


def as_doubles(array: Any, name: str) -> np.ndarray:
    """`array` as a NumPy array in double precision, for what is computed outside of JAX."""
    return np.asarray(as_numbers(array, name), dtype=np.float64)


def as_floats(array: Any, name: str) -> Any:
    """`array` as a JAX array of the working precision.

    A warning says how many different values become equal by that, and what to do.
    """
    plain = as_numbers(array, name)
    if isinstance(plain, Tracer):
        return jnp.asarray(plain, dtype=float)
    dtype = jnp.zeros(()).dtype
    with np.errstate(over="ignore"):
        working = plain.astype(dtype)
    too_large = np.isinf(working) & np.isfinite(plain)
    if too_large.any():
        where = tuple(int(i) for i in np.argwhere(too_large)[0])
        raise UserValueError(
            f"{name} holds {plain[where]} at index {where}, too large for {dtype}. Scale it, or "
            "compute in double precision (jax.enable_x64)."
        )
    _warn_of_ties(plain, dtype, name)
    return jnp.asarray(working)


def _refuse_masked(array: np.ma.MaskedArray, name: str) -> None:
    masked = np.ma.getmaskarray(array)
    if masked.any():
        where = tuple(int(i) for i in np.argwhere(masked)[0])
        raise UserValueError(
            f"{name} has {int(masked.sum())} masked entries, the first at index {where}: what is "
            "behind a mask is no observation. Remove these rows."
        )


def _warn_of_ties(plain: np.ndarray, dtype: np.dtype, name: str) -> None:
    """Say how many different values of a column become one in the working precision."""
    if plain.dtype.itemsize <= 2 or plain.dtype == dtype or plain.size < 2:
        return
    columns = plain.reshape(-1, plain.shape[-1] if plain.ndim > 1 else 1)
    ordered = np.sort(columns, axis=0)
    # Whole numbers are subtracted as such; in double precision those above 2**53 are rounded.
    gaps = np.diff(ordered, axis=0)
    noticed = gaps > _NEGLIGIBLE * np.maximum(gaps.sum(axis=0, dtype=np.float64), 0)
    lost = int((noticed & (np.diff(ordered.astype(dtype), axis=0) == 0)).sum())
    if lost:
        warnings.warn(
            f"{lost} different values of {name} become equal to others in {dtype}. Subtract a "
            "constant or scale them, or compute in double precision (jax.enable_x64).",
            stacklevel=5,
        )
