"""What every likelihood is: a log-probability of data given function values at fixed points."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.arrays import as_floats
from traceclass.errors import UserValueError
from traceclass.module import Module
from traceclass.validation import require_callable, require_finite


@runtime_checkable
class PointLikelihood(Protocol):
    """Data that see a function only through its values at `points`."""

    @property
    def points(self) -> Float[Array, "points dim"]: ...

    def log_prob(self, values: Float[Array, " points"]) -> Float[Array, ""]: ...


class Likelihood(Module):
    """A user's own likelihood: `log_prob(values)` of the function's values at `points` (n, d).

    `log_prob` is written in JAX; constants may be dropped, but not those that depend on a noise
    level that is inferred: `log_prob(values, noise=...)` then gets it, see `Hyper`. `predict`, if
    given, maps values to the data they would give without noise, and `log_prob_each` to the
    log-probability of each observation.

    >>> import jax, jax.numpy as jnp, traceclass as tc
    >>> counts = jnp.array([3.0, 1.0])
    >>> x = jnp.array([[0.0], [1.0]])
    >>> poisson = tc.Likelihood(x, lambda v: jnp.sum(counts * v - jnp.exp(v)))
    >>> float(poisson.log_prob(jnp.zeros(2)))
    -2.0
    """

    points: Float[Array, "points dim"]
    _log_prob: Callable[..., Array]
    _predict: Callable[[Array], Any] | None
    _log_prob_each: Callable[..., Array] | None

    def __init__(
        self,
        points: Any,
        log_prob: Callable[..., Array],
        predict: Callable[[Array], Any] | None = None,
        *,
        log_prob_each: Callable[..., Array] | None = None,
    ):
        self.points = checked_points(points, "points")
        require_callable(log_prob, "log_prob", "the values")
        self._log_prob = log_prob
        self._predict = predict
        self._log_prob_each = log_prob_each

    def log_prob(self, values: Float[Array, " points"], *, noise: Any = None) -> Float[Array, ""]:
        return jnp.asarray(at_noise(self._log_prob, values, noise))

    @property
    def gives_each(self) -> bool:
        """Whether it was made with `log_prob_each`."""
        return self._log_prob_each is not None

    def log_prob_each(
        self, values: Float[Array, " points"], *, noise: Any = None
    ) -> Float[Array, " observations"]:
        """The log-probability of each observation."""
        if self._log_prob_each is None:
            raise UserValueError(
                "this Likelihood was made without log_prob_each=; pass one to use it."
            )
        return jnp.asarray(at_noise(self._log_prob_each, values, noise))

    def predict(self, values: Float[Array, " points"]) -> Any:
        if self._predict is None:
            raise UserValueError("this Likelihood was made without predict=; pass one to use it.")
        return self._predict(values)


def gives_each(likelihood: Any) -> bool:
    """Whether it knows the log-probability of each observation."""
    if isinstance(likelihood, Likelihood):
        return likelihood.gives_each
    return hasattr(likelihood, "log_prob_each")


def at_noise(log_prob: Callable[..., Array], values: Array, noise: Any) -> Array:
    """log_prob(values), or log_prob(values, noise=noise) where the prior gives a noise level."""
    if noise is None:
        return log_prob(values)
    if not _takes_noise(log_prob):
        name = getattr(log_prob, "__qualname__", type(log_prob).__name__)
        raise UserValueError(
            f"the prior infers the noise level, but {name} takes none. Write it as "
            "log_prob(values, *, noise), with the constants that depend on noise, or leave noise= "
            "out of Hyper."
        )
    return log_prob(values, noise=noise)


def _takes_noise(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters
    return "noise" in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def checked_points(points: Any, name: str) -> Float[Array, "points dim"]:
    """A finite (n, d) array with at least one row."""
    array = as_floats(points, name)
    if array.ndim != 2 or 0 in array.shape:
        raise UserValueError(f"{name} must have shape (n, d) with n, d >= 1, got {array.shape}.")
    return require_finite(array, name)
