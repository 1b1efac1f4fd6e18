"""Function values observed with Gaussian noise."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.arrays import as_floats
from traceclass.errors import UserValueError
from traceclass.likelihoods.base import checked_points
from traceclass.module import Module
from traceclass.validation import require_finite, require_positive, require_shape


class GaussianRegression(Module):
    r"""y_t = v(x_t) + e_t with e_t ~ N(0, noise^2), independent.

    log p(y | v) = -sum_t (y_t - v(x_t))^2 / (2 noise^2) - n log(noise sqrt(2 pi))

    `Hyper(prior, noise=...)` infers the noise level; `noise` here is then not used.
    """

    points: Float[Array, "points dim"]
    observations: Float[Array, " points"]
    noise: float = eqx.field(static=True)

    def __init__(self, x: Any, y: Any, *, noise: float):
        self.points = checked_points(x, "x")
        observations = as_floats(y, "y")
        if observations.shape != self.points.shape[:1]:
            raise UserValueError(
                f"y must hold one number for each of the {self.points.shape[0]} rows of x, got "
                f"shape {observations.shape}."
            )
        self.observations = require_finite(observations, "y")
        self.noise = require_positive(
            noise, "noise", "It is the standard deviation of an observation."
        )

    def log_prob(self, values: Float[Array, " points"], *, noise: Any = None) -> Float[Array, ""]:
        """log p(y | v), at another noise level if one is given."""
        noise = self.noise if noise is None else noise
        return gaussian_log_prob(self.residuals(values, noise=noise), noise)

    def log_prob_each(
        self, values: Float[Array, " points"], *, noise: Any = None
    ) -> Float[Array, " points"]:
        """The log-probability of each observation."""
        noise = self.noise if noise is None else noise
        return gaussian_log_prob_each(self.residuals(values, noise=noise), noise)

    def residuals(
        self, values: Float[Array, " points"], *, noise: Any = None
    ) -> Float[Array, " points"]:
        """(y - v(x)) / noise."""
        require_shape(values, self.observations.shape, "values")
        return (self.observations - values) / (self.noise if noise is None else noise)

    def predict(self, values: Float[Array, " points"]) -> Float[Array, " points"]:
        """The observations without noise: the values themselves."""
        return values


def gaussian_log_prob(residuals: Float[Array, " n"], noise: Any) -> Float[Array, ""]:
    """log N(y; predicted, noise^2 I) of residuals (y - predicted) / noise."""
    return -0.5 * jnp.sum(residuals**2) - residuals.size * _log_constant(noise)


def gaussian_log_prob_each(residuals: Float[Array, " n"], noise: Any) -> Float[Array, " n"]:
    """log N(y_t; predicted_t, noise^2) of residuals (y - predicted) / noise."""
    return -0.5 * residuals**2 - _log_constant(noise)


def _log_constant(noise: Any) -> Any:
    """log(noise sqrt(2 pi)), in double precision of a plain number."""
    log = math.log if isinstance(noise, float) else jnp.log
    return log(noise * math.sqrt(2 * math.pi))
