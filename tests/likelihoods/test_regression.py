"""Gaussian regression and a user's own likelihood."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import traceclass as tc

X = np.array([[0.0], [0.5], [2.0]])
Y = np.array([0.1, -0.4, 3.0])


def test_log_prob_is_the_normal_density():
    values = np.array([0.0, 0.2, 2.5])
    exact = norm.logpdf(Y, values, 0.3).sum()
    like = tc.GaussianRegression(X, Y, noise=0.3)
    assert float(like.log_prob(jnp.asarray(values))) == pytest.approx(exact, rel=1e-6)
    np.testing.assert_array_equal(like.predict(jnp.asarray(values)), values.astype("f4"))


def test_log_prob_at_another_noise_is_the_normal_density():
    values = np.array([0.0, 0.2, 2.5])
    like = tc.GaussianRegression(X, Y, noise=0.3)
    for noise in (0.05, 2.0):
        exact = norm.logpdf(Y, values, noise)
        given = jnp.asarray(noise)
        each = like.log_prob_each(jnp.asarray(values), noise=given)
        np.testing.assert_allclose(each, exact, rtol=1e-5)
        level = jax.jit(lambda s: like.log_prob(jnp.asarray(values), noise=s))(given)
        assert float(level) == pytest.approx(exact.sum(), rel=1e-5)
        np.testing.assert_allclose(
            like.residuals(jnp.asarray(values), noise=given), (Y - values) / noise, rtol=1e-5
        )
    np.testing.assert_allclose(
        like.log_prob_each(jnp.asarray(values)), norm.logpdf(Y, values, 0.3), rtol=1e-5
    )


def test_own_likelihood_hands_the_noise_on():
    def log_prob(values, noise=2.0):
        return -jnp.sum(values**2) / noise

    like = tc.Likelihood(X, log_prob, log_prob_each=lambda v, *, noise: -(v**2) / noise)
    values = jnp.array([1.0, 2.0, 0.0])
    assert float(like.log_prob(values)) == -2.5
    assert float(like.log_prob(values, noise=5.0)) == -1.0
    assert like.log_prob_each(values, noise=1.0).tolist() == [-1.0, -4.0, 0.0]


def test_own_likelihood_without_what_is_asked_of_it_says_so():
    like = tc.Likelihood(X, lambda v: -jnp.sum(v**2))
    with pytest.raises(ValueError, match="made without log_prob_each="):
        like.log_prob_each(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"infers the noise level, but .*lambda.* takes none"):
        like.log_prob(jnp.zeros(3), noise=1.0)


@pytest.mark.parametrize(
    ("x", "y", "noise", "words"),
    [
        (X, Y[:2], 0.1, "each of the 3 rows of x"),
        (X[:, 0], Y, 0.1, r"x must have shape \(n, d\)"),
        (X, np.array([0.1, np.nan, 3.0]), 0.1, r"y must be finite, got nan at index \(1,\)"),
        (X, Y, 0.0, "noise must be positive"),
    ],
)
def test_bad_data_are_explained(x, y, noise, words):
    with pytest.raises(ValueError, match=words):
        tc.GaussianRegression(x, y, noise=noise)


def test_own_likelihood_without_predict_says_so():
    like = tc.Likelihood(X, lambda v: -jnp.sum(v**2))
    assert float(like.log_prob(jnp.array([1.0, 2.0, 0.0]))) == -5.0
    with pytest.raises(ValueError, match="made without predict="):
        like.predict(jnp.zeros(3))
    assert tc.Likelihood(X, jnp.sum, predict=jnp.exp).predict(jnp.zeros(3)).tolist() == [1.0] * 3


def test_own_likelihood_must_be_callable():
    with pytest.raises(TypeError, match="log_prob must be a function"):
        tc.Likelihood(X, 3.0)
