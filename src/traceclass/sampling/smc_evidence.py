"""The evidence once more, by sequential Monte Carlo: an independent check of `run.evidence`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.base import Kernel, KernelFactory, as_kernel
from traceclass.kernels.smc import smc_kernel
from traceclass.posterior import Posterior
from traceclass.validation import require_count

# log(step size) moves by this times (acceptance rate - target) from one temperature to the next.
_GAIN = 1.0
# Particles that need more have stopped moving towards the posterior.
_MOST_TEMPERATURES = 2_000


class SMCEvidence(NamedTuple):
    """log p(data), its standard error over independent repeats, and what each repeat said."""

    log_evidence: float
    standard_error: float
    each: np.ndarray
    num_temperatures: np.ndarray
    step_sizes: np.ndarray


def smc_evidence(
    posterior: Posterior,
    kernel: KernelFactory,
    *,
    num_particles: int = 1_000,
    num_repeats: int = 4,
    num_moves: int = 20,
    target_ess: float = 0.9,
    seed: int = 0,
) -> SMCEvidence:
    r"""log p(data) by BlackJAX's adaptive tempered SMC, particles moved by `kernel`.

    Particles go from the prior to the posterior through powers of the likelihood, each chosen so
    that the share `target_ess` of them stays effective; at each they are weighted, resampled and
    take `num_moves` steps. The step size is the same for all particles and follows the acceptance
    rate from one power to the next. It shares with `tc.tempered` the kernel and nothing else. The
    repeats' estimates of p(data), which are unbiased for a fixed schedule, are averaged.
    """
    kernel = as_kernel(kernel)
    if kernel.tuned_by is None or kernel.tuned_by.target is None:
        raise UserTypeError(
            f"smc_evidence needs one of traceclass's kernels with a step size, such as tc.pcn or "
            f"tc.hmc, got {kernel.name}: the step size follows the acceptance rate."
        )
    num_particles = require_count(num_particles, "num_particles", "It is a cloud.", 2)
    num_repeats = require_count(num_repeats, "num_repeats", "The error is their spread.", 2)
    num_moves = require_count(num_moves, "num_moves", "Particles have to part.")
    if not 0 < target_ess < 1:
        raise UserValueError(f"target_ess must lie in (0, 1), got {target_ess}: it is a share.")
    keys = jax.random.split(jax.random.key(seed), num_repeats)
    settings = (num_particles, num_moves, float(target_ess))
    each, temperatures, sizes = (
        np.asarray(part) for part in _repeats(posterior, kernel, settings, keys)
    )
    levels = each.astype(np.float64)
    if not np.isfinite(levels).all() or (temperatures >= _MOST_TEMPERATURES).any():
        raise UserValueError(
            f"the particles did not reach the posterior (estimates {levels.tolist()} after "
            f"{temperatures.tolist()} temperatures): a share of the prior's draws makes the data "
            "impossible, or too few particles stay effective. Use tc.tempered, or another "
            "target_ess."
        )
    ratios = np.exp(levels - levels.max())
    # The first says 1 at most, however far the repeats lie apart.
    errors = ratios.std(ddof=1) / ratios.mean(), levels.std(ddof=1)
    level = levels.max() + np.log(ratios.mean())
    error = max(errors) / np.sqrt(num_repeats)
    return SMCEvidence(float(level), float(error), levels, temperatures, sizes)


@eqx.filter_jit
def _repeats(posterior: Posterior, kernel: Kernel, settings: Any, keys: Array) -> Any:
    return jax.lax.map(partial(_once, posterior, kernel, settings), keys)


def _once(posterior: Posterior, kernel: Kernel, settings: Any, key: Array) -> Any:
    with jax.ensure_compile_time_eval():
        from blackjax.smc import adaptive_tempered, resampling

    num_particles, num_moves, target_ess = settings
    mcmc_init, mcmc_step = smc_kernel(kernel)
    move = adaptive_tempered.build_kernel(
        lambda z: -0.5 * jnp.vdot(z, z),
        posterior.log_likelihood,
        mcmc_step,
        mcmc_init,
        resampling.systematic,
        target_ess,
    )
    rule = kernel.tuned_by
    assert rule is not None
    target = rule.target
    assert target is not None

    def going(carry: Any) -> Array:
        return (carry[0].tempering_param < 1) & (carry[-1] < _MOST_TEMPERATURES)

    def step(carry: Any) -> Any:
        state, key, total, log_size, count = carry
        key, key_step = jax.random.split(key)
        size = jnp.exp(log_size)
        state, info = move(key_step, state, num_moves, {"step_size": size[None]})
        rate = jnp.mean(info.update_info.acceptance_rate)
        log_size = jnp.minimum(log_size + _GAIN * (rate - target), jnp.log(rule.largest))
        return state, key, total + info.log_likelihood_increment, log_size, count + 1

    key_start, key_run = jax.random.split(key)
    particles = posterior.prior.sample(key_start, (num_particles,))
    state = adaptive_tempered.init(particles)
    state = state._replace(tempering_param=jnp.zeros((), particles.dtype))
    begin = (state, key_run, jnp.zeros((), particles.dtype), jnp.log(rule.first), 0)
    _, _, total, log_size, count = jax.lax.while_loop(going, step, begin)
    return total, count, jnp.exp(log_size)
