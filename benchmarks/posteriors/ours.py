"""Our kernels, run by `tc.sample` as a user would."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from jaxtyping import Array

import traceclass as tc
from benchmarks.posteriors.chains import Drawn
from benchmarks.posteriors.problems import Problem
from traceclass.sampling.devices import default_group_size

KERNELS: dict[str, tc.Kernel] = {
    "hmc": tc.hmc,
    "hmc-adapt": tc.hmc.using(reference="adapt"),
    "hmc-swap": tc.cycle(tc.hmc, tc.node_swap),
    "tempered": tc.tempered(tc.hmc),
    "pcn": tc.pcn,
}
# The default of `tc.sample`, in draws: of pCN it takes ten steps for each.
WARMUP = 2_000
# Draws that tell how many fit into the time; the next look takes at most so many times more, since
# the rate of a short run is known badly. A run is long enough with this share of the time.
PILOT, GROWTH, ENOUGH = 20, 8, 0.95


def run(name: str, problem: Problem, starts: Array, seconds: float) -> Drawn:
    """Warm-up, then draws for so many seconds: one stored run, resumed to more and more draws."""
    kernel = KERNELS[name]
    settings: dict[str, Any] = {
        "num_chains": len(starts),
        "num_warmup": WARMUP * kernel.thin,
        "thin": kernel.thin,
        "initial_positions": starts,
        "record": {"predictions": problem.predictions},
        "store_positions": False,
        "progress": False,
    }
    with tempfile.TemporaryDirectory() as folder:
        count = PILOT
        while True:
            made = tc.sample(
                problem.posterior,
                kernel,
                num_samples=count,
                store=f"{folder}/run",
                resume=count > PILOT,
                **settings,
            )
            if made.sampling_seconds >= ENOUGH * seconds:
                return _drawn(made)
            wanted = int(count * seconds / made.sampling_seconds)
            count = max(count + 1, min(wanted, GROWTH * count))


def _drawn(made: tc.Run) -> Drawn:
    """What is measured of a run; read into memory, because its store goes away."""
    gradients = gradients_per_step(made)
    steps = made.num_chains * made.num_steps
    return Drawn(
        predictions=np.array(made.draws["predictions"]),
        log_likelihood=np.array(made.draws["log_likelihood"]),
        acceptance=made.acceptance_rate,
        # A step of pCN takes one value of the log-likelihood and no gradient.
        evaluations=steps * (gradients or 1.0),
        uses_gradients=gradients > 0,
        divergences=int(made.num_nonfinite.sum()),
        seconds=made.sampling_seconds,
        warmup_seconds=made.warmup_seconds,
        compile_seconds=made.compile_seconds,
        chains_together=default_group_size(made.num_chains),
    )


def gradients_per_step(made: tc.Run) -> float:
    """The kicks of all moves, of a tempered kernel at all temperatures; a mean over chains."""
    apart = made.chain_tunings or [{}] * len(made.tunings)
    kicks = [
        of_chains.get("num_kicks") or shared.get("num_kicks", 0)
        for of_chains, shared in zip(apart, made.tunings, strict=True)
    ]
    return float(sum(np.mean(each) for each in kicks))
