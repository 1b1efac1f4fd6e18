"""The posterior mean of a function seen at many nodes (Fig. approx_u)."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

from traceclass.experiments.approximation.run import Results
from traceclass.experiments.groundwater.figures import draw_field
from traceclass.report.chains import RHAT, chain_table, warnings_of_cells
from traceclass.report.figures import BLUE, figure, ticks_at
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Table, table

warnings = warnings_of_cells(lambda cell: cell["cell"])


def sections(stored: Stored) -> list[Section]:
    """Truth and posterior mean, and errors over observations and widths."""
    errors = figures(stored, errors=_draw_errors)
    chains = chain_table(stored.results["cells"], Column("cell", "cell"))
    return [
        Section("Truth and posterior mean", [], figures(stored, fields=_draw_fields)),
        Section("Error of the posterior mean", [main_table(stored.results)], errors),
        Section("The chains", [chains]),
    ]


def main_table(results: Results) -> Table:
    """Errors in units of the function, one row per table cell."""
    columns = (
        Column("observed", "observations", ","),
        Column("width", "width", ","),
        Column("size", "num_coordinates", ","),
        Column("error", "error", ".4f"),
        Column("error / sd", lambda cell: f"{cell['error'] / results['true_sd']:.1%}"),
        Column("posterior sd", "posterior_sd", ".4f"),
        Column("90% coverage", "coverage", ".0%"),
        RHAT,
    )
    return table(results["cells"], columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    shown = results["cells"][0]
    return (
        f"seen at {shown['observations']} nodes, the mean errs by "
        f"{shown['error'] / results['true_sd']:.1%} of the function's spread"
    )


def _draw_fields(path: Path, stored: Stored) -> None:
    """The true log-permeability, the posterior mean of the network that sees it at
    {cells[0][observations]} nodes with noise {noise:g}, and their difference, in a scale of its
    own.
    """
    true, mean = (stored.arrays[n].values for n in ("truth", f"mean_{stored.results['shown']}"))
    limit = float(abs(true).max())
    with figure(path, 9.0, 2.8) as canvas:
        first, second, third = canvas.subplots(1, 3)
        draw_field(first, true, limit, "true log-permeability")
        draw_field(second, mean, limit, "posterior mean")
        draw_field(third, mean - true, float(abs(mean - true).max()), "difference")


def _draw_errors(path: Path, stored: Stored) -> None:
    """Root mean square error of the posterior mean on a fine grid, against the number of
    observations and against the width of the network. Open circles: the chains did not converge.
    """
    results, shown = stored.results, stored.results["cells"][0]
    with figure(path, 8.0, 3.0) as canvas:
        panels = canvas.subplots(1, 2, sharey=True)
        names = ("observations", "width")
        for axes, name, fixed in zip(panels, names, reversed(names), strict=True):
            row = [cell for cell in results["cells"] if cell[fixed] == shown[fixed]]
            row.sort(key=itemgetter(name))
            axes.loglog([c[name] for c in row], [c["error"] for c in row], color=BLUE)
            for cell in row:
                fill = BLUE if cell["is_converged"] else "white"
                axes.plot(cell[name], cell["error"], "o", color=BLUE, markerfacecolor=fill)
            axes.axhline(results["noise"], color="black", linewidth=0.8, linestyle=":")
            axes.set(xlabel=f"{name} ({fixed} {shown[fixed]})")
            ticks_at(axes, [c[name] for c in row])
        panels[0].set_ylabel("error (dotted: noise)")
