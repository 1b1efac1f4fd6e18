"""Boxplots of centred values (eq. normalise_v): a row a posterior, a column a state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from matplotlib.axes import Axes

from traceclass.report.figures import ACTION_COLOURS, ACTIONS, figure


def draw_differences(path: Path, rows: Mapping[str, Any], arrays: xr.Dataset) -> Path:
    """One row for each named tree of draws, with the test states of `arrays` above."""
    expert, states = arrays["test_expert"].values, arrays["test_states"].values
    with figure(path, 10.5, 2.3 * len(rows) + 0.3) as canvas:
        grid = canvas.subplots(len(rows), len(expert), sharey="row", squeeze=False)
        for row, (name, tree) in zip(grid, rows.items(), strict=True):
            draws = tree["posterior"].to_dataset()["value_difference"].values
            draws = draws.reshape(-1, *draws.shape[2:])
            for state, axes in enumerate(row):
                _boxes(axes, draws[:, state])
            row[0].set_ylabel(name)
        for axes, (x, w), action in zip(grid[0], states, expert, strict=True):
            axes.set_title(f"({x:g}, {w:g}): expert {ACTIONS[action]}")
    return path


def _boxes(axes: Axes, draws: Any) -> None:
    """A box an action, of draws (draws, actions)."""
    boxes = axes.boxplot(
        [draws[:, action] for action in range(len(ACTIONS))],
        tick_labels=ACTIONS,
        patch_artist=True,
        widths=0.6,
        showfliers=False,
        whis=(2.5, 97.5),
        medianprops={"color": "black"},
    )
    for box, colour in zip(boxes["boxes"], ACTION_COLOURS, strict=True):
        box.set(facecolor=colour, alpha=0.6)
    axes.axhline(0, color="black", linewidth=0.6)
