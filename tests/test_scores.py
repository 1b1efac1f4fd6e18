"""Scoring rules against closed forms, hand counts and scikit-learn and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from traceclass import scores


def test_crps_of_a_gaussian_is_its_closed_form():
    """y (2 Phi(y) - 1) + 2 phi(y) - 1/sqrt(pi); 200,000 draws, errors of about 0.002."""
    draws = np.random.default_rng(0).normal(size=(200_000, 3))
    y = np.array([-1.0, 0.0, 2.5])
    exact = y * (2 * ndtr(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(scores.crps(draws, y), exact, atol=0.01)


def test_crps_by_all_pairs_and_of_one_draw():
    rng = np.random.default_rng(1)
    draws, y = rng.normal(size=(7, 4)), rng.normal(size=4)
    pairs = np.abs(draws[:, None] - draws[None]).mean(axis=(0, 1))
    expected = np.abs(draws - y).mean(axis=0) - pairs / 2
    np.testing.assert_allclose(scores.crps(draws, y), expected, rtol=1e-12)
    np.testing.assert_allclose(scores.crps(draws[:1], y), np.abs(draws[0] - y))


def test_balanced_accuracy_counts_each_class_that_occurs_once():
    outcomes, predicted = np.array([0, 0, 0, 1]), np.array([0, 0, 2, 1])
    assert scores.balanced_accuracy(predicted, outcomes) == pytest.approx((2 / 3 + 1) / 2)


def test_the_paired_difference_is_students():
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(size=6), rng.normal(size=6)
    found = scores.paired_difference(ours.tolist(), theirs.tolist())
    gaps = ours - theirs
    error = gaps.std(ddof=1) / np.sqrt(6)
    assert found["difference"] == pytest.approx(gaps.mean())
    assert found["error"] == pytest.approx(error)
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(abs(gaps.mean()) / error, 5))
    one = scores.paired_difference([0.5], [0.25])
    assert one == {"difference": 0.25, "error": None, "p_value": None}
    same = scores.paired_difference([0.5, 0.75], [0.25, 0.5])
    assert same["p_value"] is None


def test_a_central_interval_leaves_as_much_on_either_side():
    assert scores.central(0.9) == pytest.approx((0.05, 0.95))
