"""Figures of `mountain-car`, from its stored files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from traceclass.experiments.car import PRIORS, SHORT
from traceclass.report.chains import KERNELS
from traceclass.report.figures import ACTION_COLOURS, ACTIONS, GREY, ROW_COLOURS, boxes, figure
from traceclass.report.page import Stored
from traceclass.report.tables import ALTERNATIVES, Row, marked


def name_of(row: Row) -> str:
    """A posterior by prior and kernel; another driver by its own name."""
    if "name" in row:
        return ALTERNATIVES[row["name"]]
    return f"{SHORT[row['prior']]}, {KERNELS[row['kernel']]}"


def draw_failures(path: Path, stored: Stored) -> None:
    """Failures with the noisy argmax of the posterior mean. Each diamond is one data set (a cross
    if its chains did not converge), dots are the means of single chains on it, circles the paper's
    one data set.
    """
    results = stored.results
    rows = results["rows"]
    with figure(path, 8.4, 0.5 * len(rows) + 1.0) as canvas:
        axes = canvas.subplots()
        rng = np.random.default_rng(0)
        for height, row in enumerate(rows):
            colour = ROW_COLOURS[row["prior"]]
            for cell in results["cells"]:
                if (cell["prior"], cell["kernel"]) != (row["prior"], row["kernel"]):
                    continue
                own, chains = height + rng.uniform(-0.22, 0.22), cell["chain_failures"]
                axes.scatter(chains, [own] * len(chains), s=5, color=colour, alpha=0.4)
                failures = cell["policies"]["noisy_argmax"]["failures"]
                mark = "D" if cell["is_converged"] else "x"
                axes.scatter(failures, own, s=40, color=colour, marker=mark)
            paper = row["paper_failures"]
            if paper is not None:
                axes.scatter(paper, height, s=90, facecolor="none", edgecolor="black")
        axes.set_yticks(range(len(rows)), [name_of(row) for row in rows])
        axes.set(xlabel=f"failures of {results['num_episodes']}")
        axes.set_xlim(-2, results["num_episodes"] + 2)
        axes.invert_yaxis()


def draw_steps(path: Path, stored: Stored) -> None:
    """Steps to the flag on the first data set (Fig. results, left). An episode that does not arrive
    in time is a failure, counted at the right. Brackets: the chains did not converge.
    """
    results = stored.results
    policies = [
        (marked(f"{name_of(cell)}, {words}", cell), cell["policies"][key]["steps"])
        for cell in results["cells"]
        if cell["data_set"] == 0
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
            failed, at = f"{sum(s < 0 for s in steps)} failed", ("axes fraction", "data")
            axes.annotate(failed, (1.01, height), xycoords=at, va="center")
        axes.set(xlabel="steps to the flag")
        axes.invert_yaxis()


def draw_calibration(path: Path, stored: Stored) -> None:
    """Drives that were not learned from: the share of actions taken against their predicted
    probability, one mark for each bin of each data set (last kernel); its area is the number of
    predictions. On the diagonal, probabilities mean what they say.
    """
    results = stored.results
    curves: dict[str, list[list[dict[str, Any]]]] = {}
    last = {row["prior"]: row["kernel"] for row in results["rows"]}
    for cell in results["cells"]:
        if last[cell["prior"]] == cell["kernel"] and cell["is_converged"]:
            curves.setdefault(cell["prior"], []).append(cell["calibration"])
    curves |= {r["name"]: r["calibration"] for r in results["alternatives"] if r["calibration"]}
    names = PRIORS | ALTERNATIVES
    with figure(path, 2.3 * len(curves), 2.7) as canvas:
        panels = canvas.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, (name, parts) in zip(panels, curves.items(), strict=True):
            axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.7)
            bins = [b for part in parts for b in part]
            sizes = [max(3.0, 0.4 * b["count"]) for b in bins]
            x, y = ([b[key] for b in bins] for key in ("predicted", "observed"))
            axes.scatter(x, y, s=sizes, color=ROW_COLOURS[name], alpha=0.6, linewidth=0)
            axes.set(title=names[name], xlabel="predicted")
        panels[0].set_ylabel("taken")


def draw_surfaces(path: Path, stored: Stored) -> None:
    """Minus the least number of steps to the flag, from value iteration, and posterior means and
    standard deviations on the first data set (last kernel). The data see only differences of v
    between the successors of a state.
    """
    arrays = stored.arrays
    names = [str(name) for name in arrays["prior"].values]
    with figure(path, 2.9 * (len(names) + 1), 5.2) as canvas:
        above, below = canvas.subplots(2, len(names) + 1, sharex=True, sharey=True)
        _surface(above[0], arrays, arrays["true_value"], "true value, steps", "viridis")
        below[0].set_axis_off()
        for column, name in enumerate(names, start=1):
            own = arrays.sel(prior=name)
            _surface(above[column], arrays, own["value_mean"], f"mean, {PRIORS[name]}", "viridis")
            _surface(below[column], arrays, own["value_sd"], "sd of v(x) - v(valley)", "magma")


def _surface(axes: Axes, arrays: xr.Dataset, values: xr.DataArray, title: str, cmap: str) -> None:
    axes.figure.colorbar(_mesh(axes, arrays, values, cmap=cmap), ax=axes)
    axes.set(title=title, xlabel="position", ylabel="velocity")


def draw_truth(path: Path, stored: Stored) -> None:
    """Posterior mean against the true value at states of held-out drives. Any increasing curve
    would be a perfect match.
    """
    truth, values = (stored.arrays[f"held_out_{name}"] for name in ("truth", "value"))
    with figure(path, 2.8 * len(values), 2.7) as canvas:
        panels = canvas.subplots(1, len(values), squeeze=False)[0]
        for axes, own in zip(panels, values, strict=True):
            name = str(own["prior"].values)
            axes.scatter(truth, own, s=8, color=ROW_COLOURS[name], alpha=0.6)
            axes.set(title=PRIORS[name], xlabel="minus steps to the flag")
        panels[0].set_ylabel("posterior mean of v")


def draw_policies(path: Path, stored: Stored) -> None:
    """The best action of the expert, of value iteration, and of the posterior means. Where the
    velocity is clipped, all actions lead to one state: left is shown.
    """
    arrays = stored.arrays
    panels = [("expert", arrays["expert_policy"]), ("value iteration", arrays["optimal_policy"])]
    panels += [(PRIORS[str(own["prior"].values)], own) for own in arrays["policy"]]
    with figure(path, 2.6 * len(panels), 2.7) as canvas:
        look: Any = {"cmap": ListedColormap(ACTION_COLOURS), "vmin": -0.5, "vmax": 2.5}
        row = canvas.subplots(1, len(panels), sharey=True)
        for axes, (title, actions) in zip(row, panels, strict=True):
            _mesh(axes, arrays, actions, alpha=0.6, **look)
            axes.set(title=title, xlabel="position")
        canvas.axes[0].set_ylabel("velocity")
        canvas.axes[0].legend(loc="lower left", frameon=True, framealpha=0.9, fontsize=6)


def draw_prior_differences(path: Path, stored: Stored) -> None:
    """Value of each action's successor minus the value for the expert's action, at five states,
    first data set.
    """
    # The last kernel of each prior.
    cells = {str(cell).split("-")[0]: str(cell) for cell in stored.trace.children}
    rows = {PRIORS[prior]: stored.trace[cell] for prior, cell in cells.items()}
    draw_differences(path, rows, stored.arrays)


def draw_differences(path: Path, rows: Mapping[str, Any], arrays: xr.Dataset) -> None:
    """Boxplots of centred values (eq. normalise_v): one row per tree, one column per state."""
    expert, states = arrays["test_expert"].values, arrays["test_states"].values
    with figure(path, 10.5, 2.3 * len(rows) + 0.3) as canvas:
        grid = canvas.subplots(len(rows), len(expert), sharey="row", squeeze=False)
        for row, (name, tree) in zip(grid, rows.items(), strict=True):
            draws = tree["posterior"].to_dataset()["value_difference"].values
            draws = draws.reshape(-1, *draws.shape[2:])
            for state, axes in enumerate(row):
                boxes(axes, draws[:, state].T, ACTION_COLOURS, names=ACTIONS)
            row[0].set_ylabel(name)
        for axes, (x, w), action in zip(grid[0], states, expert, strict=True):
            axes.set_title(f"({x:g}, {w:g}): expert {ACTIONS[action]}")


def draw_traces(path: Path, stored: Stored) -> None:
    """Log-likelihood of the draws on the first data set, one colour per chain."""
    cells = list(stored.trace.children)
    with figure(path, 8.4, 1.3 * len(cells) + 0.5) as canvas:
        panels = canvas.subplots(len(cells), 1, squeeze=False)[:, 0]
        for axes, cell in zip(panels, cells, strict=True):
            values = stored.trace[cell]["posterior"].to_dataset()["log_likelihood"].values
            # A trace of thousands of draws is a black bar: about 500 are drawn.
            every = max(1, values.shape[1] // 500)
            axes.plot(values[:, ::every].T, linewidth=0.5, alpha=0.8)
            axes.set_ylabel(cell)
        panels[-1].set_xlabel("draw")


def _mesh(axes: Axes, arrays: xr.Dataset, values: xr.DataArray, **look: Any) -> Any:
    """Values over position and velocity, and the demonstrations on them."""
    x, y, actions = arrays["position"], arrays["velocity"], arrays["demonstration_actions"].values
    mesh = axes.pcolormesh(x, y, values.T, rasterized=True, **look)
    for action, name in enumerate(ACTIONS):
        chosen = arrays["demonstration_states"].values[actions == action]
        if len(chosen):
            edge: Any = {"edgecolor": "white", "linewidth": 0.5, "label": f"expert went {name}"}
            axes.scatter(*chosen.T, s=9, color=ACTION_COLOURS[action], **edge)
    return mesh
