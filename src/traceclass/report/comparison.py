"""The scores of several models, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from traceclass.errors import UserValueError
from traceclass.report.figures import BLUE, figure

if TYPE_CHECKING:
    from traceclass.sampling.compare import Comparison

_TITLES = {
    "log_evidence": "log-evidence",
    "held_out": "held-out log-score\nan observation",
    "elpd_loo": "leave-one-out\nlog-score",
}


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """One panel a score that is known of any model, one row a model; two standard errors."""
    models = comparison.models
    known = [
        score
        for score in _TITLES
        if any(np.isfinite(getattr(model, score).value) for model in models)
    ]
    if not known:
        raise UserValueError("there is nothing to draw: no score of any model is known.")
    rows = np.arange(len(models))[::-1]
    with figure(path, 2.0 + 2.2 * len(known), 0.9 + 0.28 * len(models)) as canvas:
        axes = np.atleast_1d(canvas.subplots(1, len(known), sharey=True))
        for score, ax in zip(known, axes, strict=True):
            scores = np.array([getattr(model, score) for model in models])
            ax.errorbar(
                scores[:, 0], rows, xerr=2 * scores[:, 1], fmt="o", color=BLUE, ms=4, capsize=2
            )
            ax.set_title(_TITLES[score])
            ax.grid(axis="x", color="0.9")
            ax.set_axisbelow(True)
        axes[0].set_yticks(rows, [model.name for model in models])
