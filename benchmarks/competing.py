"""What warm-up says of four references, and what each is worth in a run that is made to use it.

    python -m benchmarks.competing [POSTERIOR ...] [--seconds 15]

The posteriors are those of `benchmarks.posteriors`. A trial of warm-up is short; this shows whether
its order is that of the effective samples which a longer run has.
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest import mock

import traceclass as tc
from benchmarks.posteriors import ours
from benchmarks.posteriors.cell import measured, starts_of
from benchmarks.posteriors.cells import POSTERIORS
from benchmarks.posteriors.problems import Problem, Sources, problem_of
from traceclass.sampling.adaptation.chainwise import REFERENCES, ChainwiseAdaptation
from traceclass.sampling.adaptation.trajectory import SHARES


def made_to_use(reference: int) -> Any:
    """Warm-up that chooses this reference, by the length of trajectory that it finds for it."""

    class Made(ChainwiseAdaptation):
        def _costs(self) -> dict[tuple[int, int], float]:
            costs = super()._costs()
            if len(costs) == len(REFERENCES) + len(SHARES) - 1:  # all trials are over
                print(f"    gradients to forget: {_in_words(costs)}")
            return {way: cost for way, cost in costs.items() if way[0] == reference}

    return mock.patch("traceclass.sampling.adaptation.warmup.ChainwiseAdaptation", Made)


def _in_words(costs: dict[tuple[int, int], float]) -> str:
    each = (f"{REFERENCES[way]} {cost:.0f}" for (way, share), cost in costs.items() if share == 0)
    return ", ".join(each)


def measure(problem: Problem, reference: int, seconds: float) -> None:
    with made_to_use(reference):
        drawn = ours.run("hmc-adapt", problem, starts_of(problem.posterior), seconds)
    cell = measured(drawn)
    smallest, median = cell["ess"]["smallest"], cell["ess"]["median"]
    per_million = 1e6 / cell["evaluations"]
    print(
        f"  {REFERENCES[reference]}: {smallest / cell['seconds']:.3g} effective samples per second "
        f"(median {median / cell['seconds']:.3g}), {smallest * per_million:.3g} per million "
        f"gradients (median {median * per_million:.3g}), R-hat {cell['rhat']['worst']}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("posteriors", nargs="*", default=["mountain-car-10", "linear-gaussian"])
    parser.add_argument("--seconds", type=float, default=15.0, help="of sampling, for each")
    given = parser.parse_args()
    tc.use_cpu_devices()
    for name in given.posteriors:
        print(POSTERIORS[name])
        for reference in range(len(REFERENCES)):
            measure(problem_of(name, Sources()), reference, given.seconds)


if __name__ == "__main__":
    main()
