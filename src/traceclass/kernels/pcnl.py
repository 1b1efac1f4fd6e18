"""Preconditioned Crank-Nicolson Langevin: pCN that leans towards likelier functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from traceclass.kernels.base import StepSizeRule, kernel
from traceclass.kernels.metropolis import MetropolisInfo, accept_or_reject, sampling_algorithm
from traceclass.kernels.states import GradientState, Target, init_with_gradient, standard_normal


def propose(state: GradientState, xi: Float[Array, " z"], delta: Any) -> Float[Array, " z"]:
    r"""z' = [(2 - delta) z + 2 delta g(z) + sqrt(8 delta) xi] / (2 + delta)."""
    z, _, g = state
    return ((2 - delta) * z + 2 * delta * g + jnp.sqrt(8 * delta) * xi) / (2 + delta)


def rho(u: GradientState, v: GradientState, delta: Any) -> Float[Array, ""]:
    r"""rho(u, v) = -l(u) - <v - u, g(u)>/2 - (delta/4) <u + v, g(u)> + (delta/4) |g(u)|^2.

    exp(-rho(u, v)) is the density of the joint law of the current point u and the proposal v with
    respect to a measure symmetric in both. Only products with g appear, so rounding does not
    grow with the number of coordinates that the data say nothing about.
    """
    g = u.gradient
    along = jnp.vdot(v.position - u.position, g)
    across = jnp.vdot(u.position + v.position, g)
    return -u.log_likelihood - along / 2 - delta / 4 * across + delta / 4 * jnp.vdot(g, g)


def _step(
    posterior: Target, delta: Any, rng_key: Key[Array, ""], state: GradientState
) -> tuple[GradientState, MetropolisInfo]:
    key_noise, key_accept = jax.random.split(rng_key)
    position = propose(state, standard_normal(key_noise, state.position), delta)
    proposal = init_with_gradient(posterior, position)
    log_ratio = rho(state, proposal, delta) - rho(proposal, state, delta)
    return accept_or_reject(key_accept, log_ratio, proposal, state)


# 0.574 is the optimal rate of Langevin proposals (Roberts & Rosenthal 1998).
@kernel(StepSizeRule(target=0.574, first=0.01, largest=2.0))
def pcnl(posterior: Target, step_size: Any) -> Any:
    r"""Preconditioned Crank-Nicolson Langevin in whitened coordinates (eq. pCNL).

        z' = [(2 - delta) z + 2 delta g(z) + sqrt(8 delta) xi] / (2 + delta),   xi ~ N(0, I)

    with g = C^(1/2) Dl the whitened gradient, accepted with probability
    min(1, exp(rho(z, z') - rho(z', z))). `step_size` is delta, in (0, 2]. Without a gradient it is
    pCN with beta = sqrt(8 delta) / (2 + delta). It is well defined on function space where g stays
    bounded (Theorem 3: a saturated likelihood). Reference: Cotter, Roberts, Stuart & White 2013.
    """
    return sampling_algorithm(
        partial(init_with_gradient, posterior), partial(_step, posterior, step_size)
    )
