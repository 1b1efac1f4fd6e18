"""BlackJAX's kernels, warmed up by their own procedures, each chain by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.base import get_filter_adapt_info_fn
from blackjax.mcmc import adjusted_mclmc_dynamic
from jaxtyping import Array, Key

from benchmarks.posteriors.chains import Peer, Work, each_by_itself
from traceclass.posterior import Posterior

# The default of BlackJAX's (and Stan's) window adaptation.
NUTS_WARMUP = 1_000
# As many steps are to follow the tuner of MCLMC, it is told; it takes three tenths of them, of two
# integration steps on average.
MCLMC_STEPS = 50_000
# What BlackJAX's sampling book uses.
MCLMC_TARGET = 0.9
MCLMC_THIN = 10
# McLachlan's integrator takes two gradients per step, a leapfrog one.
GRADIENTS_PER_MCLACHLAN = 2


def nuts(posterior: Posterior) -> Peer:
    """NUTS with a diagonal metric by window adaptation."""
    warmup: Any = blackjax.window_adaptation(
        blackjax.nuts, posterior.logdensity, adaptation_info_fn=get_filter_adapt_info_fn()
    )

    def warm_up(key: Key[Array, ""], start: Array) -> tuple[Any, Any]:
        (state, found), _ = warmup.run(key, start, num_steps=NUTS_WARMUP)
        return state, found

    return _nuts(posterior, warm_up)


def nuts_low_rank(posterior: Posterior) -> Peer:
    """NUTS with a low-rank metric, which goes on from where its warm-up ended."""
    kept = get_filter_adapt_info_fn(set(blackjax.mcmc.hmc.HMCState._fields), set(), {"mu_star"})
    warmup: Any = blackjax.window_adaptation_low_rank(
        blackjax.nuts, posterior.logdensity, adaptation_info_fn=kept
    )

    def warm_up(key: Key[Array, ""], start: Array) -> tuple[Any, Any]:
        (_, found), info = warmup.run(key, start, num_steps=NUTS_WARMUP)
        return jax.tree.map(lambda trail: trail[-1], info.state), found

    return _nuts(posterior, warm_up)


def _nuts(posterior: Posterior, warm_up: Callable[..., tuple[Any, Any]]) -> Peer:
    kernel = blackjax.nuts.build_kernel()

    def step(key: Key[Array, ""], state: Any, found: Any) -> tuple[Any, Work]:
        state, info = kernel(key, state, posterior.logdensity, **found)
        return state, Work(
            info.acceptance_rate,
            info.num_integration_steps,
            info.is_divergent.astype(jnp.int32),
        )

    return Peer(each_by_itself(warm_up), step, thin=1)


def mclmc(posterior: Posterior) -> Peer:
    """Adjusted MCLMC with random trajectory lengths, tuned by BlackJAX's tuner."""
    kernel = adjusted_mclmc_dynamic.build_kernel(
        integration_steps_fn=adjusted_mclmc_dynamic.make_random_trajectory_length_fn(True)
    )

    def warm_up(key: Key[Array, ""], start: Array) -> tuple[Any, Any]:
        key_init, key_tune = jax.random.split(key)
        state = adjusted_mclmc_dynamic.init(start, posterior.logdensity, key_init)
        state, found, _ = blackjax.adjusted_mclmc_find_L_and_step_size(
            kernel, posterior.logdensity, MCLMC_STEPS, state, key_tune, MCLMC_TARGET
        )
        return state, found

    def step(key: Key[Array, ""], state: Any, found: Any) -> tuple[Any, Work]:
        state, info = kernel(
            key,
            state,
            posterior.logdensity,
            found.step_size,
            inverse_mass_matrix=found.inverse_mass_matrix,
            integration_steps_params=(found.L / found.step_size,),
        )
        return state, mclmc_work(info)

    return Peer(each_by_itself(warm_up), step, thin=MCLMC_THIN)


def mclmc_work(info: Any, gradients_per_step: int = GRADIENTS_PER_MCLACHLAN) -> Work:
    """What a trajectory of MCLMC did."""
    gradients = jnp.asarray(gradients_per_step * info.num_integration_steps, jnp.int32)
    return Work(info.acceptance_rate, gradients, info.is_divergent.astype(jnp.int32))
