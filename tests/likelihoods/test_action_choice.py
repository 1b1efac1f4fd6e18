"""Choices of a noisy expert: frequencies, order of points, invariance, saturation, bad input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc

RNG = np.random.default_rng(0)
SUCCESSORS = RNG.normal(size=(6, 4, 2))
ACTIONS = np.array([0, 3, 1, 2, 2, 0])


def likelihood(**changes):
    return tc.ActionChoice(SUCCESSORS, ACTIONS, **({"noise": 0.5} | changes))


def values_by_action(like: tc.ActionChoice, table: np.ndarray) -> np.ndarray:
    """Function values in the order of like.points, from a table (T, M)."""
    lookup = {
        tuple(p): v
        for p, v in zip(SUCCESSORS.reshape(-1, 2).astype("f4").tolist(), table.ravel(), strict=True)
    }
    return np.float32([lookup[tuple(p)] for p in np.asarray(like.points).tolist()])


def test_points_are_the_successors_chosen_first():
    like = likelihood()
    points = np.asarray(like.points).reshape(4, 6, 2)
    np.testing.assert_allclose(points[0], SUCCESSORS[np.arange(6), ACTIONS], rtol=1e-6)
    assert {tuple(p) for p in points.reshape(-1, 2).tolist()} == {
        tuple(p) for p in SUCCESSORS.reshape(-1, 2).astype("f4").tolist()
    }


def test_log_prob_is_the_frequency_of_choices():
    """Each demonstration's probability against 400,000 simulated choices (eq. random_action_2);
    5 standard errors, false alarm below 1e-5."""
    like = likelihood()
    table = RNG.normal(scale=0.4, size=(6, 4))
    n = 400_000
    values = jnp.asarray(values_by_action(like, table))
    probabilities = np.exp(np.asarray(like.log_prob_each(values)))
    for t in range(6):
        noisy = table[t] + 0.5 * RNG.normal(size=(n, 4))
        frequency = np.mean(np.argmax(noisy, axis=1) == ACTIONS[t])
        assert probabilities[t] == pytest.approx(frequency, abs=5 * np.sqrt(0.25 / n))


def test_another_noise_is_that_of_another_likelihood():
    values = jnp.asarray(RNG.normal(size=24), dtype=float)
    for noise in (0.1, 2.0):
        expected = likelihood(noise=noise).log_prob_each(values)
        each = likelihood().log_prob_each(values, noise=jnp.asarray(noise))
        np.testing.assert_allclose(each, expected, rtol=1e-5)
        level = likelihood().log_prob(values, noise=jnp.asarray(noise))
        np.testing.assert_allclose(level, jnp.sum(expected), rtol=1e-5)


def test_by_action_and_predict_use_the_users_order():
    like = likelihood()
    table = RNG.normal(size=(6, 4)).astype("f4")
    values = jnp.asarray(values_by_action(like, table))
    np.testing.assert_array_equal(like.by_action(values), table)
    np.testing.assert_array_equal(like.predict(values), np.argmax(table, axis=1))
    np.testing.assert_array_equal(jax.jit(like.predict)(values), np.argmax(table, axis=1))


def test_a_constant_does_not_matter_and_the_gradient_sums_to_zero():
    like = likelihood(noise=0.1)
    values = values_by_action(like, RNG.normal(scale=3.0, size=(6, 4)))
    values, shifted = jnp.asarray(values), jnp.asarray(values + np.float32(7.0))
    np.testing.assert_allclose(like.log_prob_each(values), like.log_prob_each(shifted), rtol=2e-5)
    gradient = np.asarray(jax.grad(like.log_prob)(values)).reshape(4, 6)
    np.testing.assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-6 * np.abs(gradient).max())


def test_gradient_matches_differences(x64):
    like = likelihood(saturation=2.0)
    values = RNG.normal(size=24)
    level_and_gradient = jax.jit(lambda v: (like.log_prob(v), jax.grad(like.log_prob)(v)))
    gradient = np.asarray(level_and_gradient(values)[1])
    h = 1e-6
    for i, shift in enumerate(h * np.eye(24)):
        ahead, behind = (float(level_and_gradient(values + s)[0]) for s in (shift, -shift))
        assert gradient[i] == pytest.approx((ahead - behind) / (2 * h), abs=1e-7)


def test_saturation_bounds_the_gradient():
    """Theorem 3 needs bounded derivatives: with |s| <= c they are at most about 2c/noise^2."""
    values = jnp.asarray(RNG.normal(scale=1e3, size=24), dtype=float)
    free = np.abs(np.asarray(jax.grad(likelihood().log_prob)(values))).max()
    bounded = np.abs(np.asarray(jax.grad(likelihood(saturation=1.0).log_prob)(values))).max()
    assert free > 100
    assert bounded < 2 * 1.0 / 0.5**2
    by_name = likelihood(saturation=1.0).log_prob(values)
    by_function = likelihood(saturation=jnp.tanh).log_prob(values)
    np.testing.assert_allclose(by_name, by_function, rtol=1e-6)


@pytest.mark.parametrize(
    ("successors", "actions", "noise", "words"),
    [
        (SUCCESSORS, ACTIONS, 0.0, "noise must be positive and finite, got 0.0"),
        (SUCCESSORS, ACTIONS, -0.1, "noise must be positive"),
        (SUCCESSORS, np.array([0, 3, 1, 2, 4, 0]), 0.1, "0..3, got 4 at demonstration 4"),
        (SUCCESSORS, np.array([0, -1, 1, 2, 2, 0]), 0.1, "0..3, got -1 at demonstration 1"),
        (SUCCESSORS, ACTIONS[:5], 0.1, r"each of the 6 states in successors, got shape \(5,\)"),
        (SUCCESSORS[:, :1], ACTIONS, 0.1, r"shape \(T, M, d\).*got \(6, 1, 2\)"),
        (SUCCESSORS[0], ACTIONS, 0.1, r"shape \(T, M, d\).*got \(4, 2\)"),
        (SUCCESSORS[:0], ACTIONS[:0], 0.1, r"got \(0, 4, 2\)"),
        (np.where(SUCCESSORS[2, 1, 0] == SUCCESSORS, np.nan, SUCCESSORS), ACTIONS, 0.1,
         r"successors must be finite, got nan at index \(2, 1, 0\)"),
        (np.where(SUCCESSORS[2, 1, 0] == SUCCESSORS, np.inf, SUCCESSORS), ACTIONS, 0.1, "got inf"),
    ],
)  # fmt: skip
def test_bad_data_are_explained(successors, actions, noise, words):
    with pytest.raises(ValueError, match=words):
        tc.ActionChoice(successors, actions, noise=noise)


def test_values_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"values must have shape \(24,\), got \(23,\)"):
        likelihood().log_prob(np.zeros(23))


def test_actions_must_be_whole_numbers():
    with pytest.raises(TypeError, match="whole numbers, got float64"):
        tc.ActionChoice(SUCCESSORS, ACTIONS.astype(float), noise=0.1)
