"""What all figures share: a plain look that reads in print and on a dark page."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traceclass.sampling.files import write_file

# Okabe & Ito's palette: told apart by readers with any colour vision, and in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6b6b6b"
ACTION_COLOURS = (BLUE, GREY, ORANGE)
# Of priors and clones.
ROW_COLOURS = {
    "tcnn": BLUE,
    "kl": GREEN,
    "bnn": ORANGE,
    "logistic": GREY,
    "network": "black",
    "forest": "#CC79A7",
}
ACTIONS = ("left", "coast", "right")

_STYLE = {
    "figure.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "font.size": 9,
}


def curve(axes: Axes, points: list[tuple[float, Any]], row: str, label: str) -> None:
    """Means with error bars in the colour of a row; points without a figure are left out."""
    known = [(x, f) for x, f in points if f is not None and f["mean"] is not None]
    axes.errorbar(
        [x for x, _ in known],
        [f["mean"] for _, f in known],
        yerr=[f["error"] or 0.0 for _, f in known],
        color=ROW_COLOURS[row],
        marker="o",
        markersize=3,
        linewidth=1,
        label=label,
    )


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of that size in inches, saved as PNG when the block ends."""
    with matplotlib.rc_context(_STYLE):  # pyright: ignore[reportArgumentType]
        canvas = Figure(figsize=(width, height), layout="constrained")
        yield canvas
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = io.BytesIO()
        canvas.savefig(drawn, dpi=150, format="png")
        write_file(path, [drawn.getbuffer()])
