"""Behavioural cloning, the plain alternative: a classifier of states, with no dynamics in it.

Fitted by scikit-learn. Logistic regression and the network are carried over to JAX, so that they
drive in the same compiled rollouts as policies from a value function; the forest stays outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from traceclass.arrays import as_floats, as_numbers
from traceclass.module import Module

Method = Literal["logistic", "network"]
CLONES: tuple[Method, ...] = ("logistic", "network")
# The size of the paper's network, so that only the way of learning differs.
_HIDDEN = (10, 10, 10)
_TREES = 200


class Clone(Module):
    """A fitted classifier: probabilities of the actions, and the policy that takes the best."""

    layers: tuple[tuple[Array, Array], ...]
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    seen: tuple[int, ...] = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)

    def log_probabilities(
        self, states: Float[Array, "states dim"]
    ) -> Float[Array, "states actions"]:
        """log p(action) in each state; minus infinity for actions that were never seen."""
        hidden = _scaled(states, self.low, self.high)
        for depth, (weights, biases) in enumerate(self.layers):
            hidden = (jnp.tanh(hidden) if depth else hidden) @ weights + biases
        if len(self.seen) == 2:  # scikit-learn keeps one logit of two classes
            hidden = jnp.concatenate([jnp.zeros_like(hidden), hidden], axis=1)
        never = jnp.full((len(states), self.num_actions), -jnp.inf)
        return never.at[:, jnp.array(self.seen)].set(jax.nn.log_softmax(hidden, axis=1))

    def __call__(self, key: Key[Array, ""], states: Float[Array, "states dim"]) -> Array:
        """As a policy: the most probable action."""
        del key
        return jnp.argmax(self.log_probabilities(states), axis=1)


def clone(
    states: Any,
    actions: Any,
    low: Sequence[float],
    high: Sequence[float],
    *,
    num_actions: int,
    method: Method,
    seed: int = 0,
) -> Clone:
    """A classifier of `actions` (n,) by `states` (n, d), scaled to [-1, 1]^d, which is a policy.

    "logistic" is logistic regression, "network" a tanh network of three layers of ten nodes, both
    scikit-learn's with its default penalties. An action that was never seen has probability zero;
    if only one was seen, it is taken everywhere.
    """
    actions = as_numbers(actions, "actions")
    seen = tuple(np.unique(actions).tolist())
    corners = tuple(map(float, low)), tuple(map(float, high))
    layers = ((jnp.zeros((len(corners[0]), 1)), jnp.zeros(1)),)
    if len(seen) > 1:
        inputs = np.asarray(_scaled(as_floats(states, "states"), *corners), dtype=np.float64)
        layers = _fitted(inputs, actions, method, seed)
    return Clone(layers, *corners, seen, num_actions)


class Forest:
    """A random forest as a policy; scikit-learn's own, so it drives outside of JAX."""

    def __init__(self, model: Any, num_actions: int):
        self._model, self._num_actions = model, num_actions

    def log_probabilities(self, states: Any) -> np.ndarray:
        """log p(action) in each state, (n, actions): shares of trees, none of them zero.

        With T trees, a share s counts as (s T + 1/2) / (T + M / 2): no tree is not no chance.
        """
        trees, shares = len(self._model.estimators_), np.zeros((len(states), self._num_actions))
        shares[:, self._model.classes_] = self._model.predict_proba(np.asarray(states))
        return np.log((shares * trees + 0.5) / (trees + self._num_actions / 2))

    def __call__(self, key: Any, states: Any) -> np.ndarray:
        """As a policy: the most probable action."""
        del key
        return self.log_probabilities(states).argmax(axis=1)


def forest(states: Any, actions: Any, *, num_actions: int, seed: int = 0) -> Forest:
    """A random forest of `actions` (n,) by `states` (n, d), with scikit-learn's defaults."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(n_estimators=_TREES, random_state=seed)
    return Forest(model.fit(np.asarray(states), np.asarray(actions)), num_actions)


def _scaled(states: Array, low: Sequence[float], high: Sequence[float]) -> Array:
    return 2 * (states - jnp.asarray(low)) / (jnp.asarray(high) - jnp.asarray(low)) - 1


def _fitted(
    inputs: np.ndarray, actions: np.ndarray, method: Method, seed: int
) -> tuple[tuple[Array, Array], ...]:
    """Weights (in, out) and biases (out,) of every layer."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    if method == "logistic":
        model: Any = LogisticRegression(max_iter=10_000).fit(inputs, actions)
        return ((jnp.asarray(model.coef_.T, float), jnp.asarray(model.intercept_, float)),)
    model = MLPClassifier(
        _HIDDEN, activation="tanh", solver="lbfgs", max_iter=10_000, random_state=seed
    ).fit(inputs, actions)
    return tuple(
        (jnp.asarray(weights, float), jnp.asarray(biases, float))
        for weights, biases in zip(model.coefs_, model.intercepts_, strict=True)
    )
