"""The mean curvature of the log-likelihood, and references that are fitted by it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import cosine_prior, linear_gaussian

import traceclass as tc
from traceclass.sampling.adaptation import curvature
from traceclass.sampling.adaptation.curvature import mean_curvature, num_curved
from traceclass.sampling.adaptation.fitted_reference import fitted

X = np.linspace(0.0, 2.5, 8)[:, None]


def covariance_of(fit) -> np.ndarray:
    v, s = fit.vectors, fit.scale
    inner = np.eye(len(s)) + v * (1 / (1 + fit.eigenvalues) - 1) @ v.T
    return s[:, None] * inner * s


def draws_of(mean, covariance, num_draws, seed=0):
    """Draws of a Gaussian posterior, and the gradients of its log-likelihood."""
    x = np.random.default_rng(seed).multivariate_normal(mean, covariance, size=num_draws)
    return x, -(x - mean) @ np.linalg.inv(covariance) + x


def test_it_is_the_hessian_of_a_linear_gaussian_posterior():
    posterior, _, covariance = linear_gaussian(noise=0.05)
    x = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    expected = np.linalg.inv(covariance) - np.eye(6)
    np.testing.assert_allclose(mean_curvature(posterior, x, 8), expected, rtol=1e-4, atol=1e-2)


def with_counts(values):
    return jnp.sum(3.0 * values - jnp.exp(values))


@pytest.mark.parametrize("infers_noise", [False, True])
def test_it_is_the_hessian_where_the_function_is_linear_in_its_coordinates(infers_noise):
    """Of a Poisson likelihood, and of a Gaussian one whose log(noise) is linear in h."""
    if infers_noise:
        prior = tc.Hyper(cosine_prior(), noise=tc.LogNormal(median=0.3, sigma=0.5))
        posterior = tc.Posterior(prior, tc.GaussianRegression(X, np.sin(X[:, 0]), noise=0.3))
    else:
        posterior = tc.Posterior(cosine_prior(), tc.Likelihood(X, with_counts))
    z = 0.5 * jax.random.normal(jax.random.key(0), (1, posterior.prior.num_coordinates))
    expected = -jax.hessian(posterior.log_likelihood)(z[0])
    found = mean_curvature(posterior, np.asarray(z), 8)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 * np.abs(expected).max())


def test_of_a_network_it_leaves_out_what_bends_the_network():
    """J'J of the residuals in double precision, and not the Hessian, at a point far from a fit."""
    with jax.enable_x64(True):
        prior = tc.TraceClassNetwork(num_inputs=1, widths=(3,))
        posterior = tc.Posterior(prior, tc.GaussianRegression(X, np.sin(X[:, 0]), noise=0.1))
        z = np.asarray(prior.sample(jax.random.key(0)))
        slopes = np.asarray(jax.jacfwd(posterior.values_of)(z)) / 0.1
        found = mean_curvature(posterior, z[None], 8)
        hessian = -jax.hessian(posterior.log_likelihood)(z)
    np.testing.assert_allclose(found, slopes.T @ slopes, rtol=1e-10, atol=1e-8)
    assert np.linalg.eigvalsh(hessian).min() < -1 < -1e-6 < np.linalg.eigvalsh(found).min()


def test_only_what_has_second_derivatives_and_a_size_to_be_kept_has_a_curvature(monkeypatch):
    posterior, _, _ = linear_gaussian()
    assert num_curved(posterior) == 8

    @jax.custom_vjp
    def own_gradient(values):
        return -jnp.sum(values**2)

    def called_back(values, cotangent):
        """As of a program that is not JAX, and tells its gradient."""
        like = jax.ShapeDtypeStruct(values.shape, values.dtype)
        slope = jax.pure_callback(
            lambda v: -2 * np.asarray(v), like, values, vmap_method="expand_dims"
        )
        return (cotangent * slope,)

    own_gradient.defvjp(lambda v: (-jnp.sum(v**2), v), called_back)
    once = tc.Posterior(cosine_prior(), tc.Likelihood(X, own_gradient))
    assert num_curved(once) == 0
    adapted = tc.hmc.using(reference="adapt")
    run = tc.sample(once, adapted, num_warmup=400, num_samples=10, num_chains=2, progress=False)
    assert run.acceptance_rate > 0.3
    special = tc.Likelihood(
        X, lambda v: jnp.sum(jnp.log(jax.scipy.special.gammainc(v**2 + 1, 1.0)))
    )
    assert num_curved(tc.Posterior(cosine_prior(), special)) == 0
    monkeypatch.setattr(curvature, "_MOST_COORDINATES", 5)
    assert num_curved(posterior) == 0


def test_a_gaussian_posterior_is_found_from_few_draws():
    """Of as many draws as coordinates, with a mean; directions within a factor of two are left."""
    posterior, mean, covariance = linear_gaussian(noise=0.05)
    x, gradients = draws_of(mean, covariance, num_draws=12)
    information = mean_curvature(posterior, x.astype(np.float32), 8)
    fit = fitted(x, gradients, rank=6, curvature=information)
    relative = np.linalg.eigvals(np.linalg.solve(covariance, covariance_of(fit))).real
    assert relative.min() > 0.45
    assert relative.max() < 2.2
    distance = np.sqrt((fit.mean - mean) @ np.linalg.solve(covariance, fit.mean - mean))
    assert distance < 1.0


def test_a_chain_that_has_hardly_moved_is_given_the_curvature_where_it_is():
    """By its draws alone every variance would be a millionth, and the next draws be like these."""
    rng = np.random.default_rng(0)
    x = 1.0 + 1e-6 * rng.normal(size=(40, 6))
    precision = np.diag([1e8, 1e4, 1.0, 1.0, 1.0, 1.0])
    fit = fitted(x, x - (x - 1) @ precision, rank=6, curvature=precision - np.eye(6))
    np.testing.assert_allclose(np.diag(covariance_of(fit)), 1 / np.diag(precision), rtol=0.01)


def test_it_is_the_prior_where_the_data_say_nothing():
    """Exactly along each coordinate; of directions, at most `rank` differ."""
    rng = np.random.default_rng(0)
    for num_idle in (20, 500):
        x = np.hstack([0.1 * rng.normal(size=(50, 1)), rng.normal(size=(50, num_idle))])
        information = np.zeros((1 + num_idle, 1 + num_idle))
        information[0, 0] = 99.0
        fit = fitted(x, -x @ information, rank=6, curvature=information)
        np.testing.assert_array_equal(fit.scale[1:], 1.0)
        assert fit.scale[0] ** 2 * (1 / (1 + fit.eigenvalues)).min() == pytest.approx(0.01, rel=0.5)
        assert np.abs(np.log1p(fit.eigenvalues)).max() < 3.0


@pytest.mark.parametrize("information", [-0.999, -1.0, -5.0])
def test_where_the_log_likelihood_curves_the_other_way_only_the_prior_holds(information):
    """Variances are then between the prior's and that of the draws, and never without bounds."""
    x = 3.0 * np.random.default_rng(0).normal(size=(400, 2))
    fit = fitted(x, np.zeros_like(x), rank=2, curvature=np.diag([information, 0.0]))
    np.testing.assert_allclose(np.diag(covariance_of(fit)), 3.0, rtol=0.2)
    still = fitted(0 * x, np.zeros_like(x), rank=2, curvature=np.diag([information, 0.0]))
    np.testing.assert_allclose(np.diag(covariance_of(still)), 1.0)


def test_draws_where_it_is_not_finite_are_passed_over():
    network = tc.Posterior(cosine_prior(), tc.Likelihood(X, lambda v: jnp.sum(jnp.log(v + 1))))
    z = np.zeros((4, 6), dtype=np.float32)
    good = mean_curvature(network, z, 8)
    assert good is not None
    z[2] = np.nan
    np.testing.assert_allclose(mean_curvature(network, z, 8), good, rtol=1e-5)
    assert mean_curvature(network, np.full_like(z, np.nan), 8) is None
