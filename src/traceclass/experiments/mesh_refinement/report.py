"""Acceptance and effective samples per step as the function and the grid are refined."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from traceclass.experiments.mesh_refinement.run import Results
from traceclass.report.chains import CHAINS, KERNELS, RHAT, chain_table, seconds_in_all
from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure, ticks_at
from traceclass.report.page import Figure, Section
from traceclass.report.tables import Column, Row, Table, pair, table
from traceclass.run_directory.contents import Stored
from traceclass.sampling.diagnostics import STRICT

_COLOURS = {"pcn": BLUE, "pcnl": GREEN, "hmc": ORANGE, "random_walk": GREY}
_REFINED = {"modes": "modes per side", "cells": "grid cells per side"}
_MESH = (
    Column("kernel", lambda cell: KERNELS[cell["kernel"]]),
    Column("modes", "modes"),
    Column("terms", "num_coordinates", ","),
    Column("grid", "cells"),
)


def row_of(cells: Sequence[Row], kernel: str, refined: str, first: Row) -> list[Row]:
    """The cells of a kernel in which only `refined` ("modes" or "cells") differs from the first."""
    other = "cells" if refined == "modes" else "modes"
    row = [c for c in cells if c["kernel"] == kernel and c[other] == first[other]]
    return sorted(row, key=lambda cell: cell[refined])


def sections(stored: Stored) -> list[Section]:
    """Acceptance and effective samples, distances of the means, and the chains."""
    results = stored.results
    first = results["first"]
    drawn = Figure(
        "refinement.png",
        f"At the step sizes found with {first['modes']} modes per side on {first['cells']} grid "
        "cells per side: acceptance rates, and effective samples per step (median over the heads).",
        partial(_draw, results=results),
    )
    distances = table(
        results["distances"],
        (
            Column("mesh", lambda row: f"{row['size']} {_REFINED[row['refined']]}"),
            Column("finest", "finest"),
            Column("distance of the mean fields", pair("distance", "error"), ".4f"),
            Column("posterior sd", "posterior_sd", ".3f"),
        ),
    )
    return [
        Section("Acceptance and effective samples per step", [main_table(results)], [drawn]),
        Section("Distance of the posterior means", [distances]),
        Section("The chains", [chain_table(results["cells"], *_MESH)]),
    ]


def main_table(results: Results) -> Table:
    """One row per kernel and mesh."""
    columns = (
        *_MESH,
        CHAINS[0],
        Column("ESS/step, head", "head_ess_per_step", ".2g", marked=True),
        Column("log-lik.", "log_likelihood_ess_per_step", ".2g", marked=True),
        RHAT,
    )
    return table(results["cells"], columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    words = []
    for kernel in dict.fromkeys(cell["kernel"] for cell in results["cells"]):
        row = row_of(results["cells"], kernel, "modes", results["first"])
        rates = [cell["acceptance_rate"] for cell in row]
        words.append(f"{KERNELS[kernel]} {rates[0]:.2f} to {rates[-1]:.2f}")
    return (
        f"acceptance from the coarsest to the finest function: {', '.join(words)}; "
        f"{seconds_in_all(results)}"
    )


def warnings(results: Results) -> list[str]:
    """How many chains did not agree; the table brackets them."""
    unfinished = [cell for cell in results["cells"] if not cell["is_converged"]]
    if not unfinished:
        return []
    return [
        f"{len(unfinished)} of {len(results['cells'])} cells have R-hat above {STRICT.largest}: "
        "their effective samples, in brackets, are rough."
    ]


def _draw(path: Path, results: Results) -> None:
    kernels = list(dict.fromkeys(cell["kernel"] for cell in results["cells"]))
    shown = {"acceptance_rate": "acceptance", "head_ess_per_step": "ESS per step"}
    with figure(path, 8.5, 5.2) as canvas:
        grid = canvas.subplots(2, 2, sharex="col", sharey="row")
        for row, (name, label) in zip(grid, shown.items(), strict=True):
            for axes, refined in zip(row, _REFINED, strict=True):
                for kernel in kernels:
                    cells = row_of(results["cells"], kernel, refined, results["first"])
                    sizes, values = zip(*((c[refined], c[name]) for c in cells), strict=True)
                    axes.plot(sizes, values, "o-", color=_COLOURS[kernel], label=KERNELS[kernel])
                    ticks_at(axes, sizes)
            row[0].set_ylabel(label)
        grid[1, 0].set_yscale("log")
        for axes, label in zip(grid[1], _REFINED.values(), strict=True):
            axes.set_xlabel(label)
        grid[0, 0].set_ylim(0, 1)
        grid[0, 1].legend(loc="upper right", ncols=2)
