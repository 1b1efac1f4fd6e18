"""The posterior joins prior and likelihood and differentiates the two."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc
from traceclass.module import Module
from traceclass.sampling.adaptation.trajectory import values_and_log_likelihood


def problem() -> tc.Posterior:
    x = np.linspace(-1, 1, 5)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(6, 5))
    return tc.Posterior(prior, tc.GaussianRegression(x, np.cos(x[:, 0]), noise=0.3))


def test_log_likelihood_is_that_of_the_values():
    posterior = problem()
    z = posterior.prior.sample(jax.random.key(0))
    values = posterior.prior.evaluate(z, posterior.likelihood.points)
    expected = posterior.likelihood.log_prob(values)
    np.testing.assert_allclose(posterior.log_likelihood(z), expected, rtol=1e-6)
    np.testing.assert_allclose(posterior.logdensity(z), expected - 0.5 * jnp.sum(z**2), rtol=1e-6)


def test_methods_compile_with_plain_jax():
    posterior = problem()
    z = posterior.prior.sample(jax.random.key(0))
    np.testing.assert_allclose(
        jax.jit(posterior.log_likelihood)(z), posterior.log_likelihood(z), rtol=1e-6
    )
    np.testing.assert_allclose(jax.jit(posterior.values_of)(z), posterior.values_of(z), rtol=1e-6)
    x = jnp.zeros((2, 1))
    np.testing.assert_allclose(
        jax.jit(posterior.prior.evaluate)(z, x), posterior.prior.evaluate(z, x), rtol=1e-6
    )


def test_gradient_matches_differences(x64):
    posterior = problem()
    z = posterior.prior.sample(jax.random.key(1))
    level, gradient = jax.jit(posterior.log_likelihood_and_gradient)(z)
    level_at = jax.jit(posterior.log_likelihood)
    np.testing.assert_allclose(level, level_at(z), rtol=1e-12)
    h = 1e-6
    for i in range(0, z.size, 7):
        shift = jnp.zeros_like(z).at[i].set(h)
        ends = level_at(z + shift) - level_at(z - shift)
        assert float(gradient[i]) == pytest.approx(float(ends / (2 * h)), rel=1e-5, abs=1e-6)


def test_positions_of_another_length_are_refused():
    posterior = problem()
    with pytest.raises(ValueError, match=r"a position must have shape \(53,\), got \(54,\)"):
        posterior.log_likelihood(jnp.zeros(54))
    with pytest.raises(ValueError, match=r"positions must have shape \(53,\), got \(106,\)"):
        posterior.prior.evaluate(jnp.zeros(106), jnp.zeros((2, 1)))


def noisy(likelihood) -> tc.Posterior:
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(6, 5))
    return tc.Posterior(tc.Hyper(prior, noise=tc.LogNormal(median=0.2, sigma=0.5)), likelihood)


def test_the_noise_of_the_prior_reaches_the_likelihood():
    posterior = noisy(problem().likelihood)
    z = posterior.prior.sample(jax.random.key(0))
    noise = 0.2 * jnp.exp(0.5 * z[0])
    expected = posterior.likelihood.log_prob(posterior.values_of(z), noise=noise)
    np.testing.assert_allclose(posterior.log_likelihood(z), expected, rtol=1e-6)
    np.testing.assert_allclose(posterior.tempered(0.5).log_likelihood(z), expected / 2, rtol=1e-6)
    each = posterior.tempered(0.5).log_likelihood_each(z)
    assert each.shape == (5,)
    np.testing.assert_allclose(jnp.sum(each), expected, rtol=1e-5)


def test_the_level_that_warm_up_sees_has_the_noise_of_the_prior():
    posterior = noisy(problem().likelihood)
    z = posterior.prior.sample(jax.random.key(0), (3,))
    levels = values_and_log_likelihood(posterior, z)[:, -1]
    expected = jax.jit(jax.vmap(posterior.log_likelihood))(z)
    np.testing.assert_allclose(levels, expected, rtol=1e-5)


def test_each_observation_has_its_log_probability():
    posterior = problem()
    z = posterior.prior.sample(jax.random.key(0))
    each = posterior.log_likelihood_each(z)
    np.testing.assert_allclose(jnp.sum(each), posterior.log_likelihood(z), rtol=1e-5)
    without = eqx.tree_at(lambda p: p.likelihood, posterior, Flat(posterior.likelihood.points))
    with pytest.raises(ValueError, match="Flat has no log_prob_each"):
        without.log_likelihood_each(z)


class Flat(Module):
    """A likelihood of one's own class, with the least it needs."""

    points: jax.Array

    def log_prob(self, values):
        return 0 * jnp.sum(values)


def test_a_likelihood_that_takes_no_noise_is_refused():
    x = np.zeros((2, 1))
    with pytest.raises(ValueError, match=r"infers the noise level, but .*log_prob takes none"):
        noisy(Flat(jnp.asarray(x)))
    with pytest.raises(ValueError, match=r"infers the noise level, but .*lambda.* takes none"):
        noisy(tc.Likelihood(x, lambda v: -jnp.sum(v**2)))


def test_a_likelihood_of_many_numbers_is_refused():
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(3,))
    with pytest.raises(ValueError, match=r"one number, got an array of shape \(2,\)"):
        tc.Posterior(prior, tc.Likelihood(np.zeros((2, 1)), lambda v: -(v**2)))


def test_points_of_another_dimension_are_refused():
    prior = tc.TraceClassNetwork(num_inputs=3, widths=(2,))
    with pytest.raises(ValueError, match=r"num_inputs=3.*got \(1, 2\)"):
        tc.Posterior(prior, tc.GaussianRegression(np.zeros((1, 2)), np.zeros(1), noise=1.0))
