"""Metropolis-adjusted Langevin: a control, which must fail as the function is refined."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from traceclass.kernels.base import StepSizeRule, kernel
from traceclass.kernels.metropolis import MetropolisInfo, accept_or_reject, sampling_algorithm
from traceclass.kernels.states import GradientState, Target, init_with_gradient, standard_normal


def log_ratio(
    state: GradientState, proposal: GradientState, xi: Float[Array, " z"], s: Any
) -> Float[Array, ""]:
    r"""log [ pi(z') q(z', z) / (pi(z) q(z, z')) ] for z' = z + (s^2/2) d(z) + s xi.

    With d = g - z the gradient of log pi and D = d(z) + d(z'), the way back needs the noise
    -(xi + (s/2) D), so

        log ratio = l(z') - l(z) - <z' - z, z' + z>/2 - (s/2) <xi, D> - (s^2/8) |D|^2
    """
    step = proposal.position - state.position
    both = proposal.position + state.position
    d = state.gradient + proposal.gradient - both
    change = proposal.log_likelihood - state.log_likelihood - 0.5 * jnp.vdot(step, both)
    return change - 0.5 * s * jnp.vdot(xi, d) - 0.125 * s**2 * jnp.vdot(d, d)


def _step(
    posterior: Target, s: Any, rng_key: Key[Array, ""], state: GradientState
) -> tuple[GradientState, MetropolisInfo]:
    key_noise, key_accept = jax.random.split(rng_key)
    xi = standard_normal(key_noise, state.position)
    drift = 0.5 * s**2 * (state.gradient - state.position)
    proposal = init_with_gradient(posterior, state.position + drift + s * xi)
    return accept_or_reject(key_accept, log_ratio(state, proposal, xi, s), proposal, state)


# 0.574: Roberts & Rosenthal (1998).
@kernel(StepSizeRule(target=0.574, first=0.05, largest=2.0))
def mala(posterior: Target, step_size: Any) -> Any:
    r"""Metropolis-adjusted Langevin in whitened coordinates.

        z' = z + (s^2/2) (g(z) - z) + s xi,   xi ~ N(0, I)

    with g the gradient of the log-likelihood; see `log_ratio`. `step_size` is s. The explicit
    step does not keep the prior, so at a fixed s the acceptance rate falls to zero as coordinates
    are added, with a power s^6 of the step instead of the random walk's s^2. It is here as a
    control; use `pcnl` or `hmc`. Reference: Roberts & Tweedie, Bernoulli 1996.
    """
    return sampling_algorithm(
        partial(init_with_gradient, posterior), partial(_step, posterior, step_size)
    )
