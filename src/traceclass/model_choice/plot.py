"""A drawing of the scores of several models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

# The blue of Okabe & Ito's palette, as in the reports.
_COLOUR = "#0072B2"


def draw_scores(
    names: Sequence[str], scores: Mapping[str, np.ndarray], path: str | os.PathLike[str]
) -> None:
    """Draw one panel per score and one row per model, with two standard errors, to a PNG file.

    `scores` maps the title of each panel to values and standard errors, (models, 2).
    """
    # Imported when a figure is drawn: matplotlib takes longer to import than the whole library.
    from matplotlib.figure import Figure

    rows = np.arange(len(names))[::-1]
    size = (2.0 + 2.2 * len(scores), 0.9 + 0.28 * len(names))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
    for (title, known), panel in zip(scores.items(), panels, strict=True):
        bars = {"xerr": 2 * known[:, 1], "fmt": "o", "color": _COLOUR, "ms": 4, "capsize": 2}
        panel.errorbar(known[:, 0], rows, **bars)
        panel.set_title(title, fontsize=10)
        panel.grid(axis="x", color="0.9")
        panel.set_axisbelow(True)
    panels[0].set_yticks(rows, names)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
