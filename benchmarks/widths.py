"""Acceptance rates against width on mountain car, at fixed steps: who survives refinement.

Each width starts from draws of the next narrower posterior, prolonged (the new weights are prior
draws, which is what they nearly are under the posterior too), runs in by HMC, and then
runs every kernel from there. Writes the table to standard output and a figure.

    python -m benchmarks.widths [--widths 10 30 100 300 1000] [--figure docs/widths.svg]
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import traceclass as tc
from benchmarks.posteriors.problems import mountain_car

NUM_CHAINS = 4
# Kernel, step size, and steps in units of what the width allows; the steps are those that suit
# width 10, and stay.
FIXED = {
    "pcn": (tc.pcn, 0.1, 100),
    "hmc": (tc.hmc.using(num_kicks=10), 0.035, 12),
    "pcnl": (tc.pcnl, 0.003, 50),
    "random_walk": (tc.random_walk, 0.1, 100),
    "mala": (tc.mala, 0.25, 50),
    "node_swap": (tc.cycle(tc.pcn, tc.node_swap), 0.1, 100),
    "block_node_swap": (tc.cycle(tc.pcn, tc.block_node_swap), 0.1, 100),
}
ROBUST = ("pcn", "hmc", "pcnl", "block_node_swap")
# Steps shrink with width as the time of one grows, down to the unit above.
UNITS = {10: 60, 30: 30, 100: 10, 300: 10}


def rate(
    posterior: tc.Posterior, name: str, starts: np.ndarray, units: int
) -> tuple[float, np.ndarray]:
    """The acceptance rate of a kernel's move, and where the chains end."""
    kernel, step_size, steps = FIXED[name]
    run = tc.sample(
        posterior,
        kernel,
        step_size=step_size,
        num_chains=len(starts),
        num_warmup=0,
        num_samples=1,
        thin=steps * units,
        initial_positions=starts,
        progress=False,
    )
    return run.move_acceptance_rates[name], run.positions[:, 0]


def prolonged(coarse: Any, posterior: tc.Posterior, positions: np.ndarray) -> np.ndarray:
    keys = jax.random.split(jax.random.key(7), len(positions))
    finer = posterior.prior
    return np.stack(
        [
            np.asarray(coarse.prolong(key, jnp.asarray(z), finer))
            for key, z in zip(keys, positions, strict=True)
        ]
    )


def scan(widths: list[int], names: list[str], draws: int) -> dict[int, dict[str, float]]:
    """Acceptance rates by width and kernel, printed row by row.

    `draws` of each of the first width's chains are starts: they differ more than the short chains
    at large widths ever will.
    """
    table: dict[int, dict[str, float]] = {}
    positions, coarse = None, None
    print("| width | coordinates | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 2) + "|")
    for width in widths:
        posterior = mountain_car(width).posterior
        units = UNITS.get(width, 1)
        if positions is None:
            run = tc.sample(
                posterior, tc.hmc, num_chains=NUM_CHAINS, num_samples=draws, thin=20, progress=False
            )
            positions = run.flat_positions()
        else:
            positions = prolonged(coarse, posterior, positions)
            _, positions = rate(posterior, "hmc", positions, 1)
        rates = {}
        for name in names:
            rates[name], _ = rate(posterior, name, positions, units)
        table[width], coarse = rates, posterior.prior
        cells = " | ".join(f"{100 * rates[name]:.3g} %" for name in names)
        print(f"| {width} | {posterior.prior.num_coordinates:,} | {cells} |", flush=True)
    return table


def draw(table: dict[int, dict[str, float]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    widths = list(table)
    for name in table[widths[0]]:
        rates = [max(table[width][name], 1e-6) for width in widths]
        style = "o-" if name in ROBUST else "s--"
        axes.loglog(widths, rates, style, label=name.replace("_", " "))
    axes.set(xlabel="width of the three hidden layers", ylabel="acceptance rate", ylim=(1e-4, 1.3))
    axes.set_title("Mountain car, fixed step sizes: robust kernels (solid), controls (dashed)")
    axes.legend(ncols=2, fontsize="small")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--widths", type=int, nargs="*", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--figure", default="docs/widths.svg")
    parser.add_argument("--kernels", nargs="*", default=list(FIXED), choices=list(FIXED))
    parser.add_argument("--draws", type=int, default=4, help="starts a chain at the first width")
    arguments = parser.parse_args()
    tc.use_cpu_devices()
    draw(scan(arguments.widths, arguments.kernels, arguments.draws), arguments.figure)


if __name__ == "__main__":
    main()
