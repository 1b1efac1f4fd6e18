"""One kernel on one posterior, in a process of its own: what it found is printed as JSON.

python -m benchmarks.posteriors.cell POSTERIOR KERNEL SECONDS [--data FILE] [--cheetah FOLDER]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import traceclass as tc
from benchmarks.posteriors.cells import OURS, Cell
from benchmarks.posteriors.problems import Problem, Sources, problem_of
from traceclass.posterior import Posterior
from traceclass.sampling.diagnostics import mean_and_error, worst_of

NUM_CHAINS = 8
# Starts are looked for among so many times as many draws of the prior.
_TRIES = 8
_STARTS = 0x57A7
# Diagnostics are computed of at most so many draws per chain, evenly spaced.
MOST_DRAWS = 200_000


class NoNumbersError(Exception):
    """The draws are not numbers."""


def starts_of(posterior: Posterior) -> Float[Array, "chains z"]:
    """The draws of the prior at which all kernels begin: log-likelihood and gradient are finite."""
    draws = posterior.prior.sample(jax.random.key(_STARTS), (_TRIES * NUM_CHAINS,))
    levels, gradients = jax.jit(
        lambda z: jax.lax.map(posterior.log_likelihood_and_gradient, z, batch_size=NUM_CHAINS)
    )(draws)
    finite = np.flatnonzero(np.isfinite(levels) & np.isfinite(gradients).all(axis=1))
    if len(finite) < NUM_CHAINS:
        raise NoNumbersError(f"the log-likelihood is finite at {len(finite)} draws of the prior.")
    return draws[jnp.asarray(finite[:NUM_CHAINS])]


def drawn_by(kernel: str, problem: Problem, seconds: float) -> Any:
    """The draws of one kernel, which is warmed up by its own procedure."""
    starts = starts_of(problem.posterior)
    if kernel in OURS:
        from benchmarks.posteriors import ours

        return ours.run(kernel, problem, starts, seconds)
    # Late: importing BlackJAX starts JAX, and devices are set before.
    from benchmarks.posteriors import chains, laps, peers

    make = {
        "nuts": peers.nuts,
        "nuts-low-rank": peers.nuts_low_rank,
        "mclmc": peers.mclmc,
        "laps": laps.laps_peer,
    }
    return chains.run(make[kernel](problem.posterior), problem, starts, seconds)


def measured(drawn: Any) -> Cell:
    """The figures of a cell; None stands for what is not finite."""
    every = max(1, -(-drawn.log_likelihood.shape[1] // MOST_DRAWS))
    values, levels = drawn.predictions[:, ::every], drawn.log_likelihood[:, ::every]
    lost = int((~np.isfinite(values)).sum() + (~np.isfinite(levels)).sum())
    if lost:
        raise NoNumbersError(f"{lost} of {values.size + levels.size} recorded values are NaN.")
    each = np.array([worst_of(one) for one in np.moveaxis(values[..., None], 2, 0)])
    ess, rhat = each.T
    return {
        "chains": values.shape[0],
        "draws": drawn.log_likelihood.shape[1],
        "seconds": drawn.seconds,
        "warmup_seconds": drawn.warmup_seconds,
        "compile_seconds": drawn.compile_seconds,
        "chains_together": drawn.chains_together,
        "acceptance": drawn.acceptance,
        "divergences": drawn.divergences,
        "evaluations": drawn.evaluations,
        "uses_gradients": drawn.uses_gradients,
        "ess": {"smallest": float(ess.min()), "median": float(np.median(ess))},
        "rhat": {"worst": _finite(rhat.max()), "median": _finite(np.median(rhat))},
        "log_likelihood": {name: _finite(value) for name, value in mean_and_error(levels).items()},
        "log_likelihood_ess": worst_of(levels)[0],
    }


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def circumstances() -> dict[str, Any]:
    """Versions, and what the machine is."""
    import blackjax

    return {
        "traceclass": tc.__version__,
        "blackjax": blackjax.__version__,
        "jax": jax.__version__,
        "devices": len(jax.devices()),
        "machine": platform.machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("posterior")
    parser.add_argument("kernel")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cheetah", type=Path)
    given = parser.parse_args()
    tc.use_cpu_devices()
    problem = problem_of(given.posterior, Sources(given.data, given.cheetah))
    drawn = drawn_by(given.kernel, problem, given.seconds)
    coordinates = {"coordinates": problem.posterior.prior.num_coordinates}
    print(json.dumps(measured(drawn) | coordinates | circumstances(), allow_nan=False))


if __name__ == "__main__":
    main()
