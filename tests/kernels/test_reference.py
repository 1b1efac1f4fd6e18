"""A reference with a scale for each coordinate: densities, gradients and the way back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import any_reference
from linear import linear_gaussian

import traceclass as tc
from traceclass.kernels.hmc import trajectory
from traceclass.kernels.reference import Reference, _InCoordinates
from traceclass.kernels.reference_trajectory import trajectory_by_reference
from traceclass.kernels.states import GradientState, init_with_gradient

Z = 7


def reference_and_covariance() -> tuple[Reference, np.ndarray]:
    """A reference, and G written out."""
    reference = any_reference(Z, is_scaled=True)
    v, s = np.asarray(reference.vectors), np.asarray(reference.scale)
    inner = np.eye(Z) + v * np.asarray(reference.eigenvalues) @ v.T
    return reference, s[:, None] * np.linalg.inv(inner) * s


def test_phi_is_the_log_ratio_of_prior_and_reference(x64):
    reference, covariance = reference_and_covariance()
    rng, mean = np.random.default_rng(0), np.asarray(reference.mean)
    z = rng.normal(size=(20, Z))
    want = -0.5 * (z**2).sum(axis=1)
    away = z - mean
    want += 0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away)
    got = np.asarray(jax.jit(jax.vmap(reference.phi))(z))
    np.testing.assert_allclose(got - got[0], want - want[0], rtol=1e-10, atol=1e-10)
    slopes = jax.jit(jax.vmap(jax.grad(reference.phi)))(z)
    np.testing.assert_allclose(jax.vmap(reference.phi_gradient)(z), slopes, rtol=1e-10, atol=1e-12)


def test_draws_have_its_mean_and_covariance(x64):
    """z = m + A zeta with A A' = G, and back; by the matrix itself, without chance."""
    reference, covariance = reference_and_covariance()
    a = np.asarray(jax.vmap(reference.position)(np.eye(Z))).T - np.asarray(reference.mean)[:, None]
    np.testing.assert_allclose(a @ a.T, covariance, rtol=1e-10, atol=1e-12)
    zeta = np.random.default_rng(1).normal(size=Z)
    back = reference.coordinates(reference.position(jnp.asarray(zeta)))
    np.testing.assert_allclose(back, zeta, rtol=1e-10)


def test_a_state_enters_with_the_gradient_of_its_new_coordinates(x64):
    posterior, _, _ = linear_gaussian()
    reference = any_reference(6, is_scaled=True)
    z = jnp.asarray(np.random.default_rng(2).normal(size=6))
    state = init_with_gradient(posterior, z)
    entered = reference.entered(state)

    def level(zeta):
        z = reference.position(zeta)
        return posterior.log_likelihood(z) + reference.phi(z)

    value, slope = jax.jit(jax.value_and_grad(level))(entered.position)
    np.testing.assert_allclose(entered.log_likelihood, value, rtol=1e-10)
    np.testing.assert_allclose(entered.gradient, slope, rtol=1e-9)
    for got, want in zip(reference.left(entered), state, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_trajectory_is_that_of_the_coordinates_of_the_reference(x64, is_scaled):
    """Written for z and velocities, it ends where the one for zeta does, with the same error."""
    posterior, _, _ = linear_gaussian()
    reference = any_reference(6, is_scaled=is_scaled)
    target = _InCoordinates(posterior, reference)
    z, p = jnp.asarray(np.random.default_rng(3).normal(size=(2, 6)))

    @jax.jit
    def both(epsilon, num_kicks):
        state = init_with_gradient(posterior, z)
        inner = reference.entered(state)
        end, _, error = trajectory(target, inner, p, epsilon, num_kicks)
        direct = trajectory_by_reference(posterior, reference, state, p, epsilon, num_kicks)
        return (reference.left(end), error), direct

    for epsilon, num_kicks in [(0.3, 1), (0.2, 7)]:
        (want, want_error), (got, got_error) = both(epsilon, num_kicks)
        np.testing.assert_allclose(got.position, want.position, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(got.log_likelihood, want.log_likelihood, rtol=1e-9)
        np.testing.assert_allclose(got.gradient, want.gradient, rtol=1e-9, atol=1e-11)
        assert abs(want_error) > 1e-3
        np.testing.assert_allclose(got_error, want_error, rtol=1e-9, atol=1e-10)


def test_coordinates_like_the_prior_add_no_rounding_errors_to_the_energy():
    """A million coordinates that the likelihood does not see, in single precision."""
    few, many = 6, 1_000_000
    posterior, _, _ = linear_gaussian()
    reference = any_reference(few, is_scaled=True)
    assert reference.scale is not None
    wide = Reference(
        jnp.zeros(many).at[:few].set(reference.mean),
        jnp.zeros((many, 5)).at[:few].set(reference.vectors),
        reference.eigenvalues,
        jnp.ones(many).at[:few].set(reference.scale),
    )
    z, p = jax.random.normal(jax.random.key(0), (2, many))

    class Padded:
        def log_likelihood(self, z):
            return posterior.log_likelihood(z[:few])

        def log_likelihood_and_gradient(self, z):
            level, gradient = posterior.log_likelihood_and_gradient(z[:few])
            return level, jnp.zeros_like(z).at[:few].set(gradient)

    def error(posterior, reference, z, p):
        state = GradientState(z, *posterior.log_likelihood_and_gradient(z))
        return trajectory_by_reference(posterior, reference, state, p, 0.2, 7)[1]

    want = error(posterior, reference, z[:few], p[:few])
    np.testing.assert_allclose(error(Padded(), wide, z, p), want, rtol=1e-4, atol=1e-5)


def test_the_way_from_the_prior_is_exact_for_a_scale_alone(x64):
    """A Gaussian likelihood of each coordinate by itself, raised to the power t."""
    scale = np.array([0.5, 0.9, 1.0])
    linear = np.array([1.0, -0.3, 0.0])  # the likelihood's linear term; precision scale^-2 - 1
    reference = Reference(
        jnp.asarray(linear * scale**2), jnp.zeros((3, 0)), jnp.zeros(0), jnp.asarray(scale)
    )
    tempered = reference.tempered(0.3)
    precision = 1 + 0.3 * (scale**-2 - 1)
    np.testing.assert_allclose(tempered.scale, precision**-0.5, rtol=1e-12)
    np.testing.assert_allclose(tempered.mean, 0.3 * linear / precision, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("scale", "words"), [([1.0, 0.0], "positive"), ([1.0, np.nan], "finite")])
def test_scales_that_cannot_be_are_refused(scale, words):
    with pytest.raises(tc.UserError, match=words):
        Reference(jnp.zeros(2), jnp.zeros((2, 0)), jnp.zeros(0), jnp.array(scale))
