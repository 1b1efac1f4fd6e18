"""Acceptance and effective samples a step as the function and the grid are refined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from traceclass.experiments.learned import LARGEST_RHAT
from traceclass.experiments.mesh_refinement import level_of
from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import marked, number, with_error

_KERNELS = {"pcn": "pCN", "pcnl": "pCNL", "hmc": "HMC", "random_walk": "random walk"}
_COLOURS = {"pcn": BLUE, "pcnl": GREEN, "hmc": ORANGE, "random_walk": GREY}
_REFINED = {"modes": "modes a side", "cells": "cells a side"}


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw the figure into `directory` and say what it shows."""
    del trace, arrays
    first = results["first"]
    return [
        Section(
            "Acceptance and effective samples a step",
            [main_table(results)],
            [
                Figure(
                    _draw(directory / "refinement.png", results),
                    f"At the step sizes found with {first['modes']} modes a side on "
                    f"{first['cells']} cells a side: acceptance rates, and effective samples a "
                    "step (median over the heads).",
                )
            ],
        ),
        Section("Distance of the posterior means", [_distance_table(results)], []),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """A row a mesh and kernel."""
    rows = [
        (
            _KERNELS[cell["kernel"]],
            str(cell["modes"]),
            f"{cell['num_coordinates']:,}",
            str(cell["cells"]),
            with_error(cell["acceptance_rate"], cell["acceptance_error"], ".3f"),
            marked(number(cell["head_ess_per_step"], ".2g"), cell),
            marked(number(cell["level_ess_per_step"], ".2g"), cell),
            number(cell["rhat"], ".3f"),
        )
        for cell in results["cells"]
    ]
    heads = (
        "kernel",
        "modes",
        "terms",
        "cells",
        "acceptance",
        "ESS/step, head",
        "log-lik.",
        "R-hat",
    )
    return Table(heads, rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    words = []
    for kernel in dict.fromkeys(cell["kernel"] for cell in results["cells"]):
        row = level_of(results["cells"], kernel, "modes", results["first"])
        rates = [cell["acceptance_rate"] for cell in row]
        words.append(f"{_KERNELS[kernel]} {rates[0]:.2f} to {rates[-1]:.2f}")
    return (
        f"acceptance from the coarsest to the finest function: {', '.join(words)}; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """How many chains did not agree; the table brackets them."""
    unfinished = [cell for cell in results["cells"] if not cell["is_converged"]]
    if not unfinished:
        return []
    return [
        f"{len(unfinished)} of {len(results['cells'])} cells have R-hat above {LARGEST_RHAT}: "
        "their effective samples, in brackets, are rough."
    ]


def _distance_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            f"{row['size']} {_REFINED[row['refined']]}",
            f"{row['finest']}",
            with_error(row["distance"], row["error"], ".4f"),
            f"{row['posterior_sd']:.3f}",
        )
        for row in results["distances"]
    ]
    return Table(("mesh", "finest", "distance of the mean fields", "posterior sd"), rows)


def _draw(path: Path, results: dict[str, Any]) -> Path:
    kernels = list(dict.fromkeys(cell["kernel"] for cell in results["cells"]))
    figures = {"acceptance_rate": "acceptance", "head_ess_per_step": "ESS a step"}
    with figure(path, 8.5, 5.2) as canvas:
        grid = canvas.subplots(2, 2, sharex="col", sharey="row")
        for row, (name, label) in zip(grid, figures.items(), strict=True):
            for axes, refined in zip(row, _REFINED, strict=True):
                sizes = []
                for kernel in kernels:
                    cells = level_of(results["cells"], kernel, refined, results["first"])
                    sizes = [cell[refined] for cell in cells]
                    values = [cell[name] for cell in cells]
                    axes.plot(sizes, values, "o-", color=_COLOURS[kernel], label=_KERNELS[kernel])
                axes.set_xscale("log")
                axes.set_xticks(sizes, [str(size) for size in sizes])
                axes.minorticks_off()
            row[0].set_ylabel(label)
        grid[1, 0].set_yscale("log")
        for axes, label in zip(grid[1], _REFINED.values(), strict=True):
            axes.set_xlabel(label)
        grid[0, 0].set_ylim(0, 1)
        grid[0, 1].legend(loc="upper right", ncols=2)
    return path
