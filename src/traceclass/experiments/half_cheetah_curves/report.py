"""Curves of the half cheetah over demonstrations, irrelevant inputs and width."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from traceclass.experiments.cheetah import CLONES, KINDS, in_words
from traceclass.experiments.half_cheetah_curves.run import Results
from traceclass.report.chains import rhat
from traceclass.report.figures import curves, figure, legend_below, ticks_at
from traceclass.report.page import Figure, Section, Stored
from traceclass.report.tables import ALTERNATIVES, Column, Row, Table, grouped, table
from traceclass.sampling.diagnostics import USUAL

_NAMES = KINDS | ALTERNATIVES
_PANELS = {
    "mean": "accuracy, posterior mean",
    "samples": "accuracy, samples",
    "log_score": "log-score",
}
_TITLES = {
    "size": ("How many demonstrations?", "demonstrations"),
    "dim": ("What do irrelevant inputs do?", "inputs"),
    "width": ("Does it matter how wide the network is?", "nodes per layer"),
}
_NOTES = {
    "size": "Smaller data sets are the beginnings of the larger ones.",
    "dim": "Irrelevant inputs are normal noise, the same after every action. A gradient is one "
    "value and gradient of the log-likelihood, for a series without its reduction.",
}
_MARKED = f"* and hollow: R-hat of {USUAL.largest} or more on some of the data sets."
_CAPTION = (
    "With standard errors over data sets. A log-score below the axis, or minus infinity, is not "
    "drawn; see the table."
)


def sections(stored: Stored) -> list[Section]:
    """One section per curve."""
    made, by_curve = [], grouped(_rows(stored.results), "curve")
    for name, (title, label) in _TITLES.items():
        rows, notes = by_curve.get(name, []), [_NOTES[name]] if name in _NOTES else []
        if not any("prior" in row for row in rows):  # clones alone are no curve
            continue
        if any(_is_marked(row) for row in rows):
            notes.append(_MARKED)
        drawn = Figure(f"{name}.png", _CAPTION, partial(_draw, rows=rows, label=label))
        made.append(Section(title, [_table(rows, label)], [drawn], notes))
    return made


def _rows(results: Results) -> list[dict[str, Any]]:
    """Every point of every curve, and the clones."""
    rows = [
        {"kind": point["prior"].partition("-")[0], "name": in_words(point["prior"]), **point}
        for point in results["points"]
    ]
    for row in results["clones"]:
        clone = {"curve": "size", "value": row["size"]}
        rows += [{"kind": m, "name": ALTERNATIVES[m], **clone, **row[m]} for m in CLONES]
    return rows


def warnings(results: Results) -> list[str]:
    """Cells whose chains did not agree."""
    return [
        f"{cell['cell']}: the chains did not agree (R-hat {rhat(cell['rhat'])})."
        for cell in results["cells"]
        if not cell["is_converged"]
    ]


def main_table(results: Results) -> Table:
    """Every point of every curve, short enough for a terminal."""
    columns = (
        Column("curve", "curve"),
        Column("prior", "name"),
        Column("at", "value"),
        Column("mean %", "mean", ".1f", scale=100),
        Column("distance", "distance", ".1f"),
        Column("R-hat", _rhat),
    )
    return table(_rows(results), columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    converged = sum(point["num_converged"] for point in results["points"])
    return (
        f"± is the standard error over the data sets; {converged} of {len(results['cells'])} "
        f"posteriors have R-hat < {USUAL.largest}, others are marked *"
    )


def _is_marked(row: Row) -> bool:
    return "rhat" in row and (row["rhat"] is None or row["rhat"] >= USUAL.largest)


def _rhat(row: Row) -> str:
    return rhat(row["rhat"]) + ("*" if _is_marked(row) else "") if "rhat" in row else "-"


def _table(rows: list[Row], label: str) -> Table:
    last = Column("distance [m]", "distance", ".1f")
    if "gradient_seconds" in rows[0]:
        last = Column("ms per gradient", "gradient_seconds", ".2f", scale=1e3)
    columns = (
        Column("prior", "name"),
        Column(label, "value"),
        Column("coordinates", "num_coordinates", ","),
        Column("samples %", "samples", ".1f", scale=100),
        Column("mean %", "mean", ".1f", scale=100),
        Column("balanced %", "balanced", ".1f", scale=100),
        Column("log-score", "log_score", ".2f"),
        last,
        Column("worst R-hat", _rhat),
    )
    return table(rows, columns)


def _draw(path: Path, rows: list[Row], label: str) -> None:
    last, is_timed = {"distance": "distance [m]"}, "gradient_seconds" in rows[0]
    if is_timed:
        rows = [
            {**row, "seconds": {"mean": row["gradient_seconds"], "error": None}} for row in rows
        ]
        last = {"seconds": "seconds per gradient"}
    with figure(path, 10.5, 2.9) as canvas:
        drawn = curves(canvas, _PANELS | last, rows, x="value", words=_NAMES, xlabel=label)
        for key, axes in drawn.items():
            ticks_at(axes, sorted({row["value"] for row in rows}))
            for row in filter(_is_marked, rows):
                if row[key] is not None and row[key]["mean"] is not None:
                    axes.plot(row["value"], row[key]["mean"], "ow", markersize=2, zorder=3)
        drawn["log_score"].set_ylim(-4, 0)
        if is_timed:
            drawn["seconds"].set_yscale("log")
        legend_below(canvas)
