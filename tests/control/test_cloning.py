"""Clones in JAX against scikit-learn's own predictions, and what they do with little data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from traceclass import control

LOW, HIGH = (-2.0, 0.0), (2.0, 10.0)
RNG = np.random.default_rng(0)
STATES = RNG.uniform(LOW, HIGH, (40, 2))
SCALED = 2 * (STATES - np.array(LOW)) / (np.array(HIGH) - np.array(LOW)) - 1


def model_of(method):
    if method == "logistic":
        return LogisticRegression(max_iter=10_000)
    return MLPClassifier(
        (10, 10, 10), activation="tanh", solver="lbfgs", max_iter=10_000, random_state=3
    )


@pytest.mark.parametrize("method", control.CLONES)
@pytest.mark.parametrize("num_classes", [2, 3])
def test_probabilities_are_those_of_scikit_learn(method, num_classes):
    """Actions 0 and 2 of four, or 0, 2 and 3: those never seen have probability zero."""
    edges = [0.0] if num_classes == 2 else [-0.3, 0.4]
    actions = np.array([0, 2, 3])[np.digitize(SCALED.sum(axis=1), edges)]
    clone = control.clone(STATES, actions, LOW, HIGH, num_actions=4, method=method, seed=3)
    ours = np.exp(np.asarray(clone.log_probabilities(jnp.asarray(STATES))))
    model = model_of(method).fit(SCALED.astype(np.float32).astype(float), actions)
    np.testing.assert_allclose(ours[:, model.classes_], model.predict_proba(SCALED), atol=0.02)
    assert not ours[:, 1].any()
    assert (np.asarray(clone(jax.random.key(0), jnp.asarray(STATES))) == actions).mean() > 0.8


def test_one_action_seen_is_taken_everywhere():
    clone = control.clone(
        STATES, np.full(40, 2), LOW, HIGH, num_actions=3, method="logistic"
    )  # fmt: skip
    assert (clone(jax.random.key(0), jnp.asarray(STATES)) == 2).all()
    np.testing.assert_array_equal(
        clone.log_probabilities(jnp.asarray(STATES[:1])), [[-np.inf, -np.inf, 0.0]]
    )


def test_a_forest_learns_what_is_plain_and_never_says_impossible():
    generator = np.random.default_rng(0)
    states = generator.uniform(-1, 1, (200, 3))
    actions = np.where(states[:, 0] > 0, 4, 1)
    forest = control.forest(states, actions, num_actions=6, seed=0)
    others = generator.uniform(-1, 1, (100, 3))
    np.testing.assert_array_equal(
        forest(None, others)[np.abs(others[:, 0]) > 0.1],
        np.where(others[:, 0] > 0, 4, 1)[np.abs(others[:, 0]) > 0.1],
    )
    log_probabilities = forest.log_probabilities(others)
    assert np.isfinite(log_probabilities).all()
    np.testing.assert_allclose(np.exp(log_probabilities).sum(axis=1), 1)
