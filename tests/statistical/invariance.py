r"""Does a kernel leave the posterior invariant? Successive draws from the joint law (Geweke 2004).

Draw z from the prior and y given z; then z is a draw from the posterior of y. Run k steps of the
kernel on that posterior from z to z'. If it is invariant, (z', y) has the law of (z, y), so for
every statistic s the mean of s(z', y) - s(z, y) over independent pairs is zero, whatever k is.

The test is sequential (Gandy & Scott 2020): a round that is plainly bad ends in an alarm, one that
is plainly good ends the test, and one in between is repeated with new and four times as many
pairs, at most twice. Levels are shared out among rounds, statistics and cells so that the chance
of any false alarm in the whole suite is below FALSE_ALARM.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from as_shipped import OPTIONS
from joint import Joint
from scipy.stats import norm

from traceclass.kernels.base import Kernel

FALSE_ALARM = 1e-4
# More than the suite has cells, seeded faults apart.
NUM_CELLS = 200
ROUNDS = 3
GROWTH = 4
CLEARLY_GOOD = 0.1
ROUNDING = 1e-5
# From this number of pairs on, a program that runs faster is worth the time it takes to compile.
MANY_PAIRS = 10_000


class Verdict(NamedTuple):
    """What a test found: the smallest p-value over statistics, corrected for their number."""

    is_invariant: bool
    p_value: float
    worst: str
    z_score: float
    acceptance_rate: float
    num_pairs: int


def statistics(posterior, z) -> dict[str, jax.Array]:
    """Of the log-likelihood, of the function and of the coordinates, in several scales."""
    level = posterior.log_likelihood(z)
    values = posterior.values_of(z)
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(3, z.size)), dtype=z.dtype)
    quadratic = weights @ (z**2)
    return {
        "log-likelihood": level,
        "spread of the log-likelihood": jnp.abs(level - 10.0),
        "|z|^2": jnp.sum(z**2),
        "z^2 weighted": quadratic[0],
        "z^2 weighted again": quadratic[1],
        "first z^2": z[0] ** 2,
        "last z^2": z[-1] ** 2,
        "z weighted": weights[2] @ z,
        "mean of v": jnp.mean(values),
        "mean of v^2": jnp.mean(values**2),
        "|v_0 - v_1|": jnp.abs(values[0] - values[1]),
    }


def pairs(joint: Joint, kernel: Kernel, step_size, num_steps: int, key, num_pairs: int):
    """Statistics before and after, one row a pair, and acceptance rates."""
    tuning = kernel.tuning(step_size)

    def one(key):
        key_z, key_y, key_steps = jax.random.split(key, 3)
        z = joint.prior.sample(key_z)
        posterior = joint.posterior_of_data(key_y, z)
        algorithm = kernel.assemble(posterior, tuning)

        def step(i, carry):
            state, rate = carry
            state, info = algorithm.step(jax.random.fold_in(key_steps, i), state)
            return state, rate + info.acceptance_rate / num_steps

        state, rate = jax.lax.fori_loop(0, num_steps, step, (algorithm.init(z), 0.0))
        ends = jnp.stack([z, state.position])
        return jax.vmap(lambda z: statistics(posterior, z))(ends), rate

    options = OPTIONS if num_pairs >= MANY_PAIRS else None
    found, rate = jax.jit(jax.vmap(one), compiler_options=options)(jax.random.split(key, num_pairs))
    found = {name: np.asarray(values) for name, values in found.items()}
    before, after = ({name: s[:, end] for name, s in found.items()} for end in range(2))
    return before, after, rate


def judge(
    joint: Joint, kernel: Kernel, step_size, num_steps: int, *, num_pairs: int, seed: int
) -> Verdict:
    """The sequential test of one cell."""
    level = FALSE_ALARM / NUM_CELLS / ROUNDS
    for round_number in range(ROUNDS):
        key = jax.random.fold_in(jax.random.key(seed), round_number)
        before, after, rate = pairs(joint, kernel, step_size, num_steps, key, num_pairs)
        scores = {
            name: z_score(*(np.asarray(side[name], dtype=np.float64) for side in (before, after)))
            for name in before
        }
        worst = max(scores, key=lambda name: scores[name])
        p_value = min(1.0, 2 * norm.sf(scores[worst]) * len(scores))
        verdict = Verdict(
            p_value > level, p_value, worst, scores[worst], float(jnp.mean(rate)), num_pairs
        )
        if not verdict.is_invariant or p_value > CLEARLY_GOOD:
            break
        num_pairs *= GROWTH
    return verdict


def z_score(before: np.ndarray, after: np.ndarray) -> float:
    """|mean difference| in standard errors; infinite where a difference is not a number.

    The standard error is not taken below ROUNDING of the statistic's spread: a swap that leaves
    the function as it is changes its values in the last digit only, and not without bias.
    """
    differences = after - before
    if not np.isfinite(differences).all():
        return np.inf
    error = differences.std(ddof=1) / np.sqrt(differences.size)
    return abs(differences.mean()) / np.hypot(error, ROUNDING * before.std())
