"""A series in the coordinates that points see: the same posterior, in fewer of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc

POINTS = np.random.default_rng(0).uniform(size=(6, 2))
ELSEWHERE = np.random.default_rng(1).uniform(size=(5, 2))


@pytest.fixture(scope="module")
def prior():
    return tc.FourierSeries(num_inputs=2, max_frequency=2, alpha=2.5)


@pytest.fixture(scope="module")
def reduced(prior):
    return tc.Reduced(prior, POINTS)


def matrix(prior, points):
    """B of v = B z."""
    jacobian = jax.jit(jax.jacobian(prior.at(points)))
    return np.asarray(jacobian(jnp.zeros(prior.num_coordinates)), np.float64)


def test_points_see_no_more_than_they_are(prior, reduced):
    assert (prior.num_coordinates, reduced.num_coordinates) == (24, 6)
    many = np.random.default_rng(2).uniform(size=(40, 2))
    assert tc.Reduced(prior, many).num_coordinates == 24


def test_lifted_positions_have_the_values_that_were_seen(prior, reduced):
    y = reduced.sample(jax.random.key(0), (3,))
    z = reduced.lift(jax.random.key(1), y)
    assert z.shape == (3, 24)
    np.testing.assert_allclose(
        prior.evaluate(z, POINTS), reduced.evaluate(y, POINTS), rtol=0, atol=1e-5
    )
    # Elsewhere they differ, by what the points do not see.
    assert np.abs(prior.evaluate(z, ELSEWHERE) - reduced.evaluate(y, ELSEWHERE)).max() > 0.1


def test_lifting_prior_draws_gives_prior_draws(reduced):
    """Sample covariance of 40,000 draws against the identity, entries within 6 standard errors.

    300 entries, so a false alarm has probability 300 * 2e-9.
    """
    n = 40_000
    key_seen, key_rest = jax.random.split(jax.random.key(0))
    z = np.asarray(reduced.lift(key_rest, reduced.sample(key_seen, (n,))), np.float64)
    gaps = z.T @ z / n - np.eye(24)
    errors = np.where(np.eye(24) == 1, np.sqrt(2 / n), np.sqrt(1 / n))
    assert (np.abs(gaps) < 6 * errors).all()


def test_the_part_not_seen_is_needed(reduced):
    """Without it the covariance is that of six directions: the test above would notice."""
    y = np.asarray(reduced.sample(jax.random.key(0), (1000,)))
    seen = y @ np.asarray(reduced.basis).T
    assert np.linalg.matrix_rank(seen, tol=1e-3) == 6


def test_the_posterior_mean_is_that_of_the_whole_series(prior, reduced):
    """Gaussian regression in closed form, over z and over y."""
    data, noise = np.sin(7 * POINTS[:, 0]), 0.1

    def mean_elsewhere(some):
        b = matrix(some, POINTS)
        whole = np.linalg.solve(b.T @ b / noise**2 + np.eye(b.shape[1]), b.T @ data / noise**2)
        return matrix(some, ELSEWHERE) @ whole

    np.testing.assert_allclose(mean_elsewhere(reduced), mean_elsewhere(prior), atol=1e-4)


@pytest.mark.long
def test_sampled_and_lifted_draws_have_the_posterior_of_the_whole_series(prior, reduced):
    """Mean and variance at other points, by chains over y, within 5 standard errors."""
    data, noise = np.sin(7 * POINTS[:, 0]), 0.3
    run = tc.sample(
        tc.Posterior(reduced, tc.GaussianRegression(POINTS, data, noise=noise)),
        tc.hmc,
        num_samples=1_500,
        seed=0,
        progress=False,
    )
    y = run.positions.reshape(-1, 6)
    v = np.asarray(prior.evaluate(reduced.lift(jax.random.key(3), y), ELSEWHERE), np.float64)
    b, c = matrix(prior, POINTS), matrix(prior, ELSEWHERE)
    covariance = np.linalg.inv(b.T @ b / noise**2 + np.eye(24))
    mean = c @ covariance @ b.T @ data / noise**2
    variance = np.diag(c @ covariance @ c.T)
    independent = len(v) / 4  # the chains' draws are nearly so
    assert (np.abs(v.mean(axis=0) - mean) < 5 * np.sqrt(variance / independent)).all()
    relative = np.abs(v.var(axis=0) / variance - 1)
    assert (relative < 5 * np.sqrt(2 / independent)).all()


def test_another_set_of_points_is_no_refinement(prior, reduced):
    other = tc.Reduced(prior, ELSEWHERE)
    with pytest.raises(ValueError, match="is not a refinement"):
        other.prolong(jax.random.key(0), other.sample(jax.random.key(1)), reduced)


def test_a_network_cannot_be_reduced():
    with pytest.raises(TypeError, match=r"linear in z, got TraceClassNetwork\. Use FourierSeries"):
        tc.Reduced(tc.TraceClassNetwork(num_inputs=2, widths=(3,)), POINTS)


RARER = [
    tc.FourierSeries(num_inputs=3, max_frequency=2, alpha=2.0, interaction=1),
    tc.FourierSeries(num_inputs=3, max_frequency=1, alpha=2.0, interaction="full"),
]


@pytest.mark.parametrize(
    "series",
    [
        tc.FourierSeries(num_inputs=3, max_frequency=2, alpha=2.0),
        *(pytest.param(series, marks=pytest.mark.long) for series in RARER),
        tc.CosineSeries(num_modes=3, exponent=1.1),
    ],
    ids=["pairs", "single", "full", "cosines"],
)
def test_every_series_is_reduced(series):
    points = np.random.default_rng(0).uniform(size=(5, series.num_inputs))
    reduced = tc.Reduced(series, points)
    np.testing.assert_allclose(reduced.basis.T @ reduced.basis, np.eye(5), atol=1e-5)
    y = reduced.sample(jax.random.key(0))
    z = reduced.lift(jax.random.key(1), y)
    np.testing.assert_allclose(series.at(points)(z), reduced.at(points)(y), atol=2e-5)
