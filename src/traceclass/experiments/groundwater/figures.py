"""Pictures of the aquifer: fields, heads at the wells, and heads that were held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from traceclass.experiments.aquifer import PRIORS
from traceclass.report.figures import BLUE, GREEN, ORANGE, boxes, figure
from traceclass.report.page import Stored

COLOURS = {"kl": GREEN, "tcnn": BLUE, "deep": ORANGE}
_COLUMNS = ("prior_draw", "posterior_draw", "mean", "sd")


def names_of(stored: Stored) -> dict[str, str]:
    """The priors of a run, in words."""
    return {prior: PRIORS[prior] for prior in stored.results["priors"]}


def draw_fields(path: Path, stored: Stored) -> None:
    """Left: the true log-permeability, and its head with the 33 wells. Then one row per prior: a
    prior draw, a posterior draw, the posterior's mean and its standard deviation (Fig. GWF_results,
    where permeabilities are shown).
    """
    arrays, names = stored.arrays, names_of(stored)
    true = arrays["true_log_permeability"].values
    shown = [true, *(arrays[f"{p}_{c}"].values for p in names for c in ("mean", "posterior_draw"))]
    limit = max(float(np.abs(field).max()) for field in shown)
    rows = max(2, len(names))
    with figure(path, 11.0, 2.25 * rows) as canvas:
        grid = canvas.subplots(rows, 5, squeeze=False)
        draw_field(grid[0, 0], true, limit, "true log-permeability")
        _image(grid[1, 0], arrays["true_head"].values, "true head and wells", cmap="cividis")
        edge: Any = {"facecolor": "white", "edgecolor": "black", "linewidth": 0.6}
        grid[1, 0].scatter(*arrays["wells"].values.T, s=9, clip_on=False, **edge)
        for row, (prior, name) in zip(grid, names.items(), strict=False):
            for axes, column in zip(row[1:], _COLUMNS, strict=True):
                field, title = arrays[f"{prior}_{column}"].values, column.replace("_", " ")
                draw_field(axes, field, None if column == "sd" else limit, title)
            row[1].set_ylabel(name)
        for axes in (*grid[2:, 0], *grid[len(names) :, 1:].ravel()):
            axes.set_axis_off()


def draw_field(axes: Axes, field: Any, limit: float | None, title: str) -> None:
    """A field (x, y), x to the right; around zero within +-limit, or from zero upwards."""
    scale = {"cmap": "viridis", "vmin": 0.0}
    if limit is not None:
        scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    _image(axes, field, title, **scale)


def _image(axes: Axes, field: Any, title: str, **look: Any) -> None:
    image = axes.imshow(field.T, origin="lower", extent=(0.0, 1.0, 0.0, 1.0), **look)
    axes.set(xticks=(), yticks=(), title=title)
    axes.figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)


def draw_predictive(path: Path, stored: Stored) -> None:
    """Predicted minus observed heads: one row per prior, one box per well."""
    arrays, names = stored.arrays, names_of(stored)
    observed = arrays["observed"].values
    with figure(path, 10.0, 1.9 * len(names) + 0.4) as canvas:
        grid = canvas.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (prior, name) in zip(grid, names.items(), strict=True):
            residuals = arrays[f"{prior}_predictive"].values - observed
            boxes(axes, residuals.T, [COLOURS[prior]])
            axes.set_ylabel(f"{name}\npredicted - observed")
        grid[-1].set_xlabel("well")
        grid[-1].set_xticks(range(1, observed.size + 1, 4), range(1, observed.size + 1, 4))


def draw_held_out(path: Path, stored: Stored) -> None:
    """Intervals at the held-out points, minus the true head, the nearest to a well first."""
    arrays, names = stored.arrays, names_of(stored)
    true, points, wells = (arrays[n].values for n in ("held_out_head", "held_out", "wells"))
    distance = np.linalg.norm(points[:, None] - wells, axis=2).min(axis=1)
    order = np.argsort(distance)
    with figure(path, 10.0, 1.7 * len(names) + 0.5) as canvas:
        grid = canvas.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (prior, name) in zip(grid, names.items(), strict=True):
            low, high, mean = (
                arrays[f"{prior}_held_out_{end}"].values - true for end in ("low", "high", "mean")
            )
            axes.vlines(range(len(order)), low[order], high[order], color=COLOURS[prior], lw=2.5)
            axes.plot(mean[order], "o", color="black", markersize=2.5)
            axes.axhline(0, color="black", linewidth=0.8)
            axes.set_ylabel(f"{name}\nhead - true")
        grid[-1].set_xlabel("held-out point")
