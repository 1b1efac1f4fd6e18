"""The evidence by sequential Monte Carlo: an independent check of `run.evidence`."""

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
from traceclass.posterior import Posterior, require_posterior
from traceclass.validation import require_count

# log(step size) moves by this times (acceptance rate - target) from one temperature to the next.
_GAIN = 1.0
# Particles that need more temperatures than this have stopped moving towards the posterior.
_MOST_TEMPERATURES = 2_000


class SMCEvidence(NamedTuple):
    """What `smc_evidence` found.

    Parameters
    ----------
    log_evidence, standard_error : float
        log p(data), and its standard error over the independent repeats.
    each : (repeats,)
        The estimate of each repeat.
    num_temperatures : (repeats,)
        How many powers of the likelihood each repeat went through.
    step_sizes : (repeats,)
        The step size at the posterior.
    """

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

    Parameters
    ----------
    posterior : Posterior
        The model and its data.
    kernel : Kernel
        A kernel of this library with a step size, such as `tc.pcn` or `tc.hmc`.
    num_particles : int
        Particles per repeat.
    num_repeats : int
        Independent repeats, at least 2: their spread is the standard error.
    num_moves : int
        Steps of each particle at each power.
    target_ess : float
        The share of the particles, in (0, 1), that stays effective from one power to the next.
    seed : int
        The same seed gives the same estimate.
    """
    require_posterior(posterior)
    kernel = as_kernel(kernel)
    if kernel.tuned_by is None or kernel.tuned_by.target is None:
        raise UserTypeError(
            "smc_evidence needs one of traceclass's kernels with a step size, such as tc.pcn or "
            f"tc.hmc, got {kernel.name}: the step size follows the acceptance rate."
        )
    num_particles = require_count(
        num_particles, "num_particles", "The weights of one particle alone say nothing.", 2
    )
    num_repeats = require_count(
        num_repeats, "num_repeats", "The standard error is the spread of the repeats.", 2
    )
    num_moves = require_count(
        num_moves, "num_moves", "Copies of one particle must move apart after resampling."
    )
    if not 0 < target_ess < 1:
        raise UserValueError(f"target_ess must lie in (0, 1), got {target_ess}: it is a share.")
    keys = jax.random.split(jax.random.key(seed), num_repeats)
    settings = (num_particles, num_moves, float(target_ess))
    each, temperatures, sizes = (
        np.asarray(part) for part in _repeats(posterior, kernel, settings, keys)
    )
    log_evidences = each.astype(np.float64)
    if not np.isfinite(log_evidences).all() or (temperatures >= _MOST_TEMPERATURES).any():
        raise UserValueError(
            f"the particles did not reach the posterior (estimates {log_evidences.tolist()} after "
            f"{temperatures.tolist()} temperatures): a share of the prior's draws makes the data "
            "impossible, or too few particles stay effective. Use tc.tempered, or another "
            "target_ess."
        )
    highest = log_evidences.max()
    ratios = np.exp(log_evidences - highest)
    # The first of the two errors never exceeds sqrt(num_repeats), however far the repeats lie
    # apart, so the second is looked at too.
    errors = ratios.std(ddof=1) / ratios.mean(), log_evidences.std(ddof=1)
    log_evidence = highest + np.log(ratios.mean())
    error = max(errors) / np.sqrt(num_repeats)
    return SMCEvidence(float(log_evidence), float(error), log_evidences, temperatures, sizes)


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
