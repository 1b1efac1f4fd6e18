"""Evidence and held-out scores over alpha, variance and width, beside what is inferred."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from traceclass.experiments.model_choice.run import Results
from traceclass.report.chains import RHAT, chain_warnings, num_converged
from traceclass.report.figures import BLUE, GREY, ORANGE, figure, line, ticks_at
from traceclass.report.page import Figure, Section, Stored
from traceclass.report.tables import Column, Row, Table, pair, table
from traceclass.sampling.diagnostics import USUAL

_PROBLEMS = {"mountain-car": "mountain car", "regression": "regression"}
_COLUMNS = (
    Column("model", "model"),
    Column("log-evidence", pair("log_evidence", "log_evidence_error"), ".1f", marked=True),
    Column("held out", pair("held_out", "held_out_error"), ".3f", marked=True),
    Column("LOO", pair("elpd_loo", "elpd_loo_error"), ".1f", marked=True),
    Column("barrier", "barrier", ".1f"),
    RHAT,
)


def sections(stored: Stored) -> list[Section]:
    """One section per problem."""
    results, made = stored.results, []
    base = ", ".join(f"{name} {value:g}" for name, value in results["base"].items())
    for name, problem in results["problems"].items():
        inferred = Figure(
            f"{name}-inferred.png",
            "Posterior draws of the hyperparameters, and 5 to 95 % of their priors (grey).",
            partial(_draw_inferred, name=name, problem=problem, arrays=stored.arrays),
        )
        sweeps = Figure(
            f"{name}-sweeps.png",
            "Log-evidence (above) and mean log-score of a held-out observation (below), with two "
            f"standard errors, against one setting with the others at {base}. Grey: the model in "
            "which alpha and the variances are inferred. Open circles: the chains did not "
            "converge.",
            partial(_draw_sweeps, problem=problem),
        )
        figures = [sweeps, inferred] if any(problem["sweeps"].values()) else [inferred]
        tables = [table(_models(problem), _COLUMNS), _inferred_table(problem)]
        made.append(Section(_PROBLEMS[name].capitalize(), tables, figures))
    return made


def main_table(results: Results) -> Table:
    """One line per model, in brackets where its chains did not converge."""
    return table(_all_models(results), [_COLUMNS[n] for n in (0, 1, 2, -1)])


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    best = []
    for name, problem in results["problems"].items():
        good = {m["log_evidence"]: m["model"] for m in _models(problem) if m["is_converged"]}
        said = f"{good[max(good)]} has the highest evidence" if good else "no model converged"
        best.append(f"{_PROBLEMS[name]}: {said}")
    converged = num_converged(_all_models(results))
    return f"{'; '.join(best)}; {converged} models with R-hat < {USUAL.largest}"


def warnings(results: Results) -> list[str]:
    """What is wrong with single runs."""
    return chain_warnings(_all_models(results), lambda model: model["model"])


def _all_models(results: Results) -> list[Row]:
    """The models of every problem, named with it."""
    return [
        {**model, "model": f"{_PROBLEMS[name]}, {model['model']}"}
        for name, problem in results["problems"].items()
        for model in _models(problem)
    ]


def _models(problem: Row) -> list[dict[str, Any]]:
    """Every model once, with its name in words."""
    models: dict[str, dict[str, Any]] = {}
    for sweep, cells in problem["sweeps"].items():
        for cell in cells:
            words = "base" if cell["cell"] == "base" else f"{sweep} {cell['value']:g}"
            models.setdefault(cell["cell"], {"model": words, **cell})
    return [*models.values(), {"model": "inferred", **problem["inferred"]}]


def _inferred_table(problem: Row) -> Table:
    inferred = problem["inferred"]
    columns = (
        Column("inferred", lambda name: name.replace("_", " ")),
        Column("prior median (5 to 95 %)", inferred["prior"].get, _interval),
        Column("posterior median (5 to 95 %)", inferred["posterior"].get, _interval),
    )
    return table(inferred["posterior"], columns)


def _interval(quantiles: list[float]) -> str:
    return "{1:.3g} ({0:.3g} to {2:.3g})".format(*quantiles)


def _draw_sweeps(path: Path, problem: Row) -> None:
    sweeps = {name: cells for name, cells in problem["sweeps"].items() if cells}
    scores = {"log_evidence": "log-evidence", "held_out": "held-out log-score"}
    with figure(path, 3.2 * len(sweeps) + 0.6, 4.6) as canvas:
        grid = canvas.subplots(2, len(sweeps), squeeze=False, sharey="row")
        for row, (score, label) in zip(grid, scores.items(), strict=True):
            for axes, cells in zip(row, sweeps.values(), strict=True):
                _draw_sweep(axes, cells, score, problem["inferred"])
                ticks_at(axes, [cell["value"] for cell in cells], rotation=45)
            row[0].set_ylabel(label)
        for axes, sweep in zip(grid[1], sweeps, strict=True):
            axes.set_xlabel(sweep)


def _draw_sweep(axes: Axes, cells: list[dict[str, Any]], score: str, inferred: Any) -> None:
    known = [cell for cell in cells if cell[score] is not None]
    points = [(cell["value"], cell[score], 2 * (cell[f"{score}_error"] or 0.0)) for cell in known]
    line(axes, points, marker="", capsize=2, color=BLUE)
    for cell in known:
        face = BLUE if cell["is_converged"] else "white"
        axes.plot(cell["value"], cell[score], "o", ms=4, color=BLUE, markerfacecolor=face)
    if inferred[score] is not None:
        width = 2 * (inferred[f"{score}_error"] or 0.0)
        axes.axhspan(inferred[score] - width, inferred[score] + width, color="0.88", zorder=0)
        axes.axhline(inferred[score], color=GREY, linewidth=1, zorder=1)


def _draw_inferred(path: Path, name: str, problem: Row, arrays: xr.Dataset) -> None:
    inferred = problem["inferred"]
    names = list(inferred["posterior"])
    with figure(path, 2.4 * len(names) + 0.4, 2.2) as canvas:
        for axes, each in zip(np.atleast_1d(canvas.subplots(1, len(names))), names, strict=True):
            draws = arrays[f"{name} {each}"].values
            axes.axvspan(*inferred["prior"][each][::2], color="0.9", zorder=0)
            edges = np.geomspace(draws.min(), draws.max(), 30)
            axes.hist(draws, bins=edges.tolist(), density=True, color=BLUE, alpha=0.8)
            axes.axvline(inferred["posterior"][each][1], color=ORANGE, linewidth=1)
            axes.set(xlabel=each.replace("_", " "), yticks=[])
            quantiles = [float(f"{q:.2g}") for q in inferred["posterior"][each]]
            ticks_at(axes, quantiles, rotation=45)
