"""Curves of the half cheetah over demonstrations, irrelevant inputs and width."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from traceclass.experiments.cheetah import CLONES, KINDS, in_words
from traceclass.experiments.half_cheetah_curves.run import Results
from traceclass.report.chains import rhat, seconds_in_all
from traceclass.report.figures import curve, figure, legend_below, ticks_at
from traceclass.report.page import Figure, Section
from traceclass.report.tables import ALTERNATIVES, Column, Row, Table, table
from traceclass.run_directory.contents import Stored
from traceclass.sampling.diagnostics import USUAL

_PANELS = (
    ("mean", "accuracy, posterior mean"),
    ("samples", "accuracy, samples"),
    ("log_score", "log-score"),
    ("distance", "distance [m]"),
)
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
    made = []
    for name, (title, label) in _TITLES.items():
        points = _points(stored.results, name)
        if points:
            draw = partial(_draw, results=stored.results, name=name, label=label)
            notes = [_NOTES[name]] if name in _NOTES else []
            if any(_is_marked(point) for point in points):
                notes.append(_MARKED)
            drawn = Figure(f"{name}.png", _CAPTION, draw)
            made.append(Section(title, [_table(stored.results, name, label)], [drawn], notes))
    return made


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
    return table(_rows(results["points"]) + _clone_rows(results), columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    converged = sum(point["num_converged"] for point in results["points"])
    return (
        f"± is the standard error over the data sets; {converged} of {len(results['cells'])} "
        f"posteriors have R-hat < {USUAL.largest}, others are marked *; {seconds_in_all(results)}"
    )


def _points(results: Results, name: str) -> list[dict[str, Any]]:
    return [point for point in results["points"] if point["curve"] == name]


def _rows(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": in_words(point["prior"]), **point} for point in points]


def _clone_rows(results: Results) -> list[dict[str, Any]]:
    return [
        {"curve": "size", "name": ALTERNATIVES[method], "value": row["size"], **row[method]}
        for row in results["clones"]
        for method in CLONES
    ]


def _rhat(point: Row) -> str:
    if "rhat" not in point:
        return "-"
    return rhat(point["rhat"]) + ("*" if _is_marked(point) else "")


def _is_marked(point: Row) -> bool:
    return point["rhat"] is None or point["rhat"] >= USUAL.largest


def _table(results: Results, name: str, label: str) -> Table:
    last = Column("distance [m]", "distance", ".1f")
    if name == "dim":
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
    rows = _rows(_points(results, name)) + (_clone_rows(results) if name == "size" else [])
    return table(rows, columns)


def _draw(path: Path, results: Results, name: str, label: str) -> None:
    last = ("gradient_seconds", "seconds per gradient") if name == "dim" else _PANELS[-1]
    points = _points(results, name)
    ticks = {point["value"] for point in points}
    if name == "size":
        ticks |= {row["size"] for row in results["clones"]}
    with figure(path, 10.5, 2.9) as canvas:
        panels = (*_PANELS[:-1], last)
        for axes, (key, title) in zip(canvas.subplots(1, len(panels)), panels, strict=True):
            for kind in dict.fromkeys(point["prior"].partition("-")[0] for point in points):
                own = [p for p in points if p["prior"].startswith(f"{kind}-")]
                curve(axes, [(p["value"], _value(p, key)) for p in own], kind, KINDS[kind])
                for point in filter(_is_marked, own):
                    value = _value(point, key)
                    if value and value["mean"] is not None:
                        axes.plot(point["value"], value["mean"], "ow", markersize=2, zorder=3)
            if name == "size":
                for method in CLONES:
                    own = [(p["size"], p[method].get(key)) for p in results["clones"]]
                    curve(axes, own, method, ALTERNATIVES[method])
            axes.set(title=title, xlabel=label)
            ticks_at(axes, sorted(ticks))
            if key == "gradient_seconds":
                axes.set_yscale("log")
            if key == "log_score":
                axes.set_ylim(-4, 0)
        legend_below(canvas)


def _value(point: Row, key: str) -> Row | None:
    value = point.get(key)
    return {"mean": value, "error": None} if isinstance(value, float) else value
