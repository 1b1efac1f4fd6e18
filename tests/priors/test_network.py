"""Network priors against eq. prior_def and eq. def:NNfunctions, written out entry by entry."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc


def trace_class(**changes):
    settings = {"num_inputs": 2, "widths": (4, 3), "alpha": 1.7}
    return tc.TraceClassNetwork(**(settings | changes))


@pytest.mark.parametrize(
    ("num_inputs", "width", "count"),
    [(2, 10, 261), (2, 30, 1981), (2, 100, 20_601), (17, 10, 411), (17, 100, 22_101)],
)
def test_number_of_coordinates_is_the_papers(num_inputs, width, count):
    prior = tc.TraceClassNetwork(num_inputs=num_inputs, widths=(width,) * 3)
    assert prior.num_coordinates == count


def test_standard_deviations_follow_prior_def():
    """z = 1 in every coordinate gives theta = the standard deviations themselves."""
    s2_w, s2_b, alpha = (2.0, 0.5, 3.0), (0.7, 1.1, 0.2), 1.7
    prior = trace_class(weight_variance=s2_w, bias_variance=s2_b, alpha=alpha)
    layers = prior.parameters(jnp.ones(prior.num_coordinates))
    assert [layer.weights.shape for layer in layers] == [(4, 2), (3, 4), (1, 3)]
    for depth, layer in enumerate(layers):
        for i in range(1, layer.weights.shape[0] + 1):
            np.testing.assert_allclose(layer.biases[i - 1] ** 2, s2_b[depth] / i**alpha, rtol=1e-5)
            for j in range(1, layer.weights.shape[1] + 1):
                decay = i**alpha if depth == 0 else (i * j) ** alpha
                np.testing.assert_allclose(
                    layer.weights[i - 1, j - 1] ** 2, s2_w[depth] / decay, rtol=1e-5
                )


def test_iid_network_has_one_variance_a_layer():
    prior = tc.IidNetwork(num_inputs=3, widths=(5, 4), weight_variance=0.25, bias_variance=4.0)
    for layer in prior.parameters(jnp.ones(prior.num_coordinates)):
        np.testing.assert_allclose(layer.weights, 0.5, rtol=1e-6)
        np.testing.assert_allclose(layer.biases, 2.0, rtol=1e-6)


def test_evaluate_is_the_network_of_the_paper():
    """Sums over nodes one by one, in float64."""
    prior = trace_class(weight_variance=2.0, bias_variance=3.0)
    z = prior.sample(jax.random.key(0))
    points = np.random.default_rng(1).uniform(-1, 1, (7, 2))
    layers = [(np.asarray(w, float), np.asarray(b, float)) for w, b in prior.parameters(z)]
    for x, value in zip(points, prior.evaluate(z, jnp.asarray(points)), strict=True):
        g = list(x)
        for depth, (w, b) in enumerate(layers):
            f = [b[i] + sum(w[i, j] * g[j] for j in range(len(g))) for i in range(len(b))]
            g = f if depth == len(layers) - 1 else [np.tanh(fi) for fi in f]
        assert value == pytest.approx(g[0], abs=2e-6)


def test_one_point_gives_a_scalar():
    prior = trace_class()
    z = prior.sample(jax.random.key(0))
    points = jnp.array([[0.3, -0.2], [0.1, 0.9]])
    assert prior.evaluate(z, points[1]).shape == ()
    np.testing.assert_allclose(prior.evaluate(z, points[1]), prior.evaluate(z, points)[1])


def test_from_parameters_undoes_parameters():
    prior = trace_class(weight_variance=5.0, bias_variance=0.01)
    z = prior.sample(jax.random.key(3))
    np.testing.assert_allclose(prior.from_parameters(prior.parameters(z)), z, rtol=1e-5)


def test_from_parameters_names_the_shapes():
    prior = trace_class()
    layers = prior.parameters(jnp.zeros(prior.num_coordinates))
    with pytest.raises(ValueError, match=r"one \(weights, biases\) pair a layer"):
        prior.from_parameters(layers[:-1])


def test_samples_are_standard_normal():
    """400,000 draws: mean and variance within 5 standard errors (false alarm below 1e-5)."""
    prior = trace_class()
    draws = np.asarray(prior.sample(jax.random.key(5), (400_000 // prior.num_coordinates,)))
    n = draws.size
    assert abs(draws.mean()) < 5 / np.sqrt(n)
    assert abs(draws.var() - 1) < 5 * np.sqrt(2 / n)


def test_inputs_scale_the_box_and_append_features():
    to_box = tc.scale_to_box([0.0, 0.0], [1.0, 1.0], features=lambda s: jnp.sin(jnp.pi * s))
    prior = trace_class(inputs=to_box)
    assert prior.num_coordinates == 4 * 5 + 3 * 5 + 4
    z = prior.sample(jax.random.key(0))
    x = jnp.array([[0.25, 0.9]])
    scaled = 2 * x - 1
    plain = trace_class(num_inputs=4)
    features = jnp.concatenate([scaled, jnp.sin(jnp.pi * scaled)], axis=1)
    np.testing.assert_allclose(prior.evaluate(z, x), plain.evaluate(z, features), rtol=1e-6)


def test_at_equals_evaluate_under_jit_and_vmap():
    prior = trace_class(inputs=tc.scale_to_box([-2.0, 0.0], [2.0, 1.0]))
    zs = prior.sample(jax.random.key(0), (3,))
    points = jax.random.uniform(jax.random.key(1), (5, 2))
    batched = jax.jit(jax.vmap(prior.at(points)))(zs)
    one_by_one = jnp.stack([prior.evaluate(z, points) for z in zs])
    np.testing.assert_allclose(batched, one_by_one, rtol=1e-5, atol=1e-6)


def test_double_precision_where_asked(x64):
    prior = trace_class()
    z = prior.sample(jax.random.key(0))
    assert prior.evaluate(z, jnp.zeros((2, 2))).dtype == jnp.float64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 1.0}, "alpha > 1, got 1.0"),
        ({"alpha": 0.5}, "not trace-class"),
        ({"alpha": float("nan")}, "alpha > 1, got nan"),
        ({"widths": ()}, "at least one hidden layer"),
        ({"widths": (10, 0)}, r"widths\[1\] must be at least 1, got 0"),
        ({"widths": (-3,)}, r"widths\[0\] must be at least 1, got -3"),
        ({"num_inputs": 0}, "num_inputs must be at least 1, got 0"),
        ({"weight_variance": 0.0}, "weight_variance must be positive and finite, got 0.0"),
        ({"bias_variance": -1.0}, "bias_variance must be positive and finite, got -1.0"),
        ({"bias_variance": (1.0, 1.0)}, "one for each of the 3 layers"),
        ({"weight_variance": (1.0, 0.0, 1.0)}, r"weight_variance\[1\] must be positive"),
        ({"activation": "swish"}, "unknown activation 'swish'"),
        ({"inputs": tc.scale_to_box([0.0], [1.0])}, "box in 1 dimensions"),
        ({"inputs": lambda x: x[:, 0]}, "inputs must map points"),
    ],
)
def test_bad_arguments_are_explained(changes, words):
    with pytest.raises(ValueError, match=words):
        trace_class(**changes)


@pytest.mark.parametrize("changes", [{"widths": (2.5,)}, {"num_inputs": "2"}, {"activation": 3}])
def test_wrong_types_are_explained(changes):
    with pytest.raises(TypeError, match="must be a"):
        trace_class(**changes)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (jnp.zeros((4, 3)), r"shape \(n, 2\); got \(4, 3\)"),
        (jnp.array([[0.0, jnp.nan]]), r"finite, got nan at index \(0, 1\)"),
    ],
)
def test_bad_points_are_explained(points, words):
    with pytest.raises(ValueError, match=words):
        trace_class().at(points)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([0.0, 1.0], [1.0], "two corners of one length"),
        ([0.0, 1.0], [1.0, 1.0], r"low < high, both finite, got \[1.0, 1.0\] in dimension 1"),
        ([0.0], [float("inf")], "both finite"),
    ],
)
def test_bad_boxes_are_explained(low, high, words):
    with pytest.raises(ValueError, match=words):
        tc.scale_to_box(low, high)
