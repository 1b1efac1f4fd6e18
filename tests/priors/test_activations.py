"""The assumption of Theorem 1: zero at zero, Lipschitz constant at most one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from traceclass.priors.activations import ACTIVATIONS, activation_named


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_built_in_activations_satisfy_the_assumption(name):
    zeta = activation_named(name)
    x = jnp.linspace(-8.0, 8.0, 4001)
    slopes = jax.vmap(jax.grad(zeta))(x)
    assert float(zeta(jnp.zeros(()))) == 0.0
    assert float(jnp.max(jnp.abs(slopes))) <= 1 + 1e-6


def test_erf_has_slope_one_at_zero():
    assert float(jax.grad(activation_named("erf"))(0.0)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("zeta", [jnp.sin, jax.nn.elu, lambda x: 0.5 * jax.nn.leaky_relu(x)])
def test_a_valid_callable_is_taken_as_it_is(zeta):
    assert activation_named(zeta) is zeta


@pytest.mark.parametrize(
    ("zeta", "words"),
    [
        (lambda x: 2 * jnp.tanh(x), "slope 2"),
        (jax.scipy.special.erf, "slope 1.128"),
        (jax.nn.gelu, "Lipschitz constant at most 1"),
        (jax.nn.softplus, "zero at zero, got 0.693"),
        (lambda x: x**3 / 3000, "Lipschitz constant at most 1"),
        (lambda x: jnp.sin(1000 * x) / 500, "Lipschitz constant at most 1"),
        (lambda x: jnp.where(jnp.abs(x) > 31, x**2, x), "Lipschitz constant at most 1"),
        (jnp.cos, "zero at zero, got 1"),
        (lambda x: jnp.sum(x), "act on each entry"),
        (lambda x: jnp.sqrt(x), "not finite at -30"),
    ],
)
def test_a_callable_outside_the_assumption_is_refused(zeta, words):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=words):
        activation_named(zeta)
