"""A linear-Gaussian model with a closed-form posterior, to hold samplers against."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import traceclass as tc

K = np.arange(6)


def cosines(x):
    """One function, not a new one in every prior: what is compiled with it serves all tests."""
    return jnp.cos(K * x)


def cosine_prior() -> tc.Series:
    """v(x) = sum_k z_k cos(k x) / (1 + k), six terms."""
    return tc.Series(cosines, 1.0 / (1 + K) ** 2, num_inputs=1)


def no_data(values):
    """A log-likelihood that is zero everywhere."""
    return 0.0 * jnp.sum(values)


def flat(prior: tc.Prior) -> tc.Posterior:
    """The prior itself, as the posterior of no data."""
    return tc.Posterior(prior, tc.Likelihood(np.zeros((1, 1)), no_data))


def linear_gaussian(noise: float = 0.3) -> tuple[tc.Posterior, np.ndarray, np.ndarray]:
    """A posterior with its exact mean and covariance: (A'A/s^2 + I)^-1 A'y/s^2."""
    x = np.linspace(0.0, 2.5, 8)[:, None]
    y = np.sin(2 * x[:, 0])
    prior = cosine_prior()
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, y, noise=noise))
    a = np.asarray(prior.at(x).basis, dtype=np.float64)
    covariance = np.linalg.inv(a.T @ a / noise**2 + np.eye(a.shape[1]))
    return posterior, covariance @ a.T @ y / noise**2, covariance
