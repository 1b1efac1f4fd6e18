"""A reference with a scale for each coordinate: densities, gradients and the way back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import any_reference
from linear import linear_gaussian

import traceclass as tc
from traceclass.kernels.reference import Reference
from traceclass.kernels.states import init_with_gradient

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
