"""Evidence and held-out scores over alpha, variance and width, beside what is inferred."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from traceclass.report.figures import BLUE, GREY, ORANGE, figure
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import marked, with_error

_PROBLEMS = {"mountain-car": "mountain car", "regression": "regression"}
_HYPERPARAMETERS = {
    "alpha": "alpha",
    "weight_variance": "weight variance",
    "bias_variance": "bias variance",
    "noise": "noise",
}


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace
    made = []
    for name, problem in results["problems"].items():
        figures = []
        if any(problem["sweeps"].values()):
            caption = (
                "Log-evidence (above) and mean log-score of a held-out observation (below), with "
                "two standard errors, against one setting with the others at "
                f"{_base(results)}. Grey: the model in which alpha and the variances are inferred. "
                "Open circles: the chains did not converge."
            )
            drawn = _draw_sweeps(directory / f"{name}-sweeps.png", problem)
            figures.append(Figure(drawn, caption))
        drawn = _draw_inferred(directory / f"{name}-inferred.png", name, problem, arrays)
        caption = "Posterior draws of the hyperparameters, and 5 to 95 % of their priors (grey)."
        figures.append(Figure(drawn, caption))
        tables = [_table_of(problem), _inferred_table(problem)]
        made.append(Section(_PROBLEMS[name].capitalize(), tables, figures))
    return made


def main_table(results: dict[str, Any]) -> Table:
    """One line a model, in brackets where its chains did not converge."""
    rows = []
    for name, problem in results["problems"].items():
        for words, *scores in _table_of(problem).rows:
            evidence, held_out, *_, rhat = scores
            rows.append((f"{_PROBLEMS[name]}, {words}", evidence, held_out, rhat))
    return Table(("model", "log-evidence", "held out", "R-hat"), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    best = []
    for name, problem in results["problems"].items():
        good = [cell for cell in _cells(problem) if cell[1]["is_converged"]]
        if good:
            first = max(good, key=lambda cell: cell[1]["log_evidence"])
            best.append(f"{_PROBLEMS[name]}: {first[0]} has the highest evidence")
        else:
            best.append(f"{_PROBLEMS[name]}: no model converged")
    everything = [cell for p in results["problems"].values() for _, cell in _cells(p)]
    converged = sum(cell["is_converged"] for cell in everything)
    return (
        f"{'; '.join(best)}; {converged} of {len(everything)} models with R-hat < 1.05; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """What is wrong with single runs."""
    found = []
    for name, problem in results["problems"].items():
        for words, cell in _cells(problem):
            found += [f"{_PROBLEMS[name]}, {words}: {text}" for text in cell["warnings"]]
    return found


def _base(results: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in results["base"].items())


def _cells(problem: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every model once, in words."""
    seen = set()
    for sweep, cells in problem["sweeps"].items():
        for cell in cells:
            if cell["cell"] not in seen:
                seen.add(cell["cell"])
                is_base = cell["cell"] == "base"
                yield ("base" if is_base else f"{sweep} {cell['value']:g}"), cell
    yield "inferred", problem["inferred"]


def _table_of(problem: dict[str, Any]) -> Table:
    rows = [
        (
            words,
            marked(with_error(cell["log_evidence"], cell["log_evidence_error"]), cell),
            marked(with_error(cell["held_out"], cell["held_out_error"], ".3f"), cell),
            marked(with_error(cell["elpd_loo"], cell["elpd_loo_error"]), cell),
            f"{cell['barrier']:.1f}",
            f"{cell['rhat']:.3f}",
        )
        for words, cell in _cells(problem)
    ]
    heads = ("model", "log-evidence", "held out", "LOO", "barrier", "R-hat")
    return Table(heads, rows)


def _inferred_table(problem: dict[str, Any]) -> Table:
    inferred = problem["inferred"]
    rows = [
        (
            _HYPERPARAMETERS[name],
            *(_interval(inferred[part][name]) for part in ("prior", "posterior")),
        )
        for name in inferred["posterior"]
    ]
    return Table(("inferred", "prior median (5 to 95 %)", "posterior median (5 to 95 %)"), rows)


def _interval(quantiles: list[float]) -> str:
    low, middle, high = quantiles
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def _draw_sweeps(path: Path, problem: dict[str, Any]) -> Path:
    sweeps = {name: cells for name, cells in problem["sweeps"].items() if cells}
    with figure(path, 3.2 * len(sweeps) + 0.6, 4.6) as canvas:
        axes = canvas.subplots(2, len(sweeps), squeeze=False, sharey="row")
        for column, (sweep, cells) in enumerate(sweeps.items()):
            for row, score in enumerate(("log_evidence", "held_out")):
                _draw_sweep(axes[row, column], cells, score, problem["inferred"])
            axes[1, column].set_xlabel(sweep)
            for row in (0, 1):
                _name_values(axes[row, column], [cell["value"] for cell in cells])
        axes[0, 0].set_ylabel("log-evidence")
        axes[1, 0].set_ylabel("held-out log-score")
    return path


def _name_values(axes: Axes, values: list[float]) -> None:
    """A logarithmic axis whose ticks are the values themselves."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values], rotation=45)
    axes.minorticks_off()


def _draw_sweep(axes: Axes, cells: list[dict[str, Any]], score: str, inferred: Any) -> None:
    known = [cell for cell in cells if cell[score] is not None]
    values = [cell["value"] for cell in known]
    levels = np.array([cell[score] for cell in known])
    errors = np.array([cell[f"{score}_error"] or 0.0 for cell in known])
    axes.errorbar(values, levels, yerr=2 * errors, color=BLUE, linewidth=1, capsize=2)
    for cell, level in zip(known, levels, strict=True):
        face = BLUE if cell["is_converged"] else "white"
        axes.plot(cell["value"], level, "o", ms=4, color=BLUE, markerfacecolor=face)
    if inferred[score] is not None:
        width = 2 * (inferred[f"{score}_error"] or 0.0)
        axes.axhspan(inferred[score] - width, inferred[score] + width, color="0.88", zorder=0)
        axes.axhline(inferred[score], color=GREY, linewidth=1, zorder=1)


def _draw_inferred(path: Path, name: str, problem: dict[str, Any], arrays: xr.Dataset) -> Path:
    inferred = problem["inferred"]
    names = list(inferred["posterior"])
    with figure(path, 2.4 * len(names) + 0.4, 2.2) as canvas:
        for axes, each in zip(np.atleast_1d(canvas.subplots(1, len(names))), names, strict=True):
            draws = arrays[f"{name} {each}"].values
            low, _, high = inferred["prior"][each]
            axes.axvspan(low, high, color="0.9", zorder=0)
            edges = np.geomspace(draws.min(), draws.max(), 30)
            axes.hist(draws, bins=edges.tolist(), density=True, color=BLUE, alpha=0.8)
            axes.axvline(inferred["posterior"][each][1], color=ORANGE, linewidth=1)
            axes.set(xlabel=_HYPERPARAMETERS[each], yticks=[])
            low, middle, high = inferred["posterior"][each]
            _name_values(axes, [float(f"{q:.2g}") for q in (low, middle, high)])
    return path
