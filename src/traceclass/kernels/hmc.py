"""Hilbert-space Hamiltonian Monte Carlo: long moves whose acceptance does not fall with width."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from traceclass.kernels.base import StepSizeRule, kernel
from traceclass.kernels.metropolis import MetropolisInfo, accept_or_reject, sampling_algorithm
from traceclass.kernels.reference import Reference
from traceclass.kernels.reference_trajectory import trajectory_by_reference
from traceclass.kernels.states import GradientState, Target, init_with_gradient, standard_normal
from traceclass.validation import require_count

# Each trajectory's step is drawn within 20 % of the step size: a fixed one can resonate with an
# oscillation of the dynamics and return to where it began.
JITTER = 0.2
# A quarter turn makes an independent draw of the prior. More kicks than this are not a default.
_MOST_DEFAULT_KICKS = 200


def trajectory(
    posterior: Target,
    state: GradientState,
    momentum: Float[Array, " z"],
    epsilon: Any,
    num_kicks: Any,
) -> tuple[GradientState, Float[Array, " z"], Float[Array, ""]]:
    r"""`num_kicks` steps of the splitting, and the energy error they made.

    With g = grad l, H(q, p) = -l(q) + |q|^2 / 2 + |p|^2 / 2 and one step

        p <- p + (epsilon/2) g(q)                                  half a kick
        (q, p) <- (cos(epsilon) q + sin(epsilon) p, cos(epsilon) p - sin(epsilon) q)
        p <- p + (epsilon/2) g(q)                                  half a kick

    the rotation keeps |q|^2 + |p|^2, so only kicks change it, by known amounts:

        dH = -(l(q') - l(q)) + sum over half kicks of (epsilon/2) <p, g> + (epsilon^2/8) |g|^2

    with p as it is before the kick. |q|^2 and |p|^2, which in single precision swamp dH long
    before 10^7 coordinates, are never formed. The two half kicks between rotations are made as one
    of size h = epsilon, whose sum is h <p, g> + (h^2/2) |g|^2. Returns the end state, its momentum,
    and dH.
    """
    cosine, sine = jnp.cos(epsilon), jnp.sin(epsilon)

    def kick(p: Array, g: Array, h: Any) -> tuple[Array, Array]:
        return p + h * g, h * jnp.vdot(p, g) + 0.5 * h**2 * jnp.vdot(g, g)

    def step(number: Array, carry: Any) -> Any:
        (q, _, g), p, total = carry
        q, p = cosine * q + sine * p, cosine * p - sine * q
        log_likelihood, g = posterior.log_likelihood_and_gradient(q)
        p, work = kick(p, g, jnp.where(number < num_kicks - 1, epsilon, 0.5 * epsilon))
        return GradientState(q, log_likelihood, g), p, total + work

    momentum, work = kick(momentum, state.gradient, 0.5 * epsilon)
    end, momentum, work = jax.lax.fori_loop(0, num_kicks, step, (state, momentum, work))
    return end, momentum, work - (end.log_likelihood - state.log_likelihood)


def _step(
    posterior: Target,
    step_size: Any,
    num_kicks: Any,
    reference: Reference | None,
    rng_key: Key[Array, ""],
    state: GradientState,
) -> tuple[GradientState, MetropolisInfo]:
    key_jitter, key_momentum, key_accept = jax.random.split(rng_key, 3)
    # Drawn before and apart from the momentum, so the trajectory is reversible given the step.
    u = jax.random.uniform(key_jitter, dtype=state.position.dtype, minval=-1.0)
    momentum = standard_normal(key_momentum, state.position)
    epsilon = step_size * (1 + JITTER * u)
    if reference is None:
        proposal, _, energy_error = trajectory(posterior, state, momentum, epsilon, num_kicks)
    else:
        proposal, energy_error = trajectory_by_reference(
            posterior, reference, state, momentum, epsilon, num_kicks
        )
    return accept_or_reject(key_accept, -energy_error, proposal, state)


def quarter_turn(step_size: Any) -> Any:
    """Kicks in a quarter turn, pi/2, of the rotation; at most 200."""
    kicks = jnp.ceil(0.5 * math.pi / jnp.asarray(step_size, dtype=float))
    return jnp.clip(kicks, 1, _MOST_DEFAULT_KICKS).astype(jnp.int32)


# 0.8 is near the optimum of Hamiltonian kernels when a rejected trajectory costs much
# (Betancourt, Byrne & Girolami 2014).
@kernel(StepSizeRule(0.8, first=0.05, largest=math.pi / 2), thin=1, kicks=quarter_turn)
def hmc(
    posterior: Target,
    step_size: Any,
    num_kicks: Any = None,
    reference: Reference | None = None,
) -> Any:
    r"""Hamiltonian Monte Carlo on the Hilbert space the prior lives on.

    A momentum p ~ N(0, I) is drawn, `num_kicks` steps of the splitting in `trajectory` are taken
    with step epsilon = `step_size` (1 + 0.2 u), u uniform in (-1, 1), and the end accepted with
    probability min(1, exp(-dH)). With a flat likelihood the rotation is exact, dH = 0, and a
    quarter turn (`num_kicks` None) gives an independent prior draw. It is not the leapfrog
    integrator, whose step must shrink as coordinates are added. Reference: Beskos, Pinski,
    Sanz-Serna & Stuart, Stoch. Proc. Appl. 2011.

    In `tc.sample` each chain gets a Gaussian `reference` of its own to move by where a quarter turn
    by the prior would take more than 1,000 kicks; `tc.hmc.using(reference=None)` keeps the prior.
    """
    if num_kicks is None:
        num_kicks = quarter_turn(step_size)
    elif not isinstance(num_kicks, jax.Array):
        num_kicks = require_count(num_kicks, "num_kicks", "A trajectory needs a kick to move.")
    return sampling_algorithm(
        partial(init_with_gradient, posterior),
        partial(_step, posterior, step_size, num_kicks, reference),
    )
