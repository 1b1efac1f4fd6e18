"""Our kernels in BlackJAX's drivers, and BlackJAX's kernels in ours."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from linear import linear_gaussian

import traceclass as tc

KERNELS = {"pcn": 0.4, "pcnl": 0.01, "hmc": 0.12, "elliptical_slice": None}


@pytest.mark.parametrize("name", by_night(KERNELS, long=["pcnl", "elliptical_slice"]))
def test_runs_in_blackjax_driver(name):
    """From the posterior mean; the mean of 3,000 steps is near it, and the states move."""
    posterior, mean, covariance = linear_gaussian()
    _, positions = blackjax.util.run_inference_algorithm(
        rng_key=jax.random.key(0),
        inference_algorithm=getattr(tc, name)(posterior, KERNELS[name]),
        num_steps=3000,
        initial_position=jnp.asarray(mean),
        transform=lambda state, _: state.position,
    )
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(positions.mean(axis=0) - mean) < spread).all()
    assert (positions.std(axis=0) > 0.3 * spread).all()


def exact_log_evidence() -> float:
    """log N(y; 0, A A' + s^2 I)."""
    posterior, _, _ = linear_gaussian()
    a = np.asarray(posterior.values_of.basis, dtype=np.float64)
    y = np.asarray(posterior.likelihood.observations, dtype=np.float64)
    covariance = a @ a.T + posterior.likelihood.noise**2 * np.eye(len(y))
    _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
    return -0.5 * (log_determinant + y @ np.linalg.solve(covariance, y))


@pytest.mark.parametrize(
    ("name", "step_size"), by_night([("pcn", 0.4), ("hmc", 0.1)], long=[("hmc", 0.1)])
)
def test_tempered_smc_gives_the_evidence(name, step_size):
    """Adaptive tempered SMC of BlackJAX moved by our kernel, against the closed form.

    Four runs; their mean within 5 of their standard errors, floored at 0.02 nats.
    """
    posterior, _, _ = linear_gaussian()
    init, step = tc.smc_kernel(getattr(tc, name))
    smc = blackjax.adaptive_tempered_smc(
        lambda z: -0.5 * jnp.sum(z**2),
        posterior.log_likelihood,
        step,
        init,
        {"step_size": jnp.array([step_size])},
        blackjax.smc.resampling.systematic,
        target_ess=0.8,
        num_mcmc_steps=10,
    )

    @jax.jit
    def evidence(key):
        key_start, key_run = jax.random.split(key)
        particles = jax.vmap(posterior.prior.sample)(jax.random.split(key_start, 1000))

        def going(carry):
            return carry[0].tempering_param < 1

        def move(carry):
            state, key, total = carry
            key, key_step = jax.random.split(key)
            state, info = smc.step(key_step, state)
            return state, key, total + info.log_likelihood_increment

        state = smc.init(particles)
        state = state._replace(tempering_param=jnp.asarray(0.0))
        return jax.lax.while_loop(going, move, (state, key_run, 0.0))[2]

    estimates = np.array([evidence(jax.random.key(i)) for i in range(4)])
    error = max(0.02, estimates.std(ddof=1) / 2)
    assert abs(estimates.mean() - exact_log_evidence()) < 5 * error


def nuts(posterior, step_size):
    return blackjax.nuts(posterior.logdensity, step_size, jnp.ones(6))


@pytest.mark.long
def test_blackjax_nuts_in_a_cycle_with_ours():
    """A foreign kernel among ours: its step size is given, its state is made when it is entered."""
    posterior, mean, _ = linear_gaussian()
    run = tc.sample(
        posterior, tc.cycle(tc.pcn, nuts), step_size=(0.4, 0.1), num_chains=40, num_warmup=50,
        num_samples=40, thin=2, progress=False,
    )  # fmt: skip
    by_chain = run.positions.mean(axis=1)
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(by_chain.mean(axis=0) - mean) < 5 * error).all()
    assert set(run.move_acceptance_rates) == {"pcn", "nuts"}
    assert run.move_acceptance_rates["nuts"] > 0.5


def mclmc(posterior, step_size):
    return blackjax.mclmc(posterior.logdensity, 1.0, step_size)


@pytest.mark.long
def test_kernels_that_draw_at_their_start_compose():
    """MCLMC draws a momentum whenever another kernel hands a position over."""
    posterior, _, _ = linear_gaussian()
    settings = {"num_warmup": 0, "num_samples": 5, "num_chains": 2, "progress": False}
    run = tc.sample(posterior, tc.cycle(tc.pcn, mclmc), step_size=(0.1, 0.1), **settings)
    assert np.isfinite(run.draws["log_likelihood"]).all()


def test_node_swaps_are_refused_in_smc():
    for kernel in (tc.node_swap, tc.cycle(tc.pcn, tc.block_node_swap)):
        with pytest.raises(TypeError, match="node_swap looks into the prior"):
            tc.smc_kernel(kernel)


def test_compositions_begin_in_smc():
    init, _ = tc.smc_kernel(tc.cycle(tc.pcn, tc.hmc))
    assert init(jnp.zeros(3), lambda z: -jnp.sum(z**2)).position.shape == (3,)
