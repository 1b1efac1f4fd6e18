"""The theorems in numbers: bounds above Monte Carlo, sums bounded or growing as they should."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc
from traceclass import theory


def monte_carlo(prior, num_draws: int, x: np.ndarray) -> list[np.ndarray]:
    """Values f_i^(l)(x) of each layer, (draws, width, points)."""
    evaluate = jax.jit(lambda z: theory.layer_values(prior, z, jnp.asarray(x, dtype=float)))
    return [
        np.asarray(layer)
        for layer in jax.lax.map(evaluate, prior.sample(jax.random.key(0), (num_draws,)))
    ]


CORNERS = np.array([[1.0, 1.0], [-1.0, 1.0], [0.3, -0.6]])


@pytest.mark.parametrize("width", [16, pytest.param(256, marks=pytest.mark.long)])
def test_bounds_of_theorem_1_lie_above_monte_carlo(width):
    """2,000 draws; the estimate may pass the bound by 4 standard errors (f^2 has kurtosis)."""
    alpha = 1.3
    prior = tc.TraceClassNetwork(
        num_inputs=2, widths=(width, width), alpha=alpha, weight_variance=1.5, bias_variance=0.8
    )
    bounds = theory.layer_bounds(prior)
    distance = np.sum((CORNERS[0] - CORNERS[2]) ** 2)
    for values, variance, lipschitz in zip(
        monte_carlo(prior, 2000, CORNERS), bounds.variance, bounds.lipschitz, strict=True
    ):
        i = np.arange(1, values.shape[1] + 1)[:, None] ** alpha
        squares = i * values**2
        error = squares.std(axis=0) / np.sqrt(len(squares))
        assert (squares.mean(axis=0) <= variance + 4 * error).all()
        steps = i[:, 0] * (values[:, :, 0] - values[:, :, 2]) ** 2 / distance
        error = steps.std(axis=0) / np.sqrt(len(steps))
        assert (steps.mean(axis=0) <= lipschitz + 4 * error).all()


def test_the_identity_attains_the_finite_bounds():
    """With zeta = identity the recursion is exact: E f_i^2 = sigma_l^2 / i^a at the corners.

    20,000 draws, 5 standard errors; the bound with one node fewer must fail the same check.
    """
    prior = tc.TraceClassNetwork(
        num_inputs=2, widths=(3, 2), alpha=1.2, weight_variance=0.7, bias_variance=0.4,
        activation="identity",
    )  # fmt: skip
    exact = theory.layer_bounds(prior, infinite_width=False)
    output = monte_carlo(prior, 20_000, CORNERS[:1])[-1][:, 0, 0] ** 2
    error = output.std() / np.sqrt(len(output))
    assert output.mean() == pytest.approx(exact.variance[-1], abs=5 * error)
    assert abs(output.mean() - prior.bias_variance[-1]) > 5 * error
    limit = theory.layer_bounds(prior)
    assert all(a <= b for a, b in zip(exact.variance, limit.variance, strict=True))


def test_trace_of_the_covariance_is_its_closed_form():
    """Finite trace = total - tail, against the squared standard deviations summed up."""
    prior = tc.TraceClassNetwork(
        num_inputs=3, widths=(7, 5), alpha=1.4, weight_variance=(2.0, 0.5, 3.0),
        bias_variance=(0.3, 0.2, 0.1),
    )  # fmt: skip
    ones = prior.parameters(jnp.ones(prior.num_coordinates))
    finite = sum(float((w**2).sum() + (b**2).sum()) for w, b in ones)
    assert prior.total_variance() - prior.tail_variance((7, 5)) == pytest.approx(finite, rel=1e-5)
    assert prior.tail_variance(10) > prior.tail_variance(100) > 0
    assert tc.IidNetwork(num_inputs=1, widths=(3,)).tail_variance(10) == np.inf
    with pytest.raises(ValueError, match="one width, or 2, got 3"):
        prior.tail_variance((1, 2, 3))


def test_tail_variance_answers_which_width_keeps_99_per_cent():
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(10,), alpha=2.0)
    share = np.array([prior.tail_variance(n) for n in range(1, 400)]) / prior.total_variance()
    width = 1 + int(np.argmax(share < 0.01))
    assert 20 < width < 200
    kept = 1 - prior.tail_variance(width) / prior.total_variance()
    assert kept >= 0.99
    assert 1 - prior.tail_variance(width - 1) / prior.total_variance() < 0.99


def saturated(make, width: int) -> tc.Posterior:
    successors = np.random.default_rng(0).uniform(-1, 1, (8, 3, 2))
    actions = np.arange(8) % 3
    likelihood = tc.ActionChoice(successors, actions, noise=0.5, saturation=1.0)
    return tc.Posterior(make(width), likelihood)


def mean_norm(posterior: tc.Posterior) -> float:
    draws = posterior.prior.sample(jax.random.key(1), (60,))
    norms = jax.lax.map(lambda z: theory.cameron_martin_norm(posterior, z), draws)
    return float(norms.mean())


def test_cameron_martin_sum_is_bounded_for_the_trace_class_prior_only():
    """Theorem 3: from width 16 to 256 the mean changes by less than half for alpha = 1.5 and
    grows at least fivefold for alpha = 0."""

    def trace_class(n):
        return tc.TraceClassNetwork(num_inputs=2, widths=(n, n), alpha=1.5)

    def iid(n):
        return tc.IidNetwork(num_inputs=2, widths=(n, n), weight_variance=0.3)

    ratio = mean_norm(saturated(trace_class, 256)) / mean_norm(saturated(trace_class, 16))
    assert 0.5 < ratio < 1.5
    assert mean_norm(saturated(iid, 256)) > 5 * mean_norm(saturated(iid, 16))


def test_swap_sum_is_the_sum_over_the_swapped_coordinates():
    """Against the standard deviations themselves, swapped."""
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(5, 4, 3), alpha=1.6)
    layer, node = 2, 3
    variance = [(np.array(w) ** 2, np.array(b) ** 2)
                for w, b in prior.parameters(jnp.ones(prior.num_coordinates))]  # fmt: skip
    swapped = [(w.copy(), b.copy()) for w, b in variance]
    order = np.arange(4)
    order[[node - 1, node]] = order[[node, node - 1]]
    swapped[layer - 1] = (variance[layer - 1][0][order], variance[layer - 1][1][order])
    swapped[layer] = (variance[layer][0][:, order], variance[layer][1])
    total = sum(
        np.sum((new / old - 1) ** 2)
        for olds, news in zip(variance, swapped, strict=True)
        for old, new in zip(olds, news, strict=True)
    )
    assert theory.swap_sum(prior, layer=layer, node=node) == pytest.approx(total, rel=1e-4)


def test_swap_sum_diverges_linearly():
    sums = [
        theory.swap_sum(
            tc.TraceClassNetwork(num_inputs=2, widths=(n,) * 3, alpha=1.5), layer=2, node=1
        )
        for n in (100, 200, 400)
    ]
    assert sums[2] - sums[1] == pytest.approx(2 * (sums[1] - sums[0]))
    assert sums[1] > 1.9 * sums[0]


@pytest.mark.parametrize(("layer", "node"), [(0, 1), (3, 1), (1, 0), (1, 5)])
def test_swaps_that_do_not_exist_are_refused(layer, node):
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(5, 5))
    with pytest.raises(ValueError, match=r"must lie in 1\.\."):
        theory.swap_sum(prior, layer=layer, node=node)
