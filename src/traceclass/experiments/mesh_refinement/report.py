"""Acceptance and effective samples per step as the function and the grid are refined."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from traceclass.experiments.mesh_refinement.run import Results
from traceclass.report.chains import CHAINS, KERNELS, RHAT, chain_table
from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure, ticks_at
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Row, Table, pair, table
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
    results, drawn = stored.results, figures(stored, refinement=_draw)
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
        Section("Acceptance and effective samples per step", [main_table(results)], drawn),
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
    return f"acceptance from the coarsest to the finest function: {', '.join(words)}"


def warnings(results: Results) -> list[str]:
    """How many chains did not agree; the table brackets them."""
    unfinished = [cell for cell in results["cells"] if not cell["is_converged"]]
    if not unfinished:
        return []
    return [
        f"{len(unfinished)} of {len(results['cells'])} cells have R-hat above {STRICT.largest}: "
        "their effective samples, in brackets, are rough."
    ]


def _draw(path: Path, stored: Stored) -> None:
    """At the step sizes found with {first[modes]} modes per side on {first[cells]} grid cells per
    side: acceptance rates, and effective samples per step (median over the heads).
    """
    cells, first = stored.results["cells"], stored.results["first"]
    shown = {"acceptance_rate": "acceptance", "head_ess_per_step": "ESS per step"}
    with figure(path, 8.5, 5.2) as canvas:
        grid = canvas.subplots(2, 2, sharex="col", sharey="row")
        for axes, (name, refined) in zip(grid.ravel(), product(shown, _REFINED), strict=True):
            for kernel in dict.fromkeys(cell["kernel"] for cell in cells):
                row = row_of(cells, kernel, refined, first)
                sizes, values = zip(*((c[refined], c[name]) for c in row), strict=True)
                axes.plot(sizes, values, "o-", color=_COLOURS[kernel], label=KERNELS[kernel])
                ticks_at(axes, sizes)
        grid[0, 0].set(ylabel=shown["acceptance_rate"], ylim=(0, 1))
        grid[1, 0].set(ylabel=shown["head_ess_per_step"], xlabel=_REFINED["modes"], yscale="log")
        grid[1, 1].set_xlabel(_REFINED["cells"])
        grid[0, 1].legend(loc="upper right", ncols=2)
