"""Figures of the mountain-car experiment, from its stored files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from traceclass.experiments.car import PRIORS, SHORT
from traceclass.report.differences import draw_differences
from traceclass.report.figures import ACTION_COLOURS, ACTIONS, GREY, ROW_COLOURS, figure
from traceclass.report.words import ALTERNATIVES, KERNELS, marked


def draw_failures(path: Path, results: dict[str, Any]) -> Path:
    rows = results["rows"]
    with figure(path, 8.4, 0.5 * len(rows) + 1.0) as canvas:
        axes = canvas.subplots()
        rng = np.random.default_rng(0)
        for height, row in enumerate(rows):
            colour = ROW_COLOURS[row["prior"]]
            for cell in results["cells"]:
                if (cell["prior"], cell["kernel"]) != (row["prior"], row["kernel"]):
                    continue
                own = height + rng.uniform(-0.22, 0.22)
                chains = cell["chain_failures"]
                axes.scatter(chains, [own] * len(chains), s=5, color=colour, alpha=0.4)
                failures = cell["policies"]["noisy_argmax"]["failures"]
                axes.scatter(
                    failures, own, s=40, color=colour, marker="D" if cell["is_converged"] else "x"
                )
            if row["paper_failures"] is not None:
                axes.scatter(
                    row["paper_failures"], height, s=90, facecolor="none", edgecolor="black"
                )
        names = [f"{SHORT[row['prior']]}, {KERNELS[row['kernel']]}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set(xlabel=f"failures of {results['num_episodes']}")
        axes.set_xlim(-2, results["num_episodes"] + 2)
        axes.invert_yaxis()
    return path


def draw_steps(path: Path, results: dict[str, Any]) -> Path:
    policies = [
        (
            marked(f"{SHORT[c['prior']]}, {KERNELS[c['kernel']]}, {words}", c),
            c["policies"][key]["steps"],
        )
        for c in results["cells"]
        if c["data_set"] == 0
        for key, words in (("noisy_argmax", "noisy"), ("argmax", "plain"))
    ]
    with figure(path, 8.4, 0.32 * len(policies) + 0.9) as canvas:
        axes = canvas.subplots()
        arrived = [[s for s in steps if s >= 0] for _, steps in policies]
        axes.boxplot(
            arrived,
            orientation="horizontal",
            tick_labels=[name for name, _ in policies],
            widths=0.6,
            flierprops={"markersize": 2},
            medianprops={"color": "black"},
        )
        for height, (_, steps) in enumerate(policies, start=1):
            failed = sum(s < 0 for s in steps)
            axes.annotate(
                f"{failed} failed", (1.01, height), xycoords=("axes fraction", "data"), va="center"
            )
        axes.set(xlabel="steps to the flag")
        axes.invert_yaxis()
    return path


def draw_calibration(path: Path, results: dict[str, Any]) -> Path:
    """Bins of the data sets that converged, of the last kernel of each prior, and of the clones."""
    curves: dict[str, list[list[dict[str, Any]]]] = {}
    last = {row["prior"]: row["kernel"] for row in results["rows"]}
    for cell in results["cells"]:
        if last[cell["prior"]] == cell["kernel"] and cell["is_converged"]:
            curves.setdefault(cell["prior"], []).append(cell["calibration"])
    for row in results["alternatives"]:
        if row["calibration"]:
            curves[row["name"]] = row["calibration"]
    names = PRIORS | ALTERNATIVES
    with figure(path, 2.3 * len(curves), 2.7) as canvas:
        panels = canvas.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, (name, parts) in zip(panels, curves.items(), strict=True):
            axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.7)
            bins = [b for part in parts for b in part]
            axes.scatter(
                [b["predicted"] for b in bins],
                [b["observed"] for b in bins],
                s=[max(3.0, 0.4 * b["count"]) for b in bins],
                color=ROW_COLOURS[name],
                alpha=0.6,
                linewidth=0,
            )
            axes.set(title=names[name], xlabel="predicted")
        panels[0].set_ylabel("taken")
    return path


def draw_surfaces(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["prior"].values]
    with figure(path, 2.9 * (len(names) + 1), 5.2) as canvas:
        above, below = canvas.subplots(2, len(names) + 1, sharex=True, sharey=True)
        _surface(above[0], arrays, arrays["true_value"], "true value, steps", "viridis")
        below[0].set_axis_off()
        for column, name in enumerate(names, start=1):
            own = arrays.sel(prior=name)
            _surface(above[column], arrays, own["value_mean"], f"mean, {PRIORS[name]}", "viridis")
            _surface(below[column], arrays, own["value_sd"], "sd of v(x) - v(valley)", "magma")
    return path


def _surface(axes: Axes, arrays: xr.Dataset, values: xr.DataArray, title: str, cmap: str) -> None:
    mesh = axes.pcolormesh(
        arrays["position"], arrays["velocity"], values.T, cmap=cmap, rasterized=True
    )
    axes.figure.colorbar(mesh, ax=axes)
    _scatter_demonstrations(axes, arrays)
    axes.set(title=title, xlabel="position", ylabel="velocity")


def draw_truth(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["prior"].values]
    with figure(path, 2.8 * len(names), 2.7) as canvas:
        for axes, name in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            axes.scatter(
                arrays["held_out_truth"],
                arrays["held_out_value"].sel(prior=name),
                s=8,
                color=ROW_COLOURS[name],
                alpha=0.6,
            )
            axes.set(title=PRIORS[name], xlabel="minus steps to the flag")
        canvas.axes[0].set_ylabel("posterior mean of v")
    return path


def draw_policies(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["prior"].values]
    panels = [("expert", arrays["expert_policy"]), ("value iteration", arrays["optimal_policy"])]
    panels += [(PRIORS[name], arrays["policy"].sel(prior=name)) for name in names]
    with figure(path, 2.6 * len(panels), 2.7) as canvas:
        for axes, (title, actions) in zip(
            canvas.subplots(1, len(panels), sharey=True), panels, strict=True
        ):
            axes.pcolormesh(
                arrays["position"],
                arrays["velocity"],
                actions.T,
                cmap=ListedColormap(ACTION_COLOURS),
                vmin=-0.5,
                vmax=2.5,
                alpha=0.6,
                rasterized=True,
            )
            _scatter_demonstrations(axes, arrays)
            axes.set(title=title, xlabel="position")
        canvas.axes[0].set_ylabel("velocity")
        canvas.axes[0].legend(loc="lower left", frameon=True, framealpha=0.9, fontsize=6)
    return path


def draw_prior_differences(path: Path, trace: xr.DataTree, arrays: xr.Dataset) -> Path:
    """A row a prior, of the last kernel."""
    cells = {str(cell).split("-")[0]: str(cell) for cell in trace.children}
    rows = {PRIORS[prior]: trace[cell] for prior, cell in cells.items()}
    return draw_differences(path, rows, arrays)


def draw_traces(path: Path, trace: xr.DataTree) -> Path:
    cells = list(trace.children)
    with figure(path, 8.4, 1.3 * len(cells) + 0.5) as canvas:
        panels = canvas.subplots(len(cells), 1, squeeze=False)[:, 0]
        for axes, cell in zip(panels, cells, strict=True):
            values = trace[cell]["posterior"].to_dataset()["log_likelihood"].values
            # A trace of thousands of draws is a black bar: every so many are drawn.
            every = max(1, values.shape[1] // 500)
            axes.plot(values[:, ::every].T, linewidth=0.5, alpha=0.8)
            axes.set_ylabel(cell)
        panels[-1].set_xlabel("draw")
    return path


def _scatter_demonstrations(axes: Axes, arrays: xr.Dataset) -> None:
    states = arrays["demonstration_states"].values
    actions = arrays["demonstration_actions"].values
    for action, name in enumerate(ACTIONS):
        chosen = actions == action
        if chosen.any():
            axes.scatter(
                *states[chosen].T,
                s=9,
                color=ACTION_COLOURS[action],
                edgecolor="white",
                linewidth=0.5,
                label=f"expert went {name}",
            )
