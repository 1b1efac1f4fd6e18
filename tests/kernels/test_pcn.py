"""pCN: prior invariance, the closed form, failures of the likelihood, BlackJAX's driver."""

from __future__ import annotations

from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from closed_form import closed_form_scores
from linear import cosine_prior, flat, linear_gaussian

import traceclass as tc
from traceclass.kernels.base import StepSizeRule, kernel
from traceclass.kernels.metropolis import accept_or_reject, sampling_algorithm
from traceclass.kernels.states import State, standard_normal

POINT = np.zeros((1, 1))


def test_flat_likelihood_accepts_everything_and_keeps_the_prior():
    """200,000 coordinates after 30 steps; mean and variance within 5 standard errors."""
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(50, 50))
    run = tc.sample(
        flat(prior), tc.pcn, step_size=0.4, num_chains=80, num_warmup=0, num_samples=1, thin=30,
        progress=False,
    )  # fmt: skip
    assert run.acceptance_rate == 1.0
    assert (run.num_accepted == 30).all()
    z = run.positions[:, 0]
    assert z.size > 200_000
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)


def test_the_cached_log_likelihood_is_that_of_the_position():
    posterior, _, _ = linear_gaussian()
    algorithm = tc.pcn(posterior, 0.5)

    @jax.jit
    def walk():
        def step(state, key):
            state, info = algorithm.step(key, state)
            exact = posterior.log_likelihood(state.position)
            return state, (state.log_likelihood, exact, info.is_accepted)

        start = algorithm.init(posterior.prior.sample(jax.random.key(0)))
        return jax.lax.scan(step, start, jax.random.split(jax.random.key(1), 60))[1]

    cached, exact, accepted = walk()
    np.testing.assert_allclose(cached, exact, rtol=0, atol=1e-5)
    assert set(np.asarray(accepted).tolist()) == {True, False}


def test_beta_one_proposes_independent_prior_draws():
    algorithm = tc.pcn(flat(cosine_prior()), 1.0)

    @jax.jit
    def moved(position):
        return algorithm.step(jax.random.key(3), algorithm.init(position))[0].position

    np.testing.assert_array_equal(moved(jnp.full(6, 1e6)), moved(jnp.zeros(6)))


@pytest.mark.parametrize("bad", [jnp.nan, -jnp.inf, jnp.inf])
def test_a_failing_likelihood_is_rejected_and_flagged(bad):
    posterior = tc.Posterior(cosine_prior(), tc.Likelihood(POINT, lambda v: jnp.sum(v) * 0 + bad))
    state = State(np.zeros(6, np.float32), np.float32(0))
    after, info = jax.jit(tc.pcn(posterior, 0.5).step)(jax.random.key(0), state)
    np.testing.assert_array_equal(after.position, state.position)
    assert float(after.log_likelihood) == 0.0
    assert not bool(info.is_accepted)
    assert bool(info.is_nonfinite)
    assert float(info.acceptance_rate) == 0.0


def test_a_chain_leaves_a_point_of_probability_zero():
    """Started where a hard constraint is broken, the first allowed proposal is accepted."""
    posterior = tc.Posterior(
        cosine_prior(), tc.Likelihood(POINT, lambda v: jnp.where(v[0] > 0, 0.0, -jnp.inf))
    )
    algorithm = tc.pcn(posterior, 1.0)

    @jax.jit
    def walk():
        start = algorithm.init(jnp.full(6, -1.0))
        keys = jax.random.split(jax.random.key(0), 50)
        end, _ = jax.lax.scan(lambda state, key: (algorithm.step(key, state)[0], None), start, keys)
        return start.log_likelihood, end.log_likelihood

    assert tuple(map(float, walk())) == (-np.inf, 0.0)


@pytest.mark.parametrize("step_size", [0.0, -0.1, 1.5, float("nan")])
def test_step_size_outside_its_range_is_refused(step_size):
    posterior, _, _ = linear_gaussian()
    with pytest.raises(ValueError, match=r"pcn needs a step size in \(0, 1\]"):
        tc.pcn(posterior, step_size)


def test_runs_in_blackjax_driver():
    posterior, mean, _ = linear_gaussian()
    algorithm = tc.pcn(posterior, 0.5)
    _, history = blackjax.util.run_inference_algorithm(
        rng_key=jax.random.key(0),
        inference_algorithm=algorithm,
        num_steps=4000,
        initial_position=jnp.asarray(mean),
        transform=lambda state, info: (state.position, info.is_accepted),
    )
    positions, accepted = history
    assert positions.shape == (4000, 6)
    assert 0.05 < float(accepted.mean()) < 0.95


def test_linear_gaussian_posterior_is_the_closed_form():
    """28 scores below 5: false alarm below 2e-5."""
    assert closed_form_scores(tc.pcn, 0.5, seed=0).max() < 5


def _faulty_step(posterior, beta, key, state, *, fault):
    """pCN with one mistake."""
    key_noise, key_accept = jax.random.split(key)
    xi = standard_normal(key_noise, state.position)
    shrink = 1 - beta**2 if fault == "no square root" else jnp.sqrt(1 - beta**2)
    position = shrink * state.position + beta * xi
    proposal = State(position, posterior.log_likelihood(position))
    ratio = proposal.log_likelihood - state.log_likelihood
    if fault == "tempered by 5 %":
        ratio = 0.95 * ratio
    if fault == "prior counted twice":
        ratio += 0.5 * (jnp.sum(state.position**2) - jnp.sum(position**2))
    if fault == "stale log-likelihood":
        proposal = State(position, state.log_likelihood)
    return accept_or_reject(key_accept, ratio, proposal, state)


@pytest.mark.parametrize(
    "fault",
    by_night(
        ["no square root", "tempered by 5 %", "prior counted twice", "stale log-likelihood"],
        long=["no square root", "prior counted twice"],
    ),
)
def test_the_closed_form_catches_a_fault(fault):
    @kernel(StepSizeRule(0.2, 0.5, 1.0))
    def faulty(posterior, step_size):
        right = tc.pcn(posterior, step_size)
        return sampling_algorithm(
            right.init, partial(_faulty_step, posterior, step_size, fault=fault)
        )

    assert closed_form_scores(faulty, 0.5, seed=0).max() > 5
