"""What all figures share: a plain look that reads in print and on a dark page."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from traceclass.report.tables import Row, grouped
from traceclass.sampling.files import write_file

# Okabe & Ito's palette: told apart by readers with any colour vision, and in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6b6b6b"
ACTION_COLOURS = (BLUE, GREY, ORANGE)
# The colours of priors and clones.
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


def line(axes: Axes, points: Sequence[tuple[float, float, float]], **look: Any) -> None:
    """A line through points (x, y, error), with error bars."""
    x, y, errors = zip(*points, strict=True) if points else ((), (), ())
    axes.errorbar(x, y, yerr=errors, **{"marker": "o", "markersize": 3, "linewidth": 1} | look)


def curve(axes: Axes, points: list[tuple[float, Any]], row: str, label: str) -> None:
    """Means with error bars in the colour of a row; points without a value are left out."""
    known = [(x, f) for x, f in points if f is not None and f["mean"] is not None]
    means = [(x, f["mean"], f["error"] or 0.0) for x, f in known]
    line(axes, means, color=ROW_COLOURS[row], label=label)


def curves(
    canvas: Figure,
    panels: Mapping[str, str],
    rows: Iterable[Row],
    *,
    x: str,
    words: Row,
    **look: Any,
) -> dict[str, Axes]:
    """Panels over one logarithmic axis, by the names of the numbers in them; `panels` titles them.

    Rows of one `kind` are a line, with x under that name; `words` has the labels of the kinds.
    """
    made = dict(zip(panels, canvas.subplots(1, len(panels)), strict=True))
    for key, axes in made.items():
        for kind, own in grouped(rows, "kind").items():
            curve(axes, [(row[x], row.get(key)) for row in own], kind, words[kind])
        axes.set(xscale="log", title=panels[key], **look)
    return made


def boxes(
    axes: Axes, columns: Iterable[Any], colours: Sequence[str], *, alphas: Sequence[float] = (0.6,),
    names: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Boxes with whiskers that hold 95 % and a line at zero; colours and alphas are repeated."""
    drawn = axes.boxplot(
        list(columns),
        tick_labels=names,
        patch_artist=True,
        widths=0.6,
        showfliers=False,
        whis=(2.5, 97.5),
        medianprops={"color": "black"},
    )
    for number, box in enumerate(drawn["boxes"]):
        colour = colours[number % len(colours)]
        box.set(facecolor=colour, alpha=alphas[number % len(alphas)])
    axes.axhline(0, color="black", linewidth=0.6)


def grid_of(
    canvas: Figure, count: int, columns: int, *, xlabel: str, ylabel: str, **shared: Any
) -> list[Axes]:
    """Panels line by line; the lowest of each column and the first of each line have labels."""
    grid = canvas.subplots(-(-count // columns), columns, squeeze=False, **shared).ravel()
    for axes in grid[count:]:
        axes.set_axis_off()
    for axes in grid[:count][-columns:]:
        axes.set_xlabel(xlabel)
        axes.tick_params(labelbottom=True)
    for axes in grid[:count:columns]:
        axes.set_ylabel(ylabel)
    return list(grid[:count])


def legend_below(canvas: Figure) -> None:
    """One legend for all panels, below them."""
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def ticks_at(axes: Axes, values: Sequence[float], **look: Any) -> None:
    """Ticks at these values of a logarithmic axis, and at none between."""
    axes.set_xscale("log")
    axes.set_xticks(list(values), [f"{value:g}" for value in values], **look)
    axes.minorticks_off()


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
