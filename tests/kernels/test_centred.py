"""The centred move: what it holds, by what law it moves, and what becomes of it with the width."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc
from traceclass.kernels.centred import _centring

POINTS = np.linspace(-1, 1, 9)[:, None]
OBSERVATIONS = np.sin(3 * POINTS[:, 0])


def posterior_of() -> tc.Posterior:
    """A network whose variances, alpha and noise are inferred."""
    prior = tc.Hyper(
        tc.TraceClassNetwork(num_inputs=1, widths=(4, 3)),
        alpha=tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5),
        weight_variance=[tc.LogNormal(median=1.0, sigma=1.0)] * 3,
        noise=tc.LogNormal(median=0.5, sigma=0.7),
    )
    return tc.Posterior(prior, tc.GaussianRegression(POINTS, OBSERVATIONS, noise=0.3))


@functools.cache
def steps_of(num_steps: int):
    """`num_steps` steps from a position: all positions on the way, and the last state."""

    @eqx.filter_jit
    def steps(posterior, key, z, block):
        algorithm = tc.centred(posterior, block=block)

        def step(state, key):
            state, info = algorithm.step(key, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(step, algorithm.init(z), jax.random.split(key, num_steps))

    return steps


def log_likelihood(posterior, z):
    return posterior.log_likelihood(z)


@pytest.mark.usefixtures("x64")
def test_the_function_stays_and_every_hyperparameter_moves():
    posterior = posterior_of()
    hyper = posterior.prior
    z = hyper.sample(jax.random.key(0))
    state, (positions, _) = steps_of(1)(posterior, jax.random.key(1), z, None)
    after = positions[0]
    h = hyper.num_hyperparameters
    assert h == 5
    assert (np.abs(after[:h] - z[:h]) > 1e-6).all()
    theta_and_values = eqx.filter_jit(lambda p, z: (p.prior.parameters(z), p.values_of(z)))
    old, new = (jax.tree.leaves(theta_and_values(posterior, p)) for p in (z, after))
    for was, now in zip(old, new, strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-8)
    level = eqx.filter_jit(log_likelihood)(posterior, after)
    assert float(state.log_likelihood) == pytest.approx(float(level))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("block", [None, 2])
def test_the_ratio_is_that_of_the_densities_and_its_volume(block):
    posterior = posterior_of()
    centring, first = _centring(posterior, block), posterior.prior.num_hyperparameters

    @jax.jit
    def there_and_back(z, k):
        there, log_r = centring.moved(z, k, z[k] + 0.4)
        back, log_back = centring.moved(there, k, z[k])
        # With h fixed at both ends z -> z' is linear: its volume by automatic derivatives.
        jacobian = jax.jacfwd(lambda x: centring.moved(x, k, z[k] + 0.4)[0])(z)[first:, first:]
        want = 0.5 * (jnp.sum(z[first:] ** 2) - jnp.sum(there[first:] ** 2))
        want += jnp.linalg.slogdet(jacobian)[1]
        ratios = centring.log_prior_ratio(z, log_r), centring.log_prior_ratio(there, log_back)
        return want, ratios, back

    z = posterior.prior.sample(jax.random.key(2))
    for k in centring.scaling:
        want, (there, back), z_again = there_and_back(z, k)
        assert abs(float(there)) > 1e-3
        assert float(there) == pytest.approx(float(want), abs=1e-9)
        assert float(back) == pytest.approx(-float(want), abs=1e-9)
        np.testing.assert_allclose(z_again, z, rtol=1e-9)


def moments(draws: np.ndarray) -> np.ndarray:
    return np.array([draws.mean(), draws.var()])


def by_quadrature(log_density) -> np.ndarray:
    """Mean and variance of h with the density N(h; 0, 1) exp(log_density(h))."""
    h = np.linspace(-9, 9, 20_001)
    log_weights = -0.5 * h**2 + np.array(log_density(h))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = weights @ h
    return np.array([mean, weights @ (h - mean) ** 2])


def test_draws_given_the_weights_have_the_law_of_quadrature():
    """Of one variance over d weights theta, and of the noise over n residuals; false alarm 1e-5.

    Both are s(h) = e^(h / 2) in front of d standard normal numbers, with s^-d exp(-|x|^2 / 2 s^2).
    """
    prior = tc.Hyper(
        tc.Series(lambda x: jnp.cos(x * jnp.arange(3)), np.ones(3), num_inputs=1),
        variance=tc.LogNormal(median=1.0, sigma=1.0),
        noise=tc.LogNormal(median=0.5, sigma=1.0),
    )
    posterior = tc.Posterior(prior, tc.GaussianRegression(POINTS, OBSERVATIONS, noise=1.0))
    z = prior.sample(jax.random.key(3)).at[2:].set(jnp.array([0.3, -1.2, 2.0]))
    num_steps = 20_000
    _, (positions, _) = steps_of(num_steps)(posterior, jax.random.key(4), z, None)
    draws = np.asarray(positions, dtype=np.float64)
    theta = np.asarray(prior.parameters(z))
    residuals = OBSERVATIONS - np.asarray(posterior.values_of(z))

    def normal(x, log_s):
        return -x.size * log_s - 0.5 * np.sum(x**2) * np.exp(-2 * log_s)

    for k, x, log_s in ((0, theta, lambda h: h / 2), (1, residuals, lambda h: np.log(0.5) + h)):
        want = by_quadrature(lambda h, x=x, log_s=log_s: normal(x, log_s(h)))
        got = moments(draws[:, k])
        # Draws of a slice are correlated: errors by the means of batches, z-scores below 4.7.
        batches = np.array([moments(part) for part in np.split(draws[:, k], 50)])
        errors = batches.std(axis=0, ddof=1) / np.sqrt(50)
        assert (np.abs(got - want) < 4.7 * errors).all(), (k, got, want, errors)


def room(width: int, block: int | None, num_steps: int = 300) -> float:
    """The sd of the log-variance of the middle layer when all is held, or a corner alone."""
    prior = tc.Hyper(
        tc.TraceClassNetwork(num_inputs=1, widths=(width, width)),
        weight_variance=[1.0, tc.LogNormal(median=1.0, sigma=1.0), 1.0],
    )
    flat = tc.Posterior(prior, tc.Likelihood(POINTS, lambda values: 0.0 * values[0]))
    z = prior.sample(jax.random.key(5))
    _, (positions, _) = steps_of(num_steps)(flat, jax.random.key(6), z, block)
    return float(np.std(np.asarray(positions)[:, 0]))


def test_a_wide_network_leaves_its_variances_no_room_and_a_corner_does():
    """With n weights held, the log-variance has the sd sqrt(2 / n), if n is large."""
    assert room(32, None) == pytest.approx(np.sqrt(2) / 32, rel=0.25)
    assert room(32, 4) > 0.5 * np.sqrt(2) / 4


def test_a_corner_is_held_and_the_rest_keeps_its_coordinates():
    posterior = posterior_of()
    z = posterior.prior.sample(jax.random.key(7))
    state, (positions, rates) = steps_of(1)(posterior, jax.random.key(8), z, 2)
    is_kept = np.asarray(positions[0] == z)[posterior.prior.num_hyperparameters :]
    held = np.asarray(_centring(posterior, 2).held)
    assert is_kept[~held].all()
    # Biases have a variance that is not inferred, and that of the first does not depend on alpha.
    assert (~is_kept[held]).mean() > 0.7
    assert 0 <= float(rates[0]) <= 1
    assert float(state.log_likelihood) == pytest.approx(
        float(eqx.filter_jit(log_likelihood)(posterior, positions[0])), rel=1e-5
    )


def test_what_it_cannot_move_is_said():
    network = tc.TraceClassNetwork(num_inputs=1, widths=(4,))
    likelihood = tc.GaussianRegression(POINTS, OBSERVATIONS, noise=0.3)
    with pytest.raises(tc.UserError, match="moves the hyperparameters"):
        tc.centred(tc.Posterior(network, likelihood))
    tails = tc.Hyper(network, tails="laplace", alpha=tc.ShiftedLogNormal(low=1, median=2, sigma=1))
    with pytest.raises(tc.UserError, match="needs Gaussian weights"):
        tc.centred(tc.Posterior(tails, likelihood))
    with pytest.raises(tc.UserError, match="block"):
        tc.centred(posterior_of(), block=0)
