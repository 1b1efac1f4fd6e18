"""What evaluation costs, in memory and beside the dense products it replaces."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from by_night import by_night

import traceclass as tc
from benchmarks import priors as bench


@pytest.mark.long
def test_a_wide_network_needs_less_than_a_gibibyte():
    """Width 3,000, 18 million coordinates, 1,000 points."""
    assert bench.peak_gib(bench._NETWORK) < 1.0


@pytest.mark.long
def test_a_long_series_needs_less_than_a_gibibyte():
    assert bench.peak_gib(bench._FOURIER) < 1.0


@pytest.mark.long
def test_a_long_series_takes_at_most_three_dense_products():
    assert bench.fourier_ratio() < 3.0


@pytest.mark.long
def test_a_cosine_series_on_a_grid_takes_at_most_twice_its_two_products():
    assert bench.cosine_ratio() < 2.0


@pytest.mark.parametrize("limit", by_night([1, 3000, 10**9], long=[1, 10**9]))
def test_values_do_not_depend_on_the_pieces(limit, monkeypatch):
    """Many functions at many points, worked off in pieces of any size."""
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(5, 4))
    zs = prior.sample(jax.random.key(0), (2, 3))
    points = np.random.default_rng(0).uniform(-1, 1, (7, 2))
    whole = prior.evaluate(zs, points)
    assert whole.shape == (2, 3, 7)
    monkeypatch.setattr("traceclass.priors.base._MAX_BYTES", limit)
    np.testing.assert_allclose(prior.evaluate(zs, points), whole, rtol=1e-5, atol=1e-6)
    assert prior.evaluate(zs, points[0]).shape == (2, 3)
    assert prior.evaluate(zs[0, 0], points[0]).shape == ()


def test_points_outside_the_unit_cube_of_a_series_are_warned_of():
    with pytest.warns(UserWarning, match=r"1 of 2 points lie outside.*by up to 1 of a side"):
        tc.CosineSeries(num_modes=2).at(np.array([[0.5, 0.5], [0.5, 2.0]]))
    with pytest.warns(UserWarning, match="1 of 1 points"):
        tc.FourierSeries(num_inputs=1, max_frequency=2, interaction=1).at(np.array([[-0.5]]))


def test_points_outside_the_box_are_warned_of():
    prior = tc.TraceClassNetwork(
        num_inputs=2, widths=(3,), inputs=tc.scale_to_box([0.0, 0.0], [1.0, 2.0])
    )
    points = np.array([[0.5, 0.5], [1.5, 1.0], [0.2, -1.0], [1.0 + 1e-7, 2.0]])
    with pytest.warns(UserWarning, match=r"2 of 4 points lie outside.*by up to 0\.5 of a side"):
        prior.at(points)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prior.at(points[[0, 3]])
