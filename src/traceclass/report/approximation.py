"""The posterior mean of a function seen at many nodes (Fig. approx_u)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from traceclass.report.figures import BLUE, figure
from traceclass.report.groundwater_figures import draw_field
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import number


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace
    return [
        Section(
            "Truth and posterior mean",
            [],
            [
                Figure(
                    _draw_fields(directory / "fields.png", results, arrays),
                    "The true log-permeability, the posterior mean of the network that sees it "
                    f"at {_shown(results)['observations']} nodes with noise {results['noise']:g}, "
                    "and their difference, in a scale of its own.",
                )
            ],
        ),
        Section(
            "Error of the posterior mean",
            [main_table(results)],
            [
                Figure(
                    _draw_errors(directory / "errors.png", results),
                    "Root mean square error of the posterior mean on a fine grid, against the "
                    "number of observations and against the width of the network. Open circles: "
                    "the chains did not converge.",
                )
            ],
        ),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Errors in units of the function, a row a cell."""
    rows = [
        (
            f"{cell['observations']:,}",
            f"{cell['width']:,}",
            f"{cell['num_coordinates']:,}",
            f"{cell['error']:.4f}",
            f"{cell['error'] / results['true_sd']:.1%}",
            f"{cell['posterior_sd']:.4f}",
            f"{cell['coverage']:.0%}",
            number(cell["rhat"], ".3f"),
        )
        for cell in results["cells"]
    ]
    heads = ("observed", "width", "size", "error", "of sd", "posterior sd", "90% holds", "R-hat")
    return Table(heads, rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    shown = _shown(results)
    return (
        f"seen at {shown['observations']} nodes, the mean errs by "
        f"{shown['error'] / results['true_sd']:.1%} of the function's spread; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """What the chains warned of, with their names."""
    return [f"{c['cell']}: {warning}" for c in results["cells"] for warning in c["warnings"]]


def _shown(results: dict[str, Any]) -> dict[str, Any]:
    return next(cell for cell in results["cells"] if cell["cell"] == results["shown"])


def _draw_fields(path: Path, results: dict[str, Any], arrays: xr.Dataset) -> Path:
    true, mean = arrays["truth"].values, arrays[f"mean_{results['shown']}"].values
    limit = float(abs(true).max())
    with figure(path, 9.0, 2.8) as canvas:
        first, second, third = canvas.subplots(1, 3)
        draw_field(canvas, first, true, limit, "true log-permeability")
        draw_field(canvas, second, mean, limit, "posterior mean")
        draw_field(canvas, third, mean - true, float(abs(mean - true).max()), "difference")
    return path


def _draw_errors(path: Path, results: dict[str, Any]) -> Path:
    shown = _shown(results)
    with figure(path, 8.0, 3.0) as canvas:
        panels = canvas.subplots(1, 2, sharey=True)
        for axes, name, fixed in zip(
            panels, ("observations", "width"), ("width", "observations"), strict=True
        ):
            row = [cell for cell in results["cells"] if cell[fixed] == shown[fixed]]
            row.sort(key=lambda cell, name=name: cell[name])
            axes.loglog([c[name] for c in row], [c["error"] for c in row], color=BLUE)
            for cell in row:
                fill = BLUE if cell["is_converged"] else "white"
                axes.plot(cell[name], cell["error"], "o", color=BLUE, markerfacecolor=fill)
            axes.axhline(results["noise"], color="black", linewidth=0.8, linestyle=":")
            axes.set(xlabel=f"{name} ({fixed} {shown[fixed]})")
            axes.set_xticks([c[name] for c in row], [str(c[name]) for c in row])
            axes.minorticks_off()
        panels[0].set_ylabel("error (dotted: noise)")
    return path
