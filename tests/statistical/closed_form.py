"""A run on the linear-Gaussian model against its exact posterior, in standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from linear import linear_gaussian

import traceclass as tc


def closed_form_scores(kernel: Any, step_size: Any, seed: int = 0, **settings: Any) -> np.ndarray:
    """z-scores of the posterior mean, the whole covariance and the mean log-likelihood.

    Chains are independent and each is averaged over its draws, so the standard errors need no
    estimate of autocorrelation.
    """
    posterior, mean, covariance = linear_gaussian()
    arguments = {"num_chains": 800, "num_warmup": 400, "num_samples": 200, "thin": 4} | settings
    run = tc.sample(posterior, kernel, step_size=step_size, seed=seed, progress=False, **arguments)
    centred = run.positions - mean
    upper = np.triu_indices(len(mean))
    products = np.einsum("cdi,cdj->cij", centred, centred)[:, *upper] / run.num_samples
    levels = run.draws["log_likelihood"].mean(axis=1)[:, None]
    estimates = np.concatenate([run.positions.mean(axis=1), products, levels], axis=1)
    exact = np.concatenate([mean, covariance[upper], [mean_level(posterior, mean, covariance)]])
    errors = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    return np.abs(estimates.mean(axis=0) - exact) / errors


def mean_level(posterior: tc.Posterior, mean: np.ndarray, covariance: np.ndarray) -> float:
    """The posterior mean of the log-likelihood."""
    basis = np.asarray(posterior.values_of.basis, dtype=np.float64)
    residual = np.asarray(posterior.likelihood.observations) - basis @ mean
    noise = posterior.likelihood.noise
    squares = residual @ residual + np.trace(basis @ covariance @ basis.T)
    return -0.5 * squares / noise**2 - len(residual) * np.log(noise * np.sqrt(2 * np.pi))
