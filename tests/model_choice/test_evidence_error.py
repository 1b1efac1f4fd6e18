"""The standard error of the evidence: each of the three estimates is the largest somewhere."""

from __future__ import annotations

import numpy as np
import pytest

from traceclass.model_choice.evidence import _error_of_mean


def test_independent_draws_have_the_usual_error():
    series = np.random.default_rng(0).normal(size=(4, 2_000))
    assert _error_of_mean(series) == pytest.approx(1 / np.sqrt(8_000), rel=0.6)


def test_autocorrelation_counts():
    """One long chain of an AR(1) process with coefficient 0.95: (1 + a)/(1 - a) = 39 times fewer.

    One chain has no mean of others to differ from, and its quarters are too few to rely on.
    """
    rng = np.random.default_rng(1)
    series = np.zeros((1, 20_000))
    noise = rng.normal(size=20_000) * np.sqrt(1 - 0.95**2)
    for i in range(1, 20_000):
        series[0, i] = 0.95 * series[0, i - 1] + noise[i]
    expected = np.sqrt(39 / 20_000)
    assert _error_of_mean(series) > 0.7 * expected


def test_chains_that_differ_count():
    """Eight chains, each white around its own level: only their means say how far off they are."""
    rng = np.random.default_rng(2)
    levels = rng.normal(size=(8, 1))
    series = levels + 1e-3 * rng.normal(size=(8, 400))
    between = levels.std(ddof=1) / np.sqrt(8)
    assert _error_of_mean(series) == pytest.approx(between, rel=0.02)


def test_quarters_that_differ_count():
    """A slow drift within chains that end where they begin, under much fast noise."""
    rng = np.random.default_rng(3)
    slow = np.repeat(rng.normal(size=(4, 4)), 250, axis=1)
    slow -= slow.mean(axis=1, keepdims=True)
    series = slow + 3 * rng.normal(size=slow.shape)
    quarters = series.reshape(-1, 250).mean(axis=1)
    assert _error_of_mean(series) >= quarters.std(ddof=1) / np.sqrt(16) * (1 - 1e-12)
    assert quarters.std(ddof=1) / 4 > 1.2 * 3 / np.sqrt(4_000)
