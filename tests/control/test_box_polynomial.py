"""The table of a posterior mean: exact for polynomials, geometric for analytic functions."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from traceclass.control.box_polynomial import (
    BoxPolynomial,
    box_nodes,
    interpolant,
    largest_error,
)

LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Polynomials as wholes: operation by operation, every degree compiles a dozen programs."""
    monkeypatch.setattr(BoxPolynomial, "__call__", eqx.filter_jit(BoxPolynomial.__call__))


def scaled(points):
    return 2 * (points - np.array(LOW)) / (np.array(HIGH) - np.array(LOW)) - 1


def fitted(function, count):
    return interpolant(function(np.float32(box_nodes(LOW, HIGH, count))), LOW, HIGH)


def test_a_polynomial_is_its_own_interpolant():
    """x^3 y^2 - y + 2 needs four nodes a side, and only four."""

    @jax.jit
    def function(points):
        x, y = scaled(points).T
        return x**3 * y**2 - y + 2

    assert largest_error(fitted(function, 4), function, jax.random.key(0)) < 1e-5
    assert largest_error(fitted(function, 3), function, jax.random.key(0)) > 0.1


def test_the_error_of_an_analytic_function_falls_geometrically():
    @jax.jit
    def function(points):
        x, y = scaled(points).T
        return jnp.tanh(2 * x + y) + jnp.tanh(3 * y - 1)

    errors = [largest_error(fitted(function, n), function, jax.random.key(1)) for n in (12, 24, 48)]
    assert errors[1] < 0.1 * errors[0]
    assert errors[2] < 0.1 * errors[1]


def test_coordinates_are_not_mixed_up():
    value = fitted(lambda points: scaled(points)[:, 0], 8)
    points = np.array([[LOW[0], HIGH[1]], [HIGH[0], LOW[1]]])
    np.testing.assert_allclose(value(points), [-1.0, 1.0], atol=1e-5)


def test_points_outside_have_the_value_of_the_edge():
    value = fitted(lambda points: scaled(points)[:, 0] ** 5, 8)
    (at_the_edge,) = np.asarray(value(np.array([[5.0, 0.0]])))
    assert at_the_edge == pytest.approx(1.0, abs=1e-5)


def test_values_must_fill_a_square():
    with pytest.raises(ValueError, match="square grid, got 10 values"):
        interpolant(np.zeros(10), LOW, HIGH)
