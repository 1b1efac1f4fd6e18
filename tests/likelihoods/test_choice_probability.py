"""The choice probability against mpmath, closed forms and identities, in both precisions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from as_shipped import OPTIONS
from by_night import by_night
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import log_ndtr

from traceclass.likelihoods.choice_probability import log_choice_probability

TOLERANCES = {"float32": 2e-5, "float64": 1e-9}
compiled = functools.partial(jax.jit, compiler_options=OPTIONS)
log_p = compiled(log_choice_probability)
gradient_of = compiled(jax.grad(lambda d: log_choice_probability(d).sum()))


def oracle(gaps: np.ndarray) -> tuple[float, np.ndarray]:
    """log p and its gradient by adaptive quadrature in 20 digits, straight from the definition."""
    with mp.workdps(20):
        d = [mp.mpf(float(g)) for g in gaps]

        # All integrals are taken at the same nodes: what they share is computed once.
        ncdf = functools.cache(mp.ncdf)

        def log_integrand(t):
            return -(t**2) / 2 + mp.fsum(mp.log(ncdf(t + dj)) for dj in d)

        def slope(t):
            return -t + mp.fsum(mp.npdf(t + dj) / ncdf(t + dj) for dj in d)

        # h' falls strictly and is positive at zero, so bisection finds the mode.
        low, high = mp.mpf(0), mp.mpf(100)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        top, nodes = log_integrand(low), [low + k for k in (-12, -4, -1, 0, 1, 4, 12)]

        @functools.cache
        def weight(t):
            return mp.exp(log_integrand(t) - top)

        total = mp.quad(weight, nodes)
        gradient = [
            mp.quad(lambda t, dj=dj: weight(t) * mp.npdf(t + dj) / ncdf(t + dj), nodes) / total
            for dj in dict.fromkeys(d)
        ]
        by_gap = dict(zip(dict.fromkeys(d), gradient, strict=True))
        value = top + mp.log(total / mp.sqrt(2 * mp.pi))
        return float(value), np.array([float(by_gap[dj]) for dj in d])


def worst_error(computed, exact) -> float:
    """Largest error relative to max(1, |exact|)."""
    return float(np.max(np.abs(np.asarray(computed) - exact) / np.maximum(1, np.abs(exact))))


def cases(num_rivals: int) -> np.ndarray:
    """All gaps alike from -60 to 60, one far rival among near ones, and random ones, three values
    a row (each costs the oracle an integral)."""
    equal = [np.full(num_rivals, g) for g in (-60.0, -13.0, -2.5, 0.0, 4.0, 60.0)]
    mixed = np.zeros(num_rivals)
    mixed[0] = -60.0
    rng = np.random.default_rng(num_rivals)
    random = [rng.choice(rng.uniform(-s, s, 3), num_rivals) for s in (60, 20, 4)]
    # Eighths are the same number in both precisions, so one oracle serves both.
    return np.round(8 * np.array([*equal, mixed, *random])) / 8


@pytest.mark.parametrize(
    "num_actions", [3, *(pytest.param(number, marks=pytest.mark.long) for number in (2, 8))]
)
def test_value_and_gradient_match_mpmath(num_actions):
    gaps = cases(num_actions - 1)
    values, gradients = zip(*(oracle(row) for row in gaps), strict=True)
    for dtype, tolerance in TOLERANCES.items():
        with jax.enable_x64(dtype == "float64"):
            batch = jnp.asarray(gaps.T, dtype=dtype)
            value = log_p(batch)
            gradient = gradient_of(batch).T
        assert value.dtype == dtype
        assert worst_error(value, values) < tolerance
        assert worst_error(gradient, gradients) < tolerance


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_closed_gradient_of_two_rivals_agrees_with_the_nodes(dtype):
    """A third rival 1e3 sigma behind changes nothing, but has the gradient come from the nodes."""
    rng = np.random.default_rng(3)
    gaps = np.concatenate([rng.uniform(-s, s, (2, 4000)) for s in (60, 8, 2)], axis=1)
    with jax.enable_x64(dtype == "float64"):
        two = jnp.asarray(gaps, dtype=dtype)
        closed = gradient_of(two)
        nodes = gradient_of(jnp.concatenate([two, jnp.full_like(two[:1], 1e3)]))[:2]
    assert worst_error(closed, np.asarray(nodes)) < TOLERANCES[dtype]


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_two_actions_have_a_closed_form(dtype):
    """P(v_1 + e_1 > v_2 + e_2) = Phi(d / sqrt 2)."""
    gaps = np.linspace(-60, 60, 2401).astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        value = log_p(jnp.asarray(gaps)[None])
    exact = log_ndtr(gaps.astype(float) / np.sqrt(2))
    assert worst_error(value, exact) < TOLERANCES[dtype]


@pytest.mark.parametrize("num_actions", by_night([2, 3, 5, 8, 20, 64], long=[2, 5, 20]))
def test_equal_values_share_the_probability(num_actions):
    value = log_p(jnp.zeros((num_actions - 1, 1)))
    assert float(value[0]) == pytest.approx(-np.log(num_actions), abs=1e-5)


@pytest.mark.parametrize("num_actions", by_night([3, 8, 30], long=[8, 30]))
def test_probabilities_of_all_actions_sum_to_one(num_actions, x64):
    values = np.random.default_rng(0).normal(scale=2.0, size=(num_actions, 40))
    total = 0.0
    for chosen in range(num_actions):
        gaps = values[chosen] - np.delete(values, chosen, axis=0)
        total += np.exp(log_p(jnp.asarray(gaps)))
    np.testing.assert_allclose(total, 1.0, atol=1e-11)


def test_gradient_of_the_chosen_value_is_the_mean_noise(x64):
    """Integration by parts (eq. partial_deriv1): sum_j d log p/d d_j = E[t], the chosen noise.

    E[t] is estimated from exact draws; 5 standard errors, false alarm below 1e-6.
    """
    gaps = np.array([0.4, -0.3, 1.1])
    noise = np.random.default_rng(1).normal(size=(2_000_000, 4))
    won = (noise[:, :1] + gaps > noise[:, 1:]).all(axis=1)
    kept = noise[won, 0]
    gradient = gradient_of(jnp.asarray(gaps)[:, None])
    error = kept.std() / np.sqrt(kept.size)
    assert float(gradient.sum()) == pytest.approx(kept.mean(), abs=5 * error)
    probability = np.exp(float(log_p(jnp.asarray(gaps)[:, None])[0]))
    assert probability == pytest.approx(won.mean(), abs=5 * np.sqrt(0.25 / won.size))


@pytest.mark.parametrize("num_rivals", [2, pytest.param(4, marks=pytest.mark.long)])
def test_second_derivatives_match_differences(num_rivals, x64):
    gaps = jnp.asarray(np.random.default_rng(2).normal(scale=3.0, size=(num_rivals, 1)))
    hessian = compiled(jax.jacfwd(jax.grad(lambda d: log_choice_probability(d).sum())))(gaps)[
        :, 0, :, 0
    ]
    h = 1e-5
    for j in range(num_rivals):
        shift = h * np.eye(num_rivals)[:, j : j + 1]
        difference = (gradient_of(gaps + shift) - gradient_of(gaps - shift))[:, 0] / (2 * h)
        np.testing.assert_allclose(hessian[:, j], difference, atol=1e-7)


value_and_gradient = compiled(jax.value_and_grad(lambda d: log_choice_probability(d)[0]))


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(
        np.float32,
        (7, 1),
        elements=st.floats(-(2.0**127), 2.0**127, width=32) | st.floats(-100, 100, width=32),
    )
)
def test_finite_gaps_give_finite_values_and_gradients(gaps):
    value, gradient = value_and_gradient(jnp.asarray(gaps))
    assert np.isfinite(value)
    assert value <= 0
    assert np.isfinite(gradient).all()
    assert (np.asarray(gradient) >= 0).all()


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 2e4), ("float64", 2e4), ("float64", 4e8)])
def test_beyond_the_nodes_log_p_is_its_quadratic_limit(dtype, scale):
    """For gaps s (-1, -3/4, 1/4), s large, the mode solves t = (s - t) + (3 s/4 - t): t = 7 s/12,
    so log p = -t^2/2 - (5 s/12)^2/2 - (s/6)^2/2 and the gradient is (5 s/12, s/6, 0)."""
    with jax.enable_x64(dtype == "float64"):
        gaps = scale * jnp.array([[-1.0], [-0.75], [0.25]], dtype=dtype)
        value, gradient = map(np.asarray, value_and_gradient(gaps))
    expected = -0.5 * scale**2 * ((7 / 12) ** 2 + (5 / 12) ** 2 + (1 / 6) ** 2)
    assert float(value) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient[:, 0] / scale, [5 / 12, 1 / 6, 0.0], rtol=1e-3, atol=1e-3)


def test_a_rival_far_behind_does_not_matter():
    near = log_p(jnp.array([[-3.0], [60.0]]))
    far = log_p(jnp.array([[-3.0], [1e12]]))
    np.testing.assert_allclose(near, far, rtol=1e-5)


def test_far_tail_keeps_its_gradient():
    """At 1,000 sigma a gradient kernel still knows the way: d log p / d d = -d/2 for M = 2."""
    gradient = gradient_of(jnp.full((1, 1), -1000.0))
    assert float(gradient[0, 0]) == pytest.approx(500.0, rel=1e-3)
