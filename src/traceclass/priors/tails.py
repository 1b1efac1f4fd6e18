"""Maps of a standard normal coordinate to one of heavier tails and unit variance."""

from __future__ import annotations

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import chebyshev
from scipy.special import ndtr, stdtrit

from traceclass.errors import UserTypeError, UserValueError
from traceclass.module import Module

# The Student quantile is fitted on |z| <= 12, beyond which a normal draw falls with probability
# 4e-33. With c = 32 and degree 16 the relative error is below 1e-7 for every df > 2.
_LARGEST_Z, _HALFWAY, _DEGREE = 12.0, 32.0, 16
_NUM_NODES = 4 * _DEGREE
# Below it three terms of (1 - e^-u)/u are exact in double precision.
_SMALL_U = 1e-4


class Tails(Module):
    r"""theta = C^(1/2) T(z), T(z) = F^-1(Phi(z)) / sd for each coordinate, F symmetric.

    T(z) has the law F scaled to variance one, so that variances keep their meaning.
    """

    @abc.abstractmethod
    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " z"]: ...

    # No arrays here, as in `ScaleToBox`: two tails of one law are the same.
    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


class LaplaceTails(Tails):
    r"""T(z) = -s (log 2 + log Phi(-s z)) / sqrt(2), s the sign of z: density exp(-sqrt(2) |t|)."""

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " z"]:
        # Not jnp.sign, which is 0 at 0 and would take the slope there with it.
        sign = jnp.where(z < 0, -1.0, 1.0)
        tail = jax.scipy.special.log_ndtr(-sign * z)
        return -sign * (math.log(2) + tail) / math.sqrt(2)


class StudentTails(Tails):
    r"""T(z) = sqrt((df - 2)/df) F^-1(Phi(z)), F Student's law with `df` > 2 degrees of freedom.

        F^-1(Phi(z)) = z sqrt(expm1(u)/u) exp(p(x)),   u = z^2/df,   x = z^2/(z^2 + c)

    The root has the right growth at both ends; the polynomial p, fitted once in double precision,
    is what is left of the logarithm. It is smooth at z = 0, where x has no slope.
    """

    df: float = eqx.field(static=True)
    coefficients: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, *, df: float):
        if isinstance(df, (bool, str)) or np.ndim(df) != 0:
            raise UserTypeError(f"df must be a number, got {df!r} ({type(df).__name__}).")
        if not (math.isfinite(df) and df > 2):
            raise UserValueError(
                f'tails="student" needs df > 2, got {df}. At or below 2 the law has no variance, '
                "so it cannot be scaled to that of the prior. Use e.g. df=4."
            )
        self.df = float(df)
        self.coefficients = _fitted(self.df)

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " z"]:
        u = z**2 / self.df
        # expm1(u)/u = e^u (1 - e^-u)/u, with one exponential for e^(u/2) and e^p
        is_small = u < _SMALL_U
        safe = jnp.where(is_small, 1.0, u)
        ratio = jnp.where(is_small, 1 - u / 2 + u**2 / 6, -jnp.expm1(-safe) / safe)
        p = _clenshaw(self.coefficients, _compact(z**2))
        return math.sqrt((self.df - 2) / self.df) * z * jnp.sqrt(ratio) * jnp.exp(u / 2 + p)


def tails_named(tails: str | None, df: float | None) -> Tails | None:
    """The tails of that name; None leaves the prior Gaussian."""
    if tails == "student":
        if df is None:
            raise UserValueError('tails="student" needs df, its degrees of freedom: e.g. df=4.')
        return StudentTails(df=df)
    if df is not None:
        raise UserValueError(f'df={df} belongs to tails="student", got tails={tails!r}.')
    if tails is None:
        return None
    if tails == "laplace":
        return LaplaceTails()
    raise UserValueError(f'unknown tails {tails!r}. Use "student" (with df), "laplace" or None.')


def _compact(square: Any) -> Any:
    """z^2/(z^2 + c) of |z| <= 12, mapped to [-1, 1]."""
    largest = _LARGEST_Z**2 / (_LARGEST_Z**2 + _HALFWAY)
    return 2 / largest * (square / (square + _HALFWAY)) - 1


def _fitted(df: float) -> tuple[float, ...]:
    """Chebyshev coefficients of p."""
    x = np.cos(np.pi * (np.arange(_NUM_NODES) + 0.5) / _NUM_NODES)
    share = (x + 1) / 2 * _LARGEST_Z**2 / (_LARGEST_Z**2 + _HALFWAY)
    z = np.sqrt(_HALFWAY * share / (1 - share))
    quantile = -stdtrit(df, ndtr(-z))
    p = np.log(quantile) - 0.5 * np.log(df * np.expm1(z**2 / df))
    return tuple(chebyshev.chebfit(x, p, _DEGREE).tolist())


def _clenshaw(coefficients: tuple[float, ...], x: Array) -> Array:
    """sum_k c_k T_k(x), from the last term to the first."""
    after, last = jnp.zeros_like(x), jnp.zeros_like(x)
    for c in coefficients[:0:-1]:
        last, after = c + 2 * x * last - after, last
    return coefficients[0] + x * last - after
