"""Simulation-based calibration (Talts et al. 2018), end to end through `tc.sample`.

z from the prior, y given z, a run on the posterior of y: the rank of a function of z among its
values in L nearly independent draws is uniform on 0..L.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

import traceclass as tc

NUM_DATA_SETS = 128
NUM_RANKED = 31
BINS = 8
POINTS = np.linspace(0.05, 0.95, 10)[:, None]


def ranks(kernel, noise_told: float = 1.0, **settings) -> dict[str, np.ndarray]:
    """Ranks of the log-likelihood, of the function at two points, and of |z|^2."""
    prior = tc.TraceClassNetwork(
        num_inputs=1, widths=(6, 5), weight_variance=4.0, bias_variance=2.0
    )
    noise = 0.5
    likelihood = tc.GaussianRegression(POINTS, np.zeros(10), noise=noise * noise_told)
    posterior = tc.Posterior(prior, likelihood)
    # Four chains, so that draws of one rank come from four independent starts.
    arguments = {"num_chains": 4, "num_warmup": 600, "num_samples": 8, "progress": False}
    found: dict[str, list[int]] = {}
    for number in range(NUM_DATA_SETS):
        key_z, key_y = jax.random.split(jax.random.key(1000 + number))
        z = prior.sample(key_z)
        y = posterior.values_of(z) + noise * jax.random.normal(key_y, (10,))
        of_data = eqx.tree_at(lambda p: p.likelihood.observations, posterior, y)
        run = tc.sample(of_data, kernel, seed=number, **(arguments | settings))
        draws = jnp.asarray(run.flat_positions()[:NUM_RANKED])
        for name, rank in _ranks(of_data, draws, z).items():
            found.setdefault(name, []).append(int(rank))
    return {name: np.array(values) for name, values in found.items()}


@eqx.filter_jit
def _ranks(posterior, draws, z):
    def functionals(z):
        values = posterior.values_of(z)
        return {
            "log-likelihood": posterior.log_likelihood(z),
            "first value": values[0],
            "last value": values[-1],
            "|z|^2": jnp.sum(z**2),
        }

    of_draws, of_z = jax.vmap(functionals)(draws), functionals(z)
    return {name: jnp.sum(of_draws[name] < of_z[name]) for name in of_z}


def smallest_p_value(found: dict[str, np.ndarray]) -> float:
    """Chi-square over bins of equal width, corrected for the number of functionals."""
    p_values = [
        chisquare(np.bincount(rank * BINS // (NUM_RANKED + 1), minlength=BINS)).pvalue
        for rank in found.values()
    ]
    return min(p_values) * len(p_values)


@pytest.mark.long
def test_hmc_with_default_warm_up_is_calibrated():
    """False alarm 1e-4, up to what 31 draws of 4 chains are short of independent."""
    assert smallest_p_value(ranks(tc.hmc, thin=10)) > 1e-4


@pytest.mark.long
def test_pcn_is_calibrated():
    assert smallest_p_value(ranks(tc.pcn, thin=400, num_warmup=4000)) > 1e-4


@pytest.mark.long
def test_a_wrong_noise_is_not(count_as):
    """Told a noise that is 30 % too small, the run is too sure of itself."""
    count_as("seeded faults caught")
    assert smallest_p_value(ranks(tc.hmc, noise_told=0.7, thin=10)) < 1e-4
