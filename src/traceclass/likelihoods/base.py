"""What every likelihood is: a log-probability of data given function values at fixed points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.module import Module
from traceclass.validation import require_finite


@runtime_checkable
class PointLikelihood(Protocol):
    """Data that see a function only through its values at `points`."""

    @property
    def points(self) -> Float[Array, "points dim"]: ...

    def log_prob(self, values: Float[Array, " points"]) -> Float[Array, ""]: ...


class Likelihood(Module):
    """A user's own likelihood: `log_prob(values)` of the function's values at `points` (n, d).

    `log_prob` is written in JAX; constants may be dropped. `predict`, if given, maps values to the
    data they would give without noise.

    >>> import jax, jax.numpy as jnp, traceclass as tc
    >>> counts = jnp.array([3.0, 1.0])
    >>> x = jnp.array([[0.0], [1.0]])
    >>> poisson = tc.Likelihood(x, lambda v: jnp.sum(counts * v - jnp.exp(v)))
    >>> float(poisson.log_prob(jnp.zeros(2)))
    -2.0
    """

    points: Float[Array, "points dim"]
    _log_prob: Callable[[Array], Array]
    _predict: Callable[[Array], Any] | None

    def __init__(
        self,
        points: Any,
        log_prob: Callable[[Array], Array],
        predict: Callable[[Array], Any] | None = None,
    ):
        self.points = checked_points(points, "points")
        if not callable(log_prob):
            raise TypeError(f"log_prob must be a function of the values, got {log_prob!r}.")
        self._log_prob = log_prob
        self._predict = predict

    def log_prob(self, values: Float[Array, " points"]) -> Float[Array, ""]:
        return jnp.asarray(self._log_prob(values))

    def predict(self, values: Float[Array, " points"]) -> Any:
        if self._predict is None:
            raise ValueError("this Likelihood was made without predict=; pass one to use it.")
        return self._predict(values)


def checked_points(points: Any, name: str) -> Float[Array, "points dim"]:
    """A finite (n, d) array with at least one row."""
    array = jnp.asarray(points, dtype=float)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (n, d) with n, d >= 1, got {array.shape}.")
    return require_finite(array, name)
