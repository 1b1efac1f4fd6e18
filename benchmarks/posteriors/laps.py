"""BlackJAX's LAPS: chains that are tuned together, by an unadjusted phase and an adjusted one.

`blackjax.adaptation.laps` leaves one position of each chain, so it is the warm-up here. After it
the chains go on as the second phase made them, by adjusted MCLMC with the step size that was found
and a diagonal metric of the variances over chains, both fixed: from there on each is an ordinary
chain.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.laps import laps
from blackjax.mcmc import adjusted_mclmc
from blackjax.mcmc.integrators import (
    generate_isokinetic_integrator,
    mclachlan_coefficients,
    omelyan_coefficients,
)
from jax.sharding import Mesh
from jaxtyping import Array, Float, Key

from benchmarks.posteriors.chains import Peer, Warm, Work
from benchmarks.posteriors.peers import mclmc_work
from traceclass.posterior import Posterior

# It is made for thousands; its metric is the variance over the chains.
NUM_CHAINS = 64
# Unadjusted steps, at most; adjusted draws, in which the step size is found.
FIRST_STEPS, SECOND_DRAWS = 1_000, 100
STEPS_PER_DRAW = 15
# Above this number of coordinates its default is another integrator.
_HIGH_DIMENSION = 200
# In its adjusted phase, momenta lose their direction over so many trajectory lengths.
_PROPOSAL_FACTOR = 1.25
_COMPILING = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


def laps_peer(posterior: Posterior) -> Peer:
    """LAPS with its defaults."""
    num_coordinates = posterior.prior.num_coordinates
    is_high = num_coordinates > _HIGH_DIMENSION
    coefficients = omelyan_coefficients if is_high else mclachlan_coefficients
    gradients_per_step = len(coefficients) // 2
    kernel = adjusted_mclmc.build_kernel(generate_isokinetic_integrator(coefficients))

    def warm_up(key: Key[Array, ""], starts: Float[Array, "chains z"]) -> Warm:
        """The chains begin at draws of the prior of their own: more than there are starts."""
        del starts
        began = time.perf_counter()
        with counted_compiling() as compiling:
            info, _, _, state = laps(
                posterior.logdensity,
                posterior.prior.sample,
                num_coordinates,
                FIRST_STEPS,
                SECOND_DRAWS * gradients_per_step * STEPS_PER_DRAW,
                NUM_CHAINS,
                Mesh(np.array(jax.devices()), ("chains",)),
                key,
                steps_per_sample=STEPS_PER_DRAW,
            )
            jax.block_until_ready(state)
        assert info is not None
        tuning = (info["phase_2"]["step_size"][-1], jnp.var(state.position, axis=0))
        spread = jax.tree.map(partial(_for_each, NUM_CHAINS), tuning)
        seconds = time.perf_counter() - began - sum(compiling)
        return Warm(state, spread, seconds, sum(compiling))

    def step(key: Key[Array, ""], state: Any, tuning: Any) -> tuple[Any, Work]:
        step_size, metric = tuning
        state, info = kernel(
            key,
            state,
            posterior.logdensity,
            step_size,
            (STEPS_PER_DRAW,),
            metric,
            _PROPOSAL_FACTOR,
        )
        return state, mclmc_work(info, gradients_per_step)

    return Peer(warm_up, step, thin=1)


def _for_each(count: int, value: Array) -> Array:
    return jnp.broadcast_to(jnp.asarray(value), (count, *jnp.shape(value)))


@contextlib.contextmanager
def counted_compiling() -> Iterator[list[float]]:
    """Seconds that JAX spends on tracing and compiling; LAPS does so whenever it is called."""
    seconds: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in _COMPILING:
            seconds.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
