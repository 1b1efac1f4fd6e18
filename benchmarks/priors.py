"""Evaluation of series priors beside the dense products they replace, and memory of wide networks.

Times are ratios measured in turns in one process; memory is the growth of the peak of a process of
its own.

    python -m benchmarks.priors
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import traceclass as tc

ROUNDS = 15

_MEMORY_PROGRAM = """
import re, jax, numpy as np, traceclass as tc
jax.block_until_ready(jax.numpy.ones(3) @ jax.numpy.ones(3))
# The kernel's own high-water mark; getrusage would carry over the parent's.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 2**20
before = peak()
{work}
print(peak() - before)
"""
_NETWORK = """
prior = tc.TraceClassNetwork(num_inputs=2, widths=(3000, 3000, 3000))
z = prior.sample(jax.random.key(0))
prior.evaluate(z, np.random.default_rng(0).uniform(-1, 1, (1000, 2))).block_until_ready()
"""
_FOURIER = """
prior = tc.FourierSeries(num_inputs=17, max_frequency=10)
values_of = jax.jit(prior.at(np.random.default_rng(0).uniform(0, 1, (800, 17))))
values_of(prior.sample(jax.random.key(0))).block_until_ready()
"""


def ratio(mine: Callable[[], jax.Array], theirs: Callable[[], jax.Array], repeats: int) -> float:
    """Median ratio of times, each measured right after the other."""

    def seconds(work: Callable[[], jax.Array]) -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            work().block_until_ready()
        return time.perf_counter() - began

    mine().block_until_ready(), theirs().block_until_ready()
    return float(np.median([seconds(mine) / seconds(theirs) for _ in range(ROUNDS)]))


def fourier_ratio() -> float:
    """54,740 coefficients at 800 points of R^17, against one dense matrix-vector product."""
    prior = tc.FourierSeries(num_inputs=17, max_frequency=10)
    points = np.random.default_rng(0).uniform(0, 1, (800, 17))
    z = prior.sample(jax.random.key(0))
    ours, dense = jax.jit(prior.at(points)), jax.jit(jnp.matmul)
    matrix = jax.random.normal(jax.random.key(1), (800, prior.num_coordinates))
    return ratio(lambda: ours(z), lambda: dense(matrix, z), repeats=5)


def cosine_ratio() -> float:
    """25 x 25 modes on a 41 x 41 grid, against the two small matrix products it amounts to."""
    prior = tc.CosineSeries(num_modes=25)
    side = np.linspace(0, 1, 41)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    z = prior.sample(jax.random.key(0))
    ours = jax.jit(prior.at(grid))
    first = jax.random.normal(jax.random.key(1), (41, 25))
    products = jax.jit(lambda a, z: a @ z @ a.T)
    square = z.reshape(25, 25)
    return ratio(lambda: ours(z), lambda: products(first, square), repeats=300)


def peak_gib(work: str) -> float:
    """Growth of the peak memory of a fresh process, in GiB."""
    program = _MEMORY_PROGRAM.format(work=work)
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(answer.stdout)


def main() -> None:
    print("| what | figure |")
    print("|---|---|")
    print(f"| Fourier series, 54,740 terms, 800 points: time / dense | {fourier_ratio():.2f} |")
    print(f"| cosine series, 25 x 25 on 41 x 41: time / two products | {cosine_ratio():.2f} |")
    print(f"| Fourier series, peak memory | {peak_gib(_FOURIER):.2f} GiB |")
    print(
        f"| network 3 x 3000, 18 million coordinates, peak memory | {peak_gib(_NETWORK):.2f} GiB |"
    )


if __name__ == "__main__":
    main()
