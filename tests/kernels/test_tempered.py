"""Tempering step by step: what is cached, who stands where, and what is refused."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from linear import linear_gaussian

import traceclass as tc
from traceclass.kernels.replicas import TemperedState, swap
from traceclass.kernels.states import GradientState, State
from traceclass.kernels.tempered import kicks_of, largest_step_size


def nuts(posterior, step_size):
    return blackjax.nuts(posterior.logdensity, step_size, jnp.ones(6))


INNER = {
    "pcn": (tc.pcn, 0.4),
    "hmc": (tc.hmc, 0.1),
    "elliptical_slice": (tc.elliptical_slice, None),
    "cycle(pcn, mala)": (tc.cycle(tc.pcn, tc.mala), (0.4, 0.2)),
    "BlackJAX's NUTS": (nuts, 0.2),
}


def network_posterior() -> tc.Posterior:
    x = np.linspace(-1, 1, 9)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(5, 4))
    return tc.Posterior(prior, tc.GaussianRegression(x, np.sin(3 * x[:, 0]), noise=0.5))


@pytest.mark.long
def test_what_is_cached_is_that_of_the_positions_with_node_swaps():
    check_cache(network_posterior(), tc.mixture(tc.hmc, tc.node_swap), 0.1)


@pytest.mark.parametrize(
    "name", by_night(INNER, long=["BlackJAX's NUTS", "pcn", "cycle(pcn, mala)"])
)
def test_what_is_cached_is_that_of_the_positions(name):
    check_cache(linear_gaussian()[0], *INNER[name])


def test_what_is_cached_is_that_of_the_positions_with_a_reference():
    """Small noise: at a prior draw the reference's part is too large for single precision."""
    posterior, _, _ = linear_gaussian(noise=0.02)
    reference = tc.laplace(posterior, rank=6)
    check_cache(posterior, tc.hmc.using(reference=reference, num_kicks=5), 0.2)


def check_cache(posterior, inner, step_size):
    """Log-likelihoods and gradients of all replicas, after every one of 30 steps with swaps."""
    algorithm = tc.tempered(inner, schedule=(1, 0.3, 0.1, 0.02, 0))(posterior, step_size)

    def step(state, key):
        state, _ = algorithm.step(key, state)
        replicas = state.replicas
        levels, gradients = jax.vmap(posterior.log_likelihood_and_gradient)(replicas.position)
        off = [jnp.abs(replicas.log_likelihood / levels - 1).max()]
        if isinstance(replicas, GradientState):
            off.append(jnp.abs(replicas.gradient - gradients).max() / jnp.abs(gradients).max())
        return state, jnp.stack(off).max()

    @jax.jit
    def walk():
        start = algorithm.init(jnp.zeros(posterior.prior.num_coordinates))
        return jax.lax.scan(step, start, jax.random.split(jax.random.key(0), 30))

    end, off = walk()
    assert np.max(off) < 1e-4
    assert len(np.unique(np.asarray(end.replicas.position), axis=0)) == 5
    assert sorted(np.asarray(end.labels).tolist()) == [0, 1, 2, 3, 4]
    assert not np.array_equal(end.labels, np.arange(5))
    # What the state calls its own is the posterior's.
    assert np.array_equal(end.position, np.asarray(end.replicas.position)[0])
    assert float(end.log_likelihood) == float(np.asarray(end.replicas.log_likelihood)[0])


def state_with(levels: list[float]) -> TemperedState:
    """Replicas at positions 0, 1, 2, ... with these log-likelihoods."""
    count = len(levels)
    labels = np.arange(count, dtype=np.int32)
    replicas = State(np.arange(count, dtype=np.float32)[:, None], np.float32(levels))
    return jax.tree.map(
        jnp.asarray, TemperedState(replicas, labels, 0 * labels, 0 * labels, np.int32(0))
    )


swapped = jax.jit(swap)


def test_swaps_alternate_between_even_and_odd_pairs():
    """Log-likelihoods that rise towards the prior: every pair that is tried is exchanged."""
    t = np.float32([1.0, 0.5, 0.2, 0.0])
    first, info, tried = swapped(jax.random.key(0), t, state_with([0.0, 1.0, 2.0, 3.0]))
    assert tried.tolist() == [True, False, True]
    assert info.is_accepted.tolist() == [True, False, True]
    assert first.labels.tolist() == [1, 0, 3, 2]
    assert np.ravel(first.replicas.position).tolist() == [1.0, 0.0, 3.0, 2.0]
    second, _, tried = swapped(jax.random.key(0), t, first)
    assert tried.tolist() == [False, True, False]
    assert second.labels.tolist() == [1, 3, 0, 2]


def test_a_swap_has_the_probability_it_reports():
    """(t_0 - t_1)(l_1 - l_0) = 0.5 * (-2): e^-1, over 20,000 keys, within 5 standard errors."""
    t, state = jnp.asarray(np.float32([1.0, 0.5])), state_with([0.0, -2.0])

    @jax.jit
    def exchanges(key):
        return jax.vmap(lambda key: swap(key, t, state)[1])(jax.random.split(key, 20_000))

    info = exchanges(jax.random.key(1))
    expected = np.exp(-1)
    assert np.allclose(info.acceptance_rate, expected)
    error = np.sqrt(expected * (1 - expected) / 20_000)
    assert abs(np.mean(info.is_accepted) - expected) < 5 * error


@pytest.mark.parametrize("level", [-np.inf, np.nan])
def test_impossible_data_never_come_nearer_to_the_posterior(level):
    t, state = np.float32([1.0, 0.0]), state_with([-5.0, level])
    after, info, _ = swapped(jax.random.key(0), t, state)
    assert after.labels.tolist() == [0, 1]
    assert info.is_nonfinite.tolist() == [True]


def test_round_trips_are_counted_from_the_prior_and_back():
    """Two temperatures that always change places: a replica returns to the prior each second."""
    state = state_with([0.0, 0.0])
    t = np.float32([1.0, 0.0])
    trips = []
    for number in range(12):
        # The only pair is the even one.
        state = state._replace(num_exchanges=np.int32(2 * number))
        state, _, _ = swapped(jax.random.key(number), t, state)
        trips.append(state.round_trips.tolist())
    # Replica 0 is at the prior after swaps 1, 3, 5, ...: its first trip ends with the third.
    assert trips[0] == [0, 0]
    assert trips[2] == [1, 0]
    assert trips[3] == [1, 1]
    assert trips[-1] == [5, 5]


def test_the_prior_end_is_drawn_anew():
    """Independent standard normals at t = 0: mean and variance over 4,000 steps, 5 errors."""
    posterior, _, _ = linear_gaussian()
    algorithm = tc.tempered(tc.pcn, schedule=(1, 0.01, 0))(posterior, 0.4)

    def step(state, key):
        # Only the pair at the posterior's end is tried, so the draw stays where it was made.
        state = state._replace(num_exchanges=jnp.array(0))
        state, _ = algorithm.step(key, state)
        return state, state.replicas.position[-1]

    @jax.jit
    def walk():
        keys = jax.random.split(jax.random.key(2), 4_000)
        return jax.lax.scan(step, algorithm.init(jnp.zeros(6)), keys)[1]

    draws = np.asarray(walk(), dtype=np.float64)
    assert (np.abs(draws.mean(axis=0)) < 5 / np.sqrt(4_000)).all()
    assert (np.abs(draws.var(axis=0) - 1) < 5 * np.sqrt(2 / 4_000)).all()
    lagged = np.mean(draws[1:] * draws[:-1], axis=0)
    assert (np.abs(lagged) < 5 / np.sqrt(4_000)).all()


def test_trajectories_inside_are_short_and_end_at_a_quarter_turn():
    """0.4 radians at the posterior, within 5 to 40 kicks, and as many kicks at all temperatures."""
    assert [kicks_of(size) for size in (1.0, 0.04, 0.001)] == [5, 10, 40]
    tuning = tc.tempered(tc.cycle(tc.node_swap, tc.hmc), num_temperatures=3).tuning((0.02, 0.3))
    assert [t["num_kicks"] for t in tuning if "num_kicks" in t] == [20, 20]
    assert largest_step_size(tc.hmc, 20) * 20 == pytest.approx(np.pi / 2)
    fixed = tc.tempered(tc.hmc.using(num_kicks=25), num_temperatures=3).tuning(0.02)
    assert "num_kicks" not in fixed[0]


def test_a_reference_follows_the_power():
    """Of a Gaussian likelihood mu_t is Gaussian, and the tempered Laplace reference is mu_t."""
    posterior, _, _ = linear_gaussian()
    a = np.asarray(posterior.values_of.basis, dtype=np.float64)
    y, noise, t = np.asarray(posterior.likelihood.observations), 0.3, 0.2
    precision = np.eye(6) + t * a.T @ a / noise**2
    reference = tc.laplace(posterior, rank=6).tempered(t)
    vectors = np.asarray(reference.vectors, dtype=np.float64)
    found = np.eye(6) + vectors * np.asarray(reference.eigenvalues) @ vectors.T
    assert np.allclose(found, precision, rtol=1e-3, atol=1e-3)
    assert np.allclose(
        reference.mean, np.linalg.solve(precision, t * a.T @ y / noise**2), atol=1e-3
    )


@pytest.mark.long
def test_a_traced_step_size_gives_its_kicks():
    posterior, _, _ = linear_gaussian()
    kernel = tc.tempered(tc.hmc, num_temperatures=3)

    def moved(step_size):
        algorithm = kernel(posterior, step_size)
        return algorithm.step(jax.random.key(0), algorithm.init(jnp.zeros(6)))[0].position

    known = jax.jit(lambda: moved(0.05))
    assert np.allclose(jax.jit(moved)(0.05), known(), atol=1e-5)


def test_a_step_size_for_all_or_for_each():
    kernel = tc.tempered(tc.pcn, num_temperatures=3)
    assert [t.get("step_size") for t in kernel.tuning(0.2)] == [0.2, 0.2, None, None]
    assert [t.get("step_size") for t in kernel.tuning((0.2, 0.4))][:2] == [0.2, 0.4]
    with pytest.raises(ValueError, match="needs one step size, or 2"):
        kernel.tuning((0.1, 0.2, 0.3))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tc.tempered(tc.pcn, num_temperatures=1), ValueError, "num_temperatures.*1"),
        (lambda: tc.tempered(tc.pcn, schedule=(1, 0.5)), ValueError, "fall from 1"),
        (lambda: tc.tempered(tc.pcn, schedule=(0, 0.5, 1)), ValueError, "fall from 1"),
        (
            lambda: tc.tempered(tc.pcn, num_temperatures=4, schedule=(1, 0.5, 0)),
            ValueError,
            "num_temperatures is 4, but schedule has 3",
        ),
        (lambda: tc.tempered(tc.pcn, steps_per_swap=0), ValueError, "steps_per_swap"),
        (lambda: tc.tempered(tc.tempered(tc.pcn)), TypeError, "inside tempered"),
        (lambda: tc.cycle(tc.tempered(tc.pcn), tc.node_swap), TypeError, "put it around"),
        (lambda: tc.smc_kernel(tc.tempered(tc.pcn)), TypeError, "tempers by itself"),
        (lambda: tc.tempered(tc.pcn).using(a=1), TypeError, "fix them in the kernel inside"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
