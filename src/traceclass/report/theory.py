"""Figures and tables of the theory experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure
from traceclass.report.page import Figure, Section, Table


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace
    sizes = arrays["refinement_size"].values
    return [
        Section(
            "Theorem 1: moments at any width",
            [main_table(results)],
            [
                Figure(
                    _draw_bounds(directory / "bounds.png", results["bounds"]),
                    "Second moments of the output and of its differences, with two standard "
                    "errors, below the bounds of the theorem, which hold at infinite width.",
                )
            ],
        ),
        Section(
            "Refinement: wider networks are the same function, more exactly",
            [_refinement_table(results)],
            [
                Figure(
                    _draw_refinement(directory / "refinement.png", results["refinement"], sizes),
                    "Left: mean largest distance over the box between a function and its "
                    "refinement. Right: how much a log-likelihood changes (zeros observed at "
                    "16 points with noise 1). Dashed: the exponent of the theory.",
                ),
                Figure(
                    _draw_tails(directory / "tails.png", results["tail_share"], sizes),
                    "Share of the prior's variance that a network of three hidden layers leaves "
                    "out at a width, from the Hurwitz zeta function.",
                ),
            ],
        ),
        Section(
            "What stays bounded, and what does not",
            [],
            [
                Figure(
                    _draw_sums(directory / "sums.png", results),
                    "Left: the Cameron-Martin sum of Theorem 3, bounded for the trace-class prior "
                    "and growing for equal variances. Right: the Feldman-Hajek sum of swapping two "
                    "nodes, which grows linearly: the swap has no infinite-width limit.",
                )
            ],
        ),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Monte Carlo moments beside the bounds of Theorem 1."""
    rows = [
        (
            f"{row['width']}",
            f"{row['variance']:.3g} +- {row['variance_error']:.1g}",
            f"{row['variance_bound']:.3g}",
            f"{row['lipschitz']:.3g} +- {row['lipschitz_error']:.1g}",
            f"{row['lipschitz_bound']:.3g}",
        )
        for row in results["bounds"]
    ]
    return Table(("width", "E v^2", "bound", "E dv^2/dx^2", "bound"), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    slopes = ", ".join(
        f"{name} {row['slope']:.2f} (theory {_exponent(row['theory'])})"
        for name, row in results["refinement"].items()
    )
    return f"refinement error falls with size to the power: {slopes}"


def _refinement_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            name,
            f"{row['slope']:.2f}",
            f"{row['log_likelihood_slope']:.2f}",
            _exponent(row["theory"]),
        )
        for name, row in results["refinement"].items()
    ]
    return Table(("prior", "fitted exponent", "of log-likelihoods", "theory"), rows)


def _exponent(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _draw_bounds(path: Path, rows: list[dict[str, Any]]) -> Path:
    widths = [row["width"] for row in rows]
    with figure(path, 8.4, 3.0) as canvas:
        for axes, name, label in zip(
            canvas.subplots(1, 2),
            ("variance", "lipschitz"),
            ("E v(x)^2", "E (v(x) - v(y))^2 / |x - y|^2"),
            strict=True,
        ):
            axes.errorbar(
                widths,
                [row[name] for row in rows],
                yerr=[2 * row[f"{name}_error"] for row in rows],
                fmt="o-",
                color=BLUE,
                capsize=3,
                label="Monte Carlo",
            )
            axes.plot(
                widths, [row[f"{name}_bound"] for row in rows], "--", color=ORANGE, label="bound"
            )
            axes.set(xscale="log", xlabel="width", ylabel=label, ylim=(0, None))
            axes.legend()
    return path


def _draw_refinement(path: Path, refinement: dict[str, Any], sizes: np.ndarray) -> Path:
    with figure(path, 9.4, 3.6) as canvas:
        for axes, values, slope, label in zip(
            canvas.subplots(1, 2),
            ("errors", "log_likelihood_changes"),
            ("slope", "log_likelihood_slope"),
            ("E sup |v_fine - v|", "median |l(v_fine) - l(v)|"),
            strict=True,
        ):
            for (name, row), colour in zip(refinement.items(), (BLUE, GREEN, ORANGE), strict=True):
                errors = np.array(row[values])
                axes.plot(sizes, errors, "o-", color=colour, label=f"{name}: {row[slope]:.2f}")
                if row["theory"] is not None:
                    line = errors[-1] * (sizes / sizes[-1]) ** row["theory"]
                    axes.plot(sizes, line, "--", color=colour, linewidth=1)
            _log_log(axes, "width or highest frequency", label)
            axes.legend(title="fitted exponent")
    return path


def _draw_tails(path: Path, shares: dict[str, list[float]], sizes: np.ndarray) -> Path:
    with figure(path, 6.4, 3.2) as canvas:
        axes = canvas.subplots()
        for (alpha, share), colour in zip(shares.items(), (ORANGE, BLUE, GREEN, GREY), strict=True):
            axes.plot(sizes, share, "o-", color=colour, label=f"alpha = {alpha}")
        axes.axhline(0.01, color="black", linewidth=0.6, linestyle=":")
        _log_log(axes, "width", "share of the variance left out")
        axes.legend()
    return path


def _draw_sums(path: Path, results: dict[str, Any]) -> Path:
    norms, swap = results["cameron_martin"], results["swap"]
    with figure(path, 8.4, 3.0) as canvas:
        left, right = canvas.subplots(1, 2)
        left.plot(norms["widths"], norms["trace_class"], "o-", color=BLUE, label="trace-class")
        left.plot(norms["widths"], norms["iid"], "s-", color=ORANGE, label="equal variances")
        _log_log(left, "width", "mean Cameron-Martin sum")
        left.legend()
        right.plot(swap["widths"], swap["sum"], "o-", color=BLUE)
        _log_log(right, "width", "Feldman-Hajek sum of a swap")
    return path


def _log_log(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
