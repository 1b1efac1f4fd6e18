"""A linear-Gaussian model with a closed-form posterior, to hold samplers against."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import traceclass as tc


class MatrixAtPoints(eqx.Module):
    basis: Float[Array, "points z"]

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        return self.basis @ z


class CosinePrior(tc.Prior):
    """v(x) = sum_k z_k cos(k x) / (1 + k), a prior that is linear in z."""

    num_inputs: int = eqx.field(static=True, default=1)
    inputs: None = None
    terms: int = eqx.field(static=True, default=6)
    floats_per_value: int = eqx.field(static=True, default=6)

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        return ((self.terms,),)

    def settings(self) -> tuple[object, ...]:
        return ()

    def refine(self, *, terms: int) -> CosinePrior:
        return CosinePrior(terms=terms)

    def at(self, points: Float[Array, "points dim"]) -> MatrixAtPoints:
        k = jnp.arange(self.terms)
        return MatrixAtPoints(jnp.cos(self.checked_points(points) * k) / (1 + k))


def linear_gaussian(noise: float = 0.3) -> tuple[tc.Posterior, np.ndarray, np.ndarray]:
    """A posterior with its exact mean and covariance: (A'A/s^2 + I)^-1 A'y/s^2."""
    x = np.linspace(0.0, 2.5, 8)[:, None]
    y = np.sin(2 * x[:, 0])
    prior = CosinePrior()
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, y, noise=noise))
    a = np.asarray(prior.at(jnp.asarray(x)).basis, dtype=np.float64)
    covariance = np.linalg.inv(a.T @ a / noise**2 + np.eye(a.shape[1]))
    return posterior, covariance @ a.T @ y / noise**2, covariance
