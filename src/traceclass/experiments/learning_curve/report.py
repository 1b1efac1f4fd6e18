"""Curves over the number of demonstrations and the noise level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traceclass.experiments.car import PRIORS
from traceclass.experiments.learning_curve.run import Results
from traceclass.report.chains import rhat, warnings_of_cells
from traceclass.report.figures import curves, figure, legend_below
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Row, Table, errors_over, table
from traceclass.sampling.diagnostics import STRICT

_CLONES = {"logistic": "cloning: logistic", "network": "cloning: network"}
_NAMES = PRIORS | _CLONES
_PANELS = {
    "failures": "failures, plain argmax",
    "noisy_failures": "failures, noisy argmax",
    "log_score": "held-out log-score",
    "accuracy": "held-out accuracy",
}

warnings = warnings_of_cells(lambda cell: cell["cell"])


def sections(stored: Stored) -> list[Section]:
    """One section per curve."""
    results, made = stored.results, []
    if results["sizes"]:
        drawn = figures(stored, sizes=_draw_sizes)
        made.append(Section("How many demonstrations?", [main_table(results)], drawn))
    if results["noises"]:
        drawn, rows = figures(stored, noises=_draw_noises), _rows(results, "noises")
        title = "How much does the noise level matter?"
        made.append(Section(title, [table(rows, _columns(results, "noise"))], drawn))
    return made


def _rows(results: Results, curve: str) -> list[dict[str, Any]]:
    """The points of a curve, clones below those over the number of demonstrations."""
    rows = [{"kind": point["prior"], **point} for point in results[curve]]
    for method in _CLONES if curve == "sizes" else ():
        own = [{"size": row["size"], **row[method]} for row in results["clones"]]
        rows += [{"kind": method, **row} for row in own]
    return rows


def main_table(results: Results) -> Table:
    """One line per prior and size, clones below."""
    return table(_rows(results, "sizes"), _columns(results, "size", "demonstrations"))


def _columns(results: Results, at: str, title: str = "") -> tuple[Column, ...]:
    def noisy(row: Row) -> Any:
        is_known = row["kind"] in _CLONES or row["num_converged"]
        return row.get("noisy_failures") if is_known else "not converged"

    def worst(row: Row) -> str:
        if row["kind"] in _CLONES:
            return "-"
        left_out = results["num_data_sets"] - row["num_converged"]
        is_partial = left_out and row["num_converged"]
        return rhat(row["rhat"]) + (f" ({left_out} left out)" if is_partial else "")

    of = results["num_episodes"]
    return (
        Column("prior", lambda row: _NAMES[row["kind"]]),
        Column(title or at, at, "g"),
        Column(f"noisy failures of {of}", noisy, ".1f"),
        Column(f"failures of {of}", "failures", ".1f"),
        Column("log-score", "log_score", ".3f"),
        Column("accuracy", "accuracy", ".3f"),
        Column("calibration error", "calibration_error", ".3f"),
        Column("rank correlation", "rank_correlation_visited", ".2f"),
        Column("worst R-hat", worst),
    )


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    points = results["sizes"] + results["noises"]
    converged = sum(point["num_converged"] for point in points)
    return (
        f"{errors_over(results)}; {converged} of {len(points) * results['num_data_sets']} "
        f"posteriors have R-hat < {STRICT.largest}"
    )


def _draw_sizes(path: Path, stored: Stored) -> None:
    """Against the number of demonstrations, with standard errors over data sets. Smaller data sets
    are the beginnings of the larger ones. A log-score below the axis, or minus infinity, is not
    drawn; see the table.
    """
    rows = _rows(stored.results, "sizes")
    with figure(path, 10.5, 2.9) as canvas:
        drawn = curves(canvas, _PANELS, rows, x="size", words=_NAMES, xlabel="demonstrations")
        drawn["log_score"].set_ylim(-3, 0)
        legend_below(canvas)


def _draw_noises(path: Path, stored: Stored) -> None:
    """Against the noise level of the likelihood, which is also the noise of the noisy argmax."""
    rows = _rows(stored.results, "noises")
    with figure(path, 10.5, 2.6) as canvas:
        curves(canvas, _PANELS, rows, x="noise", words=_NAMES, xlabel="noise")
