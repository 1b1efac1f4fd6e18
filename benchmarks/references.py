"""The fit of references in warm-up beside BlackJAX's estimator, on the same draws and scores.

    python -m benchmarks.references [--chains 8] [--draws 200] [--coordinates 589] [--rank 40]

Both in double precision, one after the other in one process, the best of three; BlackJAX's is
vmapped over chains and compiled, and its compilation is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from blackjax.adaptation.metric_estimators import fisher_score_low_rank

from traceclass.sampling.adaptation.fitted_reference import fitted


def seconds(call: Callable[[], Any]) -> float:
    """The best of three calls, after one that does not count."""
    call()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in {"chains": 8, "draws": 200, "coordinates": 589, "rank": 40}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    shape = (given.chains, given.draws, given.coordinates)
    x = np.random.default_rng(0).normal(size=shape)
    stiffness = np.linspace(0, 5, given.coordinates)
    gradients = -stiffness * x
    with jax.enable_x64(True):
        estimate = jax.jit(
            jax.vmap(lambda draws, scores: tuple(fisher_score_low_rank(draws, scores, given.rank)))
        )
        theirs = seconds(lambda: jax.block_until_ready(estimate(x, gradients - x)))
    pairs = list(zip(x, gradients, strict=True))
    ours = seconds(lambda: [fitted(draws, slopes, given.rank) for draws, slopes in pairs])
    print(f"ours {ours:.3f} s, BlackJAX {theirs:.3f} s, ratio {theirs / ours:.0f}")


if __name__ == "__main__":
    main()
