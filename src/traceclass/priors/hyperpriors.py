"""Laws of hyperparameters, each a map from one standard normal coordinate h."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.errors import UserTypeError, UserValueError
from traceclass.module import Module
from traceclass.validation import require_positive

# A standard normal coordinate leaves [-9, 9] with probability 2e-19.
LARGEST_H = 9.0
_GRID = np.linspace(-LARGEST_H, LARGEST_H, 361)


class Hyperprior(Module):
    """The law of a hyperparameter: the image of h ~ N(0, 1) under this map."""

    @abc.abstractmethod
    def __call__(self, h: Float[Array, ""]) -> Float[Array, ""]:
        """The hyperparameter at h."""

    @property
    @abc.abstractmethod
    def support(self) -> tuple[float, float]:
        """The ends of the open interval of its values."""

    @abc.abstractmethod
    def coordinate(self, value: Any) -> Float[Array, ""]:
        """The h whose hyperparameter is `value`."""

    # By fields, as in `ScaleToBox`, so that priors made apart refine each other.
    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


class LogNormal(Hyperprior):
    r"""exp(log(median) + sigma h): positive, a factor e^sigma either way at one deviation.

    >>> import traceclass as tc
    >>> float(tc.LogNormal(median=2.0, sigma=0.5)(0.0))
    2.0
    """

    median: float = eqx.field(static=True)
    sigma: float = eqx.field(static=True)

    def __init__(self, *, median: float, sigma: float):
        self.median = require_positive(median, "median", "Half of a log-normal law is below it.")
        self.sigma = _checked_sigma(sigma, self.median)

    def __call__(self, h: Float[Array, ""]) -> Float[Array, ""]:
        return self.median * jnp.exp(self.sigma * h)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    def coordinate(self, value: Any) -> Float[Array, ""]:
        return jnp.log(jnp.asarray(value, dtype=float) / self.median) / self.sigma


class ShiftedLogNormal(Hyperprior):
    r"""low + (median - low) exp(sigma h): above `low`, as alpha > 1 of a trace-class prior.

    >>> import traceclass as tc
    >>> float(tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5)(0.0))
    1.5
    """

    low: float = eqx.field(static=True)
    median: float = eqx.field(static=True)
    sigma: float = eqx.field(static=True)

    def __init__(self, *, low: float, median: float, sigma: float):
        self.low = _finite(low, "low")
        self.median = _finite(median, "median")
        if self.median <= self.low:
            raise UserValueError(
                f"ShiftedLogNormal needs low < median, got low={low}, median={median}: all of its "
                "values lie above low."
            )
        self.sigma = _checked_sigma(sigma, self.median - self.low)

    def __call__(self, h: Float[Array, ""]) -> Float[Array, ""]:
        return self.low + (self.median - self.low) * jnp.exp(self.sigma * h)

    @property
    def support(self) -> tuple[float, float]:
        return self.low, math.inf

    def coordinate(self, value: Any) -> Float[Array, ""]:
        above = jnp.asarray(value, dtype=float) - self.low
        return jnp.log(above / (self.median - self.low)) / self.sigma


class Uniform(Hyperprior):
    r"""low + (high - low) Phi(h): uniform on (low, high).

    >>> import traceclass as tc
    >>> float(tc.Uniform(low=1.0, high=3.0)(0.0))
    2.0
    """

    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)

    def __init__(self, *, low: float, high: float):
        self.low, self.high = _finite(low, "low"), _finite(high, "high")
        if self.high <= self.low:
            raise UserValueError(f"Uniform needs low < high, got low={low}, high={high}.")

    def __call__(self, h: Float[Array, ""]) -> Float[Array, ""]:
        return self.low + (self.high - self.low) * jax.scipy.special.ndtr(jnp.asarray(h, float))

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def coordinate(self, value: Any) -> Float[Array, ""]:
        share = (jnp.asarray(value, dtype=float) - self.low) / (self.high - self.low)
        return jax.scipy.special.ndtri(share)


class OwnHyperprior(Hyperprior):
    """A user's callable h -> value, with the support it has on h in [-9, 9]."""

    function: Callable[[Array], Array]
    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)

    def __init__(self, function: Callable[[Array], Array]):
        name = getattr(function, "__name__", type(function).__name__)
        shape = jax.eval_shape(function, jnp.zeros(())).shape
        if shape != ():
            raise UserValueError(
                f"the hyperprior {name} must map a number h to a number, got shape {shape}."
            )
        values = np.asarray(jax.vmap(function)(jnp.asarray(_GRID, dtype=float)), dtype=np.float64)
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise UserValueError(
                f"the hyperprior {name} must be positive and finite for h in [-9, 9], got "
                f"{values[i]:g} at h = {_GRID[i]:g}. Use e.g. jnp.exp of it."
            )
        self.function = function
        self.low, self.high = float(values.min()), float(values.max())

    def __call__(self, h: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(self.function(h), dtype=float)

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def coordinate(self, value: Any) -> Float[Array, ""]:
        raise UserValueError(
            f"the coordinate of {value} is not known: the hyperprior is a function of yours, and "
            "only LogNormal, ShiftedLogNormal and Uniform know their inverse. Set h itself."
        )


def _finite(value: float, name: str) -> float:
    if isinstance(value, (bool, str)) or np.ndim(value) != 0:
        raise UserTypeError(f"{name} must be a number, got {value!r} ({type(value).__name__}).")
    if not math.isfinite(value):
        raise UserValueError(f"{name} must be finite, got {value}.")
    return float(value)


def _checked_sigma(sigma: float, scale: float) -> float:
    """`sigma`, if scale exp(sigma h) is a number in single precision for every h in [-9, 9]."""
    sigma = require_positive(sigma, "sigma", "It is the deviation of the logarithm.")
    limits = np.finfo(np.float32)
    room = min(math.log(limits.max) - math.log(scale), math.log(scale) - math.log(limits.tiny))
    largest = room / LARGEST_H
    if sigma > largest:
        raise UserValueError(
            f"sigma must be at most {largest:.3g} here, got {sigma}: nine deviations out the value "
            "would leave single precision. A sigma of 1 already spans a factor of 50 within two "
            "deviations."
        )
    return sigma
