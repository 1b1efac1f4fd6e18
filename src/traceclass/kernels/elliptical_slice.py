"""Elliptical slice sampling: pCN that chooses its own step. BlackJAX's, wrapped."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from traceclass.kernels.base import kernel
from traceclass.kernels.metropolis import MetropolisInfo, sampling_algorithm
from traceclass.kernels.states import State, Target, init


def _rise(posterior: Target, start: Float[Array, ""], z: Float[Array, " z"]) -> Float[Array, ""]:
    r"""l(z) - l(start), which BlackJAX's loop compares with log u < 0.

    l itself would not do: in single precision l + log u may round to l, and once the bracket has
    shrunk to the start no point is above it, for ever. A comparison with NaN is false, which
    the loop would take for "above the slice".
    """
    log_likelihood = posterior.log_likelihood(z)
    return jnp.where(jnp.isfinite(log_likelihood), log_likelihood - start, -jnp.inf)


def _step(posterior: Target, rng_key: Key[Array, ""], state: State) -> tuple[State, MetropolisInfo]:
    from blackjax.mcmc import elliptical_slice as theirs

    ones = jnp.ones_like(state.position)
    kernel = theirs.build_kernel(ones, jnp.zeros_like(ones))
    # From minus infinity any finite point is a rise.
    start = jnp.where(jnp.isfinite(state.log_likelihood), state.log_likelihood, 0.0)
    known = theirs.EllipSliceState(state.position, state.log_likelihood - start)
    (position, rise), info = kernel(rng_key, known, partial(_rise, posterior, start))
    # The share of first points that are in the slice is what a step size would be tuned by.
    at_once = jnp.asarray(info.subiter == 1, dtype=state.log_likelihood.dtype)
    moved = MetropolisInfo(at_once, jnp.asarray(True), jnp.asarray(False))
    return State(jnp.asarray(position), start + jnp.asarray(rise)), moved


@kernel()
def elliptical_slice(posterior: Target, step_size: Any = None) -> Any:
    r"""Elliptical slice sampling in whitened coordinates; no step size, no rejection.

        z'(theta) = cos(theta) z + sin(theta) xi,   xi ~ N(0, I)

    on which theta is drawn, from a bracket that shrinks towards 0, until l(z') is above
    l(z) + log u. `acceptance_rate` is the share of steps that took their first theta; every step
    moves, so `is_accepted` is always true. Points where l is NaN or infinite are never taken, but
    BlackJAX's loop does not tell how many there were, so they are not counted. `step_size` is
    ignored. Reference: Murray, Adams & MacKay, AISTATS 2010.
    """
    del step_size
    return sampling_algorithm(partial(init, posterior), partial(_step, posterior))
