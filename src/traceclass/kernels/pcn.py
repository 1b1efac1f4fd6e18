"""Preconditioned Crank-Nicolson, the kernel that knows the prior and nothing else."""

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
    posterior: Target, beta: Any, rng_key: Key[Array, ""], state: State
) -> tuple[State, MetropolisInfo]:
    key_noise, key_accept = jax.random.split(rng_key)
    xi = standard_normal(key_noise, state.position)
    position = jnp.sqrt(1 - beta**2) * state.position + beta * xi
    proposal = State(position, posterior.log_likelihood(position))
    log_ratio = proposal.log_likelihood - state.log_likelihood
    return accept_or_reject(key_accept, log_ratio, proposal, state)


# 0.234 is the optimal rate of random-walk-type proposals (Roberts, Gelman & Gilks 1997). By a
# reference near the posterior even beta = 1, independent proposals, is accepted more often; but
# where the reference has lighter tails such chains stay for long where they once came. At 0.7 they
# leave step by step (docs/groundwater.md has the figures).
@kernel(StepSizeRule(target=0.234, first=0.1, largest=1.0, largest_by_reference=0.7))
def pcn(posterior: Target, step_size: Any) -> Any:
    r"""Preconditioned Crank-Nicolson in whitened coordinates (eq. pCN).

        z' = sqrt(1 - beta^2) z + beta xi,   xi ~ N(0, I)

    accepted with probability min(1, exp(l(z') - l(z))). The proposal keeps the prior invariant,
    so the prior never enters the ratio, and the acceptance rate does not fall as coordinates are
    added. `step_size` is beta, in (0, 1]; by a `reference` adaptation ends at 0.7. It is not a
    random walk: at beta = 1 it proposes independent prior draws. Reference: Cotter, Roberts,
    Stuart & White, Stat. Sci. 2013.
    """
    return sampling_algorithm(partial(init, posterior), partial(_step, posterior, step_size))
