"""The half cheetah over demonstrations, irrelevant inputs and width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.figure import Figure as Canvas

from traceclass.experiments.cheetah import KINDS, in_words
from traceclass.experiments.cheetah_learned import LARGEST_RHAT
from traceclass.report.figures import curve, figure
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import ALTERNATIVES, estimate, number

_PANELS = (
    ("mean", "accuracy, posterior mean"),
    ("samples", "accuracy, samples"),
    ("log_score", "log-score"),
    ("distance", "distance [m]"),
)
_TITLES = {
    "size": ("How many demonstrations?", "demonstrations"),
    "dim": ("What do irrelevant inputs do?", "inputs"),
    "width": ("Does it matter how wide the network is?", "nodes a layer"),
}
_CAPTION = (
    "With standard errors over data sets. A log-score below the axis, or minus infinity, is not "
    "drawn; see the table."
)


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace, arrays
    made = []
    for name, (title, label) in _TITLES.items():
        if _points(results, name):
            drawn = Figure(_draw(directory / f"{name}.png", results, name, label), _CAPTION)
            table = _table(results, name, label)
            made.append(Section(title, [table], [drawn], _notes(results, name)))
    return made


def warnings(results: dict[str, Any]) -> list[str]:
    """Cells whose chains did not agree."""
    return [
        f"{cell['cell']}: the chains did not agree (R-hat {number(cell['rhat'], '.3f')})."
        for cell in results["cells"]
        if not cell["is_converged"]
    ]


def _notes(results: dict[str, Any], name: str) -> list[str]:
    """What the table and the figure do not say by themselves."""
    notes = {
        "size": ["Smaller data sets are the beginnings of the larger ones."],
        "dim": [
            "Irrelevant inputs are normal noise, the same after every action. A gradient is one "
            "value and gradient of the log-likelihood, of a series without its reduction."
        ],
    }.get(name, [])
    if any(_is_marked(point) for point in _points(results, name)):
        notes.append(f"* and hollow: R-hat of {LARGEST_RHAT} or more on some of the data sets.")
    return notes


def main_table(results: dict[str, Any]) -> Table:
    """Every point of every curve, short enough for a terminal."""
    rows = [
        (
            point["curve"],
            in_words(point["prior"]),
            str(point["value"]),
            _percent(point["mean"]),
            estimate(point.get("distance")),
            _rhat(point),
        )
        for point in results["points"]
    ]
    for row in results["clones"]:
        rows += [
            (
                "size",
                ALTERNATIVES[method],
                str(row["size"]),
                _percent(row[method]["mean"]),
                estimate(row[method]["distance"]),
                "-",
            )
            for method in row
            if method != "size"
        ]
    return Table(("curve", "prior", "at", "mean %", "distance", "R-hat"), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    converged = sum(point["num_converged"] for point in results["points"])
    return (
        f"± is the standard error over the data sets; {converged} of {len(results['cells'])} "
        f"posteriors have R-hat < {LARGEST_RHAT}, others are marked *; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def _points(results: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [point for point in results["points"] if point["curve"] == name]


def _percent(figure: dict[str, Any] | None) -> str:
    """A share as per cent, with its error."""
    if figure is None or figure["mean"] is None:
        return "-"
    error = None if figure["error"] is None else 100 * figure["error"]
    return estimate({"mean": 100 * figure["mean"], "error": error})


def _rhat(point: dict[str, Any]) -> str:
    return number(point["rhat"], ".3f") + ("*" if _is_marked(point) else "")


def _is_marked(point: dict[str, Any]) -> bool:
    return point["rhat"] is None or point["rhat"] >= LARGEST_RHAT


def _table(results: dict[str, Any], name: str, label: str) -> Table:
    heads = ["prior", label, "coordinates", "samples %", "mean %", "balanced %", "log-score"]
    heads += ["ms a gradient" if name == "dim" else "distance [m]", "worst R-hat"]
    rows = [
        (
            in_words(point["prior"]),
            str(point["value"]),
            f"{point['num_coordinates']:,}",
            *(_percent(point[key]) for key in ("samples", "mean", "balanced")),
            estimate(point["log_score"], ".2f"),
            format(1e3 * point["gradient_seconds"], ".2f")
            if name == "dim"
            else estimate(point["distance"]),
            _rhat(point),
        )
        for point in _points(results, name)
    ]
    if name == "size":
        rows += [_clone_row(row, method) for row in results["clones"] for method in _methods(row)]
    return Table(heads, rows)


def _methods(row: dict[str, Any]) -> list[str]:
    return [key for key in row if key != "size"]


def _clone_row(row: dict[str, Any], method: str) -> tuple[str, ...]:
    own = row[method]
    return (
        ALTERNATIVES[method],
        str(row["size"]),
        "-",
        "-",
        _percent(own["mean"]),
        _percent(own["balanced"]),
        estimate(own["log_score"], ".2f"),
        estimate(own["distance"]),
        "-",
    )


def _draw(path: Path, results: dict[str, Any], name: str, label: str) -> Path:
    last = ("gradient_seconds", "seconds a gradient") if name == "dim" else _PANELS[-1]
    with figure(path, 10.5, 2.9) as canvas:
        panels = (*_PANELS[:-1], last)
        for axes, (key, title) in zip(canvas.subplots(1, len(panels)), panels, strict=True):
            for row, own in _by_kind(_points(results, name)).items():
                curve(axes, [(p["value"], _figure(p, key)) for p in own], row, KINDS[row])
                doubtful = [(p["value"], _figure(p, key)) for p in own if _is_marked(p)]
                known = [(x, f["mean"]) for x, f in doubtful if f and f["mean"] is not None]
                for x, y in known:
                    axes.plot(x, y, "ow", markersize=2, zorder=3)
            if name == "size":
                for method in _methods(results["clones"][0]):
                    own = [(p["size"], p[method].get(key)) for p in results["clones"]]
                    curve(axes, own, method, ALTERNATIVES[method])
            axes.set(xscale="log", title=title, xlabel=label)
            axes.set_xticks(*_ticks(results, name))
            axes.minorticks_off()
            if key == "gradient_seconds":
                axes.set_yscale("log")
            if key == "log_score":
                axes.set_ylim(-4, 0)
        _legend(canvas)
    return path


def _ticks(results: dict[str, Any], name: str) -> tuple[list[int], list[str]]:
    """At the values of the curve, and at none between."""
    values = {point["value"] for point in _points(results, name)}
    if name == "size":
        values |= {row["size"] for row in results["clones"]}
    return sorted(values), [str(value) for value in sorted(values)]


def _legend(canvas: Canvas) -> None:
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _figure(point: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = point.get(key)
    return {"mean": value, "error": None} if isinstance(value, float) else value


def _by_kind(points: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        kinds.setdefault(point["prior"].partition("-")[0], []).append(point)
    return kinds
