"""Heads as data: where they are observed, what they say, and the gradient of it."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from by_night import by_night
from scipy.stats import norm

import traceclass as tc

NODES = [[2, 2], [1, 3], [0, 2], [4, 1]]


def likelihood(where=NODES, heads=(0.5, 0.6, 0.4, 0.7), **changes):
    return tc.GroundwaterFlow(heads, where, **({"noise": 0.05, "cells": 4} | changes))


@eqx.filter_jit
def _evaluated(flow, u, noise):
    at_noise = {} if noise is None else {"noise": noise}
    return {
        "head": flow.flow.head(u),
        "predict": flow.predict(u),
        "residuals": flow.residuals(u),
        "log_prob": flow.log_prob(u, **at_noise),
        "log_prob_each": flow.log_prob_each(u, **at_noise),
    }


def evaluated(flow, u, noise=None):
    """All that a likelihood says of u, at another noise level if one is given, from one program."""
    noise = None if noise is None else np.array(noise)
    return jax.tree.map(np.asarray, _evaluated(flow, u, noise))


def normals(size):
    return np.random.default_rng(0).normal(size=size).astype(np.float32)


def test_the_log_probability_is_that_of_gaussian_noise():
    flow = likelihood()
    found = evaluated(flow, normals(25))
    heads = [found["head"][i, j] for i, j in NODES]
    expected = norm.logpdf([0.5, 0.6, 0.4, 0.7], heads, 0.05).sum()
    assert found["log_prob"] == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(found["predict"], heads, atol=1e-6)
    np.testing.assert_allclose(
        found["residuals"], (np.array([0.5, 0.6, 0.4, 0.7]) - found["predict"]) / 0.05, rtol=1e-4
    )


def test_another_noise_is_that_of_the_density():
    flow = likelihood()
    for noise in (0.05, 0.2):
        found = evaluated(flow, normals(25), noise)
        expected = norm.logpdf([0.5, 0.6, 0.4, 0.7], found["predict"], noise)
        np.testing.assert_allclose(found["log_prob_each"], expected, rtol=1e-4)
        assert float(found["log_prob"]) == pytest.approx(expected.sum(), rel=1e-4)
    found = evaluated(flow, normals(25))
    np.testing.assert_allclose(np.sum(found["log_prob_each"]), found["log_prob"], rtol=1e-5)


def test_nodes_and_points_are_the_same_places():
    u, points = normals(25), np.array(NODES) / 4
    by_nodes = evaluated(likelihood(), u)["predict"]
    for flow in (likelihood(points), likelihood(None, points=points)):
        np.testing.assert_array_equal(evaluated(flow, u)["predict"], by_nodes)


def test_points_between_nodes_are_interpolated():
    """Bilinear: exact for a x + b y + c x y, whatever the cell."""
    flow = tc.DarcyFlow(cells=(5, 3), low=(-1, 2), high=(1, 3))
    x, y = np.asarray(flow.nodes).T.reshape(2, 6, 4)
    points = np.random.default_rng(0).uniform((-1, 2), (1, 3), size=(40, 2))
    points = np.concatenate([points, [[-1, 2], [1, 3], [1, 2], [0.2, 3]]])
    values = jax.jit(flow.interpolation(points))(1 + 2 * x - y + 0.5 * x * y)
    expected = 1 + 2 * points[:, 0] - points[:, 1] + 0.5 * points[:, 0] * points[:, 1]
    np.testing.assert_allclose(values, expected, atol=1e-5)


@pytest.mark.parametrize("prior", by_night(["cosines", "network"], long=["cosines"]))
def test_gradient_matches_differences(prior, x64):
    nodes = np.array([(i, j) for i in range(0, 8, 2) for j in range(0, 8, 3)])
    flow = tc.GroundwaterFlow(np.linspace(0, 1, len(nodes)), nodes, noise=0.1, cells=7)
    priors = {
        "cosines": tc.CosineSeries(num_modes=6),
        "network": tc.TraceClassNetwork(num_inputs=2, widths=(8,), alpha=1.5),
    }
    posterior = tc.Posterior(priors[prior], flow)
    z, direction = np.random.default_rng(1).normal(size=(2, posterior.prior.num_coordinates))

    @jax.jit
    def level_and_gradient(z):
        return posterior.log_likelihood(z), posterior.log_likelihood_and_gradient(z)[1]

    step, gradient = 1e-5, np.asarray(level_and_gradient(z)[1])
    ahead, behind = (float(level_and_gradient(z + h * direction)[0]) for h in (step, -step))
    assert gradient @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


@pytest.mark.long
def test_single_precision_is_as_good_as_the_data_need():
    """Of the log-likelihood, against double precision, on prior draws of contrast 1000 and more."""
    nodes = np.array([(i, j) for i in range(1, 10, 3) for j in range(1, 10, 4)])
    heads, results = np.full(len(nodes), 0.5), []
    u = np.asarray(jax.random.normal(jax.random.key(5), (4, 121), dtype="float32"))
    values = 2 * np.cumsum(u.reshape(4, 11, 11), axis=1).reshape(4, -1) / 3
    for double in (False, True):
        with jax.enable_x64(double):
            flow = tc.GroundwaterFlow(heads, nodes, noise=0.01, cells=10)
            results.append(np.asarray(jax.jit(jax.vmap(flow.log_prob))(values), dtype=np.float64))
    np.testing.assert_allclose(*results, rtol=2e-5)


def test_the_gradient_costs_one_more_substitution_not_another_elimination():
    """Counted in the program: matrix products of the elimination appear once."""
    flow = likelihood(cells=8)
    u = np.zeros(81, np.float32)

    def products(function):
        return str(jax.make_jaxpr(function)(u)).count("dot_general")

    once, with_gradient = products(flow.log_prob), products(jax.value_and_grad(flow.log_prob))
    assert with_gradient < 1.5 * once


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"where": [[0.5, 1.2]], "heads": [0.5]},
            r"point 0, \(0.5, 1.2\), lies outside the domain",
        ),
        ({"where": [[5, 0]], "heads": [0.5]}, r"node 0, \(5, 0\), lies outside the domain"),
        ({"where": [[0, -1]], "heads": [0.5]}, "lies outside the domain"),
        ({"where": [25], "heads": [0.5]}, "must be pairs"),
        ({"where": [[1.0, 0.0]], "heads": [0.5]}, "may mean nodes or points"),
        ({"where": None, "points": 0.5}, r"points must have shape \(n, 2\), got \(\)"),
        ({"where": None, "points": [0.5, 0.5]}, r"points must have shape \(n, 2\), got \(2,\)"),
        ({"where": None}, "give one of the two"),
        ({"where": NODES, "points": [[0.5, 0.5]]}, "give one of the two"),
        ({"where": [[1, 2, 3]], "heads": [0.5]}, "must be pairs"),
        ({"heads": (0.5, np.nan, 0.1, 0.2)}, r"heads must be finite, got nan at index \(1,\)"),
        ({"heads": (0.5, np.inf, 0.1, 0.2)}, "heads must be finite, got inf"),
        ({"heads": (0.5, 0.1)}, "one number for each of the 4 places"),
        ({"noise": 0.0}, "noise must be positive and finite, got 0.0"),
        ({"noise": -1.0}, "noise must be positive and finite, got -1.0"),
        ({"cells": 1}, "cells must be at least 2, got 1"),
    ],
)
def test_mistakes_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        likelihood(**change)
