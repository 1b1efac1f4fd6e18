"""Random-walk Metropolis: a control, which must fail as the function is refined."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from traceclass.kernels.base import StepSizeRule, kernel
from traceclass.kernels.metropolis import MetropolisInfo, accept_or_reject, sampling_algorithm
from traceclass.kernels.states import State, Target, init, standard_normal


def _step(
    posterior: Target, s: Any, rng_key: Key[Array, ""], state: State
) -> tuple[State, MetropolisInfo]:
    key_noise, key_accept = jax.random.split(rng_key)
    xi = standard_normal(key_noise, state.position)
    proposal = init(posterior, state.position + s * xi)
    # (|z'|^2 - |z|^2) / 2 without the difference of two large numbers
    prior = s * jnp.vdot(xi, state.position) + 0.5 * s**2 * jnp.vdot(xi, xi)
    log_ratio = proposal.log_likelihood - state.log_likelihood - prior
    return accept_or_reject(key_accept, log_ratio, proposal, state)


# 0.234: Roberts, Gelman & Gilks (1997).
@kernel(StepSizeRule(target=0.234, first=0.05, largest=10.0))
def random_walk(posterior: Target, step_size: Any) -> Any:
    r"""Random-walk Metropolis in whitened coordinates.

        z' = z + s xi,   xi ~ N(0, I),   log ratio l(z') - l(z) - (|z'|^2 - |z|^2) / 2

    `step_size` is s. |z'|^2 exceeds |z|^2 by s^2 per coordinate, so at a fixed step the acceptance
    rate falls to zero as coordinates are added, and a step that is accepted shrinks with their
    number. It is here as the control that shows this; use `pcn`, which costs the same.
    """
    return sampling_algorithm(partial(init, posterior), partial(_step, posterior, step_size))
