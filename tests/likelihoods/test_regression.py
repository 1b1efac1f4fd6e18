"""Gaussian regression and a user's own likelihood."""

from __future__ import annotations

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
