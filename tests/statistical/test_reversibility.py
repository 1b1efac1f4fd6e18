"""Proposals and acceptance ratios against densities written out in full, in double precision."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from faults import faulty_trajectory, module, rho_without
from joint import LIKELIHOODS, priors

import traceclass as tc
from traceclass.kernels.hmc import trajectory
from traceclass.kernels.mala import log_ratio as mala_log_ratio
from traceclass.kernels.nodes import log_prior_ratio, node_table, swap
from traceclass.kernels.pcnl import propose
from traceclass.kernels.states import init_with_gradient

TOLERANCE = 1e-10
pytestmark = pytest.mark.usefixtures("x64")
ALL = [(prior, likelihood) for prior in ("tcNN", "iid", "Fourier") for likelihood in LIKELIHOODS]
MODELS = by_night(
    ALL,
    long=[
        ("tcNN", "groundwater"),
        ("iid", "regression"),
        ("iid", "groundwater"),
        ("iid", "action choice"),
        ("Fourier", "action choice"),
    ],
)


# Operation by operation, every model would compile a hundred programs; as they are cut here, only
# the first two see the model, and what kernels do with their states is compiled once a dimension.
@eqx.filter_jit
def state_and_level(posterior: tc.Posterior, z: jax.Array):
    return init_with_gradient(posterior, z), posterior.log_likelihood(z)


# A function that a test has replaced by a faulty one is another function, with its own program.
compiled = functools.cache(eqx.filter_jit)
pcnl_proposal = jax.jit(propose)
mala_ratio = jax.jit(mala_log_ratio)


def state_at(posterior: tc.Posterior, z: jax.Array):
    return state_and_level(posterior, z)[0]


@functools.cache
def setting(prior: str, likelihood: str) -> tuple[tc.Posterior, jax.Array, jax.Array]:
    """A posterior with data, a position and a noise vector."""
    joint = LIKELIHOODS[likelihood](priors()[prior])
    z, position, noise = np.random.default_rng(3).normal(size=(3, joint.prior.num_coordinates))
    posterior = eqx.filter_jit(joint.posterior_of_data)(jax.random.key(3), jnp.asarray(z))
    return posterior, jnp.asarray(position), jnp.asarray(noise)


def log_density(posterior: tc.Posterior, z: jax.Array) -> float:
    return float(state_and_level(posterior, z)[1]) - 0.5 * np.sum(np.asarray(z) ** 2)


def log_normal(x: np.ndarray, mean: np.ndarray, sd: float) -> float:
    """Up to a constant that does not depend on x and the mean."""
    return -0.5 * np.sum(((x - mean) / sd) ** 2)


def as_numpy(state):
    return jax.tree.map(np.asarray, state)


def pcnl_error(posterior: tc.Posterior, z: jax.Array, xi: jax.Array, delta: float = 0.1) -> float:
    """pCNL's log-ratio minus log pi(z') q(z', z) / pi(z) q(z, z'), q a Gaussian."""
    rho = compiled(module("pcnl").rho)
    state = state_at(posterior, z)
    after = state_at(posterior, pcnl_proposal(state, xi, delta))
    got = float(rho(state, after, delta)) - float(rho(after, state, delta))
    state, after = as_numpy((state, after))

    def log_q(u, v):
        mean = ((2 - delta) * u.position + 2 * delta * u.gradient) / (2 + delta)
        return log_normal(v.position, mean, np.sqrt(8 * delta) / (2 + delta))

    want = log_density(posterior, after.position) + log_q(after, state)
    want -= log_density(posterior, z) + log_q(state, after)
    return (got - want) / max(1.0, abs(want))


def hmc_errors(posterior: tc.Posterior, z: jax.Array, p: jax.Array) -> tuple[float, float]:
    """The way back by the reversed momentum, and dH against the two energies."""
    state = state_at(posterior, z)
    follow = compiled(module("hmc").trajectory)
    how_far = np.array(0.03), np.array(7)
    end, momentum, energy_error = follow(posterior, state, p, *how_far)
    back, reversed_momentum, _ = follow(posterior, end, -np.asarray(momentum), *how_far)
    away = np.asarray(back.position) - z, np.asarray(reversed_momentum) + p
    way = max(float(np.abs(difference).max()) for difference in away)

    def energy(q, p):
        return -log_density(posterior, q) + 0.5 * np.sum(np.asarray(p) ** 2)

    want = energy(end.position, momentum) - energy(z, p)
    return way, (float(energy_error) - want) / max(1.0, abs(want))


@pytest.mark.parametrize(("prior", "likelihood"), MODELS)
def test_pcnl_ratio_is_that_of_the_densities(prior, likelihood):
    assert abs(pcnl_error(*setting(prior, likelihood))) < TOLERANCE


@pytest.mark.parametrize(("prior", "likelihood"), MODELS)
def test_hmc_goes_back_the_way_it_came_and_knows_its_energy(prior, likelihood):
    way, energy = hmc_errors(*setting(prior, likelihood))
    assert way < TOLERANCE
    assert abs(energy) < TOLERANCE


@pytest.mark.parametrize(("prior", "likelihood"), MODELS)
def test_mala_ratio_is_that_of_the_densities(prior, likelihood):
    posterior, z, xi = setting(prior, likelihood)
    s = 0.2
    state = state_at(posterior, z)
    drift = 0.5 * s**2 * (np.asarray(state.gradient) - z)
    after = state_at(posterior, z + drift + s * xi)
    state, after, got = as_numpy((state, after, mala_ratio(state, after, xi, s)))

    def log_q(u, v):
        mean = u.position + 0.5 * s**2 * (u.gradient - u.position)
        return log_normal(v.position, mean, s)

    want = log_density(posterior, after.position) + log_q(after, state)
    want -= log_density(posterior, z) + log_q(state, after)
    assert abs(got - want) < TOLERANCE * max(1.0, abs(want))


@eqx.filter_jit
def swapped(table, z, layer, i):
    """A pair of nodes, z after its swap and after two, and what the swap says of its prior."""
    pair = table.pair(layer, i)
    after = swap(z, pair, pair.ratio)
    return pair, after, swap(after, pair, pair.ratio), log_prior_ratio(z, pair)


@eqx.filter_jit
def values_and_parameters(posterior, z):
    return posterior.values_of(z), posterior.prior.parameters(z)


@pytest.mark.parametrize("prior", ["tcNN", "iid"])
@pytest.mark.parametrize("block", [None, 2])
def test_a_swap_undoes_itself_and_knows_its_prior_ratio(prior, block):
    posterior, z, _ = setting(prior, "regression")
    z = np.asarray(z)
    table = node_table(posterior, "power", block, move="node_swap")
    for layer, width in enumerate(posterior.prior.widths):
        for i in range(width - 1):
            _, after, back, ratio = as_numpy(swapped(table, z, np.array(layer), np.array(i)))
            assert np.abs(after - z).max() > 0.01
            np.testing.assert_allclose(back, z, rtol=TOLERANCE)
            want = 0.5 * (np.sum(z**2) - np.sum(after**2))
            assert float(ratio) == pytest.approx(want, rel=TOLERANCE)


@pytest.mark.parametrize("prior", ["tcNN", "iid"])
def test_a_swap_permutes_parameters_and_gradient_and_keeps_the_function(prior):
    posterior, z, _ = setting(prior, "action choice")
    table = node_table(posterior, "uniform", move="node_swap")
    before = state_at(posterior, z)
    values, old = as_numpy(values_and_parameters(posterior, z))
    for layer, width in enumerate(posterior.prior.widths):
        for i in range(width - 1):
            pair, moved, _, _ = swapped(table, z, np.array(layer), np.array(i))
            after = state_at(posterior, moved)
            kept, new = as_numpy(values_and_parameters(posterior, moved))
            np.testing.assert_allclose(kept, values, rtol=1e-9, atol=1e-12)
            gradient = jax.jit(swap)(before.gradient, pair, 1 / np.asarray(pair.ratio))
            np.testing.assert_allclose(gradient, after.gradient, rtol=1e-8, atol=1e-10)
            order = np.arange(width)
            order[[i, i + 1]] = order[[i + 1, i]]
            np.testing.assert_allclose(new[layer].weights, old[layer].weights[order], rtol=1e-9)
            np.testing.assert_allclose(new[layer].biases, old[layer].biases[order], rtol=1e-9)
            outgoing = old[layer + 1].weights[:, order]
            np.testing.assert_allclose(new[layer + 1].weights, outgoing, rtol=1e-9)


def _rho_swapped(right):
    return lambda u, v, delta: right(v, u, delta)


def _scaled_energy(right):
    def trajectory(*arguments):
        end, momentum, energy_error = right(*arguments)
        return end, momentum, 0.95 * energy_error

    return trajectory


EXACT_FAULTS = {
    "pCNL: rho's arguments swapped": ("pcnl", "rho", _rho_swapped),
    "pCNL: <u + v, g> term 1 % too large": ("pcnl", "rho", rho_without(across=1.01)),
    "HMC: epsilon^2/4 for epsilon^2/8": ("hmc", "trajectory", faulty_trajectory(square=0.25)),
    "HMC: energy error tempered by 5 %": ("hmc", "trajectory", _scaled_energy),
}


@pytest.mark.parametrize("name", EXACT_FAULTS)
def test_an_exact_fault_is_caught(name, monkeypatch, count_as):
    count_as("seeded faults caught")
    kernel, attribute, make = EXACT_FAULTS[name]
    right = getattr(module(kernel), attribute)
    monkeypatch.setattr(module(kernel), attribute, make(right))
    model = setting("tcNN", "regression")
    error = pcnl_error(*model) if kernel == "pcnl" else hmc_errors(*model)[1]
    assert abs(error) > 1000 * TOLERANCE


def test_the_trajectory_is_of_second_order():
    """Halving the step quarters the energy error of a trajectory of the same length."""
    posterior, z, p = setting("tcNN", "regression")
    state = state_at(posterior, z)
    follow = compiled(trajectory)
    errors = [
        float(follow(posterior, state, p, np.array(0.02 / n), np.array(5 * n))[2]) for n in (4, 8)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
