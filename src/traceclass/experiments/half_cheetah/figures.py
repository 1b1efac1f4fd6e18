"""Figures of `half-cheetah`, from its stored files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from traceclass.experiments.cheetah import KINDS, in_words
from traceclass.experiments.half_cheetah.pictures import policy_in_words
from traceclass.experiments.half_cheetah.settings import PAPER
from traceclass.report.figures import GREY, ROW_COLOURS, boxes, figure, grid_of
from traceclass.report.page import Stored
from traceclass.report.tables import ALTERNATIVES

# The purple of the palette: grey and black are the experts' and chance's here.
_CLONES = "#CC79A7"
# Half the way between the two marks of a row.
_APART = 0.14
_DASHES = ("-", "--", ":", "-.")
_REFERENCES: Mapping[str, Mapping[str, Any]] = {
    "continuous expert": {"color": "black", "linestyle": "--"},
    "discretised expert": {"color": "black", "linestyle": "-"},
    "random": {"color": GREY, "linestyle": ":"},
}


def draw_accuracy(path: Path, stored: Stored) -> None:
    """Right actions on the test states, by the draws of each posterior and by its mean, with two
    standard errors over data sets; beside them the paper's numbers, the share of the commonest
    action and chance.
    """
    results = stored.results
    rows = [*results["priors"].items(), *results["clones"].items()]
    with figure(path, 8.4, 0.36 * len(rows) + 1.2) as canvas:
        axes = canvas.subplots()
        _reference_lines(axes, results["references"])
        for height, (name, row) in enumerate(rows):
            colour = _CLONES if name in results["clones"] else ROW_COLOURS[_kind(name)]
            for score, offset, fill in (("samples", -_APART, "white"), ("mean", _APART, colour)):
                if score in row:
                    x, error = 100 * row[score]["mean"], 200 * (row[score]["error"] or 0.0)
                    y = height + (offset if "samples" in row else 0)
                    axes.errorbar(x, y, xerr=error, fmt="o", ms=6, color=colour, mfc=fill)
            for value, offset, fill in zip(
                PAPER.get(name, ()), (-_APART, _APART), ("white", "black"), strict=False
            ):
                axes.plot(value, height + offset, "D", ms=5, color="black", mfc=fill)
        axes.set_yticks(range(len(rows)), [row_name(name, results) for name, _ in rows])
        axes.set(xlabel="right actions, %", xlim=(0, None))
        axes.invert_yaxis()
        axes.grid(axis="x", color="0.92")
        axes.set_axisbelow(True)
        _accuracy_legend(axes)


def _reference_lines(axes: Axes, references: Mapping[str, Any]) -> None:
    commonest = references["commonest"]
    share, error = 100 * commonest["mean"], 200 * (commonest["error"] or 0.0)
    axes.axvspan(share - error, share + error, color="0.88", linewidth=0)
    axes.axvline(share, color=GREY, linewidth=1, label="commonest action")
    axes.axvline(100 * references["chance"], color=GREY, linewidth=1, linestyle=":", label="chance")


def _accuracy_legend(axes: Axes) -> None:
    for words, marker, fill in (
        ("draws (samples)", "o", "white"),
        ("by the mean", "o", GREY),
        ("paper, samples", "D", "white"),
        ("paper, mean", "D", "black"),
    ):
        edge = GREY if marker == "o" else "black"
        axes.plot([], [], marker, color=edge, mfc=fill, ms=5, label=words)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def are_centred(stored: Stored) -> bool:
    """Whether the draws are zero at the stored expert's actions, as those of one run are.

    Chains that were resumed by force after the expert or the data changed are of other states.
    """
    expert = stored.arrays["test_expert"].values
    draws = [_draws(stored.trace, name) for name in stored.results["priors"]]
    return not any(values[:, :, np.arange(len(expert)), expert].any() for values in draws)


def draw_values(path: Path, stored: Stored) -> None:
    """Value of each action's successor minus the value for the expert's action at the first test
    state of the first data set (eq. normalise_v; Fig. prior_compare, bottom). Boxes below zero say
    that the posterior prefers the expert's action, darker ones that it prefers another in most
    draws; whiskers hold 95 %. Panels have scales of their own; *: the chains did not agree.
    """
    names, expert = list(stored.results["priors"]), int(stored.arrays["test_expert"].values[0])
    # The draws of the first data set alone are stored.
    first = {cell["prior"]: cell for cell in reversed(stored.results["cells"])}
    columns = min(3, len(names))
    with figure(path, max(5.0, 3.4 * columns), 2.5 * -(-len(names) // columns)) as canvas:
        words = {"xlabel": "action", "ylabel": "value less the expert's"}
        for axes, name in zip(grid_of(canvas, len(names), columns, **words), names, strict=True):
            draws = _draws(stored.trace, name)[:, :, 0]
            by_action = draws.reshape(-1, draws.shape[-1]).T
            actions = [f"{a + 1}" + "\nexpert" * (a == expert) for a in range(len(by_action))]
            alphas = [0.85 if np.median(values) > 0 else 0.35 for values in by_action]
            boxes(axes, by_action, [ROW_COLOURS[_kind(name)]], alphas=alphas, names=actions)
            axes.set_title(in_words(name) + ("" if first[name]["is_converged"] else " *"))


def _draws(trace: xr.DataTree, name: str) -> np.ndarray:
    """(chain, draw, state, action)."""
    return trace[name]["posterior"].to_dataset()["value_difference"].values


def draw_distances(path: Path, stored: Stored) -> None:
    """Metres covered by step: the median over the episodes of all data sets, and a band that holds
    half of them (Fig. results, right); *: the chains did not agree.
    """
    results, arrays = stored.results, stored.arrays
    panels: dict[str, list[tuple[str, str, str]]] = {}
    for name in sorted(results["priors"], key=lambda p: int(p.partition("-")[2]), reverse=True):
        kind = KINDS[_kind(name)]
        label = row_name(name, results).removeprefix(f"{kind} ")
        drawn = (f"{name} mean", label, ROW_COLOURS[_kind(name)])
        panels.setdefault(f"{kind}, by the mean", []).append(drawn)
    panels["cloning"] = [
        (name, ALTERNATIVES[name].removeprefix("cloning, "), _CLONES) for name in results["clones"]
    ]
    columns = min(2, len(panels))
    with figure(path, 4.4 * columns, 2.6 * -(-len(panels) // columns) + 0.4) as canvas:
        look: Any = {"xlabel": "step", "ylabel": "metres", "sharex": True, "sharey": True}
        grid = grid_of(canvas, len(panels), columns, **look)
        for axes, (title, policies) in zip(grid, panels.items(), strict=True):
            _reference_curves(axes, arrays)
            _curves(axes, policies, arrays)
            axes.set_title(title)
        lines_of = [line for line in grid[0].get_lines() if line.get_gid() == "reference"]
        canvas.legend(handles=lines_of, loc="outside lower center", ncols=len(_REFERENCES))


def _reference_curves(axes: Axes, arrays: xr.Dataset) -> None:
    for name, look in _REFERENCES.items():
        if name in arrays["policy"].values:
            middle = np.median(arrays["distance"].sel(policy=name).values, axis=1)
            axes.plot(middle, linewidth=1.0, label=policy_in_words(name), gid="reference", **look)


def _curves(axes: Axes, policies: Sequence[tuple[str, str, str]], arrays: xr.Dataset) -> None:
    """Medians with bands that hold half of the episodes, the first solid."""
    drawn = []
    for (name, label, colour), dashes in zip(policies, _DASHES * len(policies), strict=False):
        episodes = arrays["distance"].sel(policy=name).values
        low, middle, high = np.quantile(episodes, (0.25, 0.5, 0.75), axis=1)
        steps = np.arange(len(middle))
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        drawn += axes.plot(middle, color=colour, linestyle=dashes, linewidth=1.8, label=label)
    axes.legend(handles=drawn, loc="upper left")


def row_name(name: str, results: Mapping[str, Any]) -> str:
    """In words; a prior with an asterisk if its chains did not converge on some data set."""
    if name not in results["priors"]:
        return ALTERNATIVES.get(name, name)
    is_good = results["priors"][name]["num_converged"] == results["num_data_sets"]
    return in_words(name) + ("" if is_good else " *")


def _kind(name: str) -> str:
    return name.partition("-")[0]
