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
from faults import without_constant
from scipy.stats import chisquare

import traceclass as tc

NUM_DATA_SETS = 128
NUM_RANKED = 31
BINS = 8
POINTS = np.linspace(0.05, 0.95, 10)[:, None]
MORE_POINTS = np.linspace(0.05, 0.95, 20)[:, None]
NUM_HIERARCHIES = 200
NUM_CHAINS = 4


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


def hierarchy(prior: str) -> tc.Hyper:
    """Laws wide enough that data say something of each: in a series of alpha too."""
    alpha = tc.ShiftedLogNormal(low=1.0, median=2.0, sigma=1.0)
    noise = tc.LogNormal(median=0.3, sigma=0.5)
    if prior == "Fourier":
        series = tc.FourierSeries(num_inputs=1, max_frequency=8, interaction=1)
        variance = tc.LogNormal(median=1.0, sigma=1.0)
        return tc.Hyper(series, alpha=alpha, variance=variance, noise=noise)
    network = tc.TraceClassNetwork(num_inputs=1, widths=(6, 5), bias_variance=2.0)
    variance = tc.LogNormal(median=4.0, sigma=1.0)
    return tc.Hyper(network, alpha=alpha, weight_variance=variance, noise=noise)


def hierarchical_ranks(
    hyper: tc.Hyper, num_warmup: int, thin: int, change=lambda posterior: posterior
) -> dict[str, np.ndarray]:
    """Ranks of the hyperparameters, inferred with the function, and of the function itself.

    Every simulation has its own hyperparameters, data, chains and step sizes, in one program.
    `change` is what the chains are told of a posterior that is not so.
    """
    likelihood = tc.GaussianRegression(MORE_POINTS, np.zeros(len(MORE_POINTS)), noise=1.0)
    posterior = tc.Posterior(hyper, likelihood)

    def simulation(key):
        key_z, key_y, key_starts, key_chains = jax.random.split(key, 4)
        z = hyper.sample(key_z)
        errors = hyper.noise(z) * jax.random.normal(key_y, (len(MORE_POINTS),))
        y = posterior.values_of(z) + errors
        told = change(eqx.tree_at(lambda p: p.likelihood.observations, posterior, y))
        starts = hyper.sample(key_starts, (NUM_CHAINS,))
        draws = jax.vmap(lambda key, start: chain(told, key, start, num_warmup, thin))(
            jax.random.split(key_chains, NUM_CHAINS), starts
        )
        functionals = jax.vmap(lambda z: _of_hierarchy(told, hyper, z))
        of_draws = functionals(draws.reshape(-1, z.size)[:NUM_RANKED])
        of_z = _of_hierarchy(told, hyper, z)
        return {name: jnp.sum(of_draws[name] < of_z[name]) for name in of_z}

    keys = jax.random.split(jax.random.key(2000), NUM_HIERARCHIES)
    return {name: np.asarray(rank) for name, rank in jax.jit(jax.vmap(simulation))(keys).items()}


def _of_hierarchy(posterior, hyper, z):
    return hyper.hyperparameters(z) | {
        "log-likelihood": posterior.log_likelihood(z),
        "first value": posterior.values_of(z)[0],
    }


def chain(posterior, key, start, num_warmup: int, thin: int):
    """Draws (8, z) of HMC, with a step size of its own from warm-up (Robbins & Monro 1951)."""
    kernel = tc.hmc.using(num_kicks=30)

    def step(state, log_step, number):
        algorithm = kernel.assemble(posterior, kernel.tuning(jnp.exp(log_step)))
        return algorithm.step(jax.random.fold_in(key, number), state)

    def warm(number, carry):
        state, log_step, mean = carry
        state, info = step(state, log_step, number)
        gain = 1 / jnp.sqrt(1.0 + number)
        log_step = jnp.minimum(log_step + gain * (info.acceptance_rate - 0.8), 0.0)
        # The mean over the second half is what is used: the last value is a noisy one.
        return state, log_step, mean + jnp.where(number >= num_warmup // 2, log_step, 0.0)

    init = kernel.assemble(posterior, kernel.tuning(0.01)).init
    begin = (init(start), jnp.log(0.01), 0.0)
    state, _, total = jax.lax.fori_loop(0, num_warmup, warm, begin)
    log_step = total / (num_warmup - num_warmup // 2)

    def draw(state, number):
        first = num_warmup + number * thin
        state = jax.lax.fori_loop(
            first, first + thin, lambda i, state: step(state, log_step, i)[0], state
        )
        return state, state.position

    return jax.lax.scan(draw, state, jnp.arange((NUM_RANKED + 1) // NUM_CHAINS))[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("prior", "num_warmup", "thin"), [("network", 600, 100), ("Fourier", 400, 20)]
)
def test_a_hierarchy_is_calibrated(prior, num_warmup, thin):
    """False alarm 1e-4, as above."""
    assert smallest_p_value(hierarchical_ranks(hierarchy(prior), num_warmup, thin)) > 1e-4


@pytest.mark.long
def test_a_hierarchy_whose_noise_is_left_out_of_the_constant_is_not(count_as):
    count_as("seeded faults caught")
    found = hierarchical_ranks(hierarchy("Fourier"), 400, 20, without_constant)
    assert smallest_p_value(found) < 1e-4
