"""Running moments against those of all draws at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from traceclass.sampling.moments import Moments, error_of_mean, moments_of


def test_moments_of_a_function_are_those_of_all_its_values():
    positions = 3 + jax.random.normal(jax.random.key(0), (200, 4))
    values = np.asarray(jnp.sin(positions), dtype=np.float64)
    mean, deviation = moments_of(jnp.sin, positions)
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(deviation, values.std(axis=0, ddof=1), rtol=1e-5)


def test_the_error_of_a_mean_field_is_the_spread_of_chains_over_the_root_of_their_number():
    """Means of 9 chains with sd 2 at 10,000 points: 2/3, five standard errors of the variance."""
    means = 2 * np.random.default_rng(0).normal(size=(9, 10_000))
    moments = Moments(jnp.full(9, 50), jnp.asarray(means), jnp.zeros((9, 10_000)))
    share = 5 * np.sqrt(2 / 8 / 10_000)
    assert error_of_mean(moments) ** 2 == pytest.approx(4 / 9, rel=share)
    assert np.isnan(error_of_mean(Moments(*(part[:1] for part in moments))))
