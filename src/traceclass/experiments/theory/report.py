"""Page of `theory`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from traceclass.experiments.theory.run import Results
from traceclass.report.chains import no_warnings
from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Row, Table, table

warnings = no_warnings


def sections(stored: Stored) -> list[Section]:
    """One section for each statement of the theory."""
    moments, refined = main_table(stored.results), _refinement_table(stored.results)
    bounds, sums = figures(stored, bounds=_draw_bounds), figures(stored, sums=_draw_sums)
    refinement = figures(stored, refinement=_draw_refinement, tails=_draw_tails)
    wider = "Refinement: wider networks are the same function, more exactly"
    return [
        Section("Theorem 1: moments at any width", [moments], bounds),
        Section(wider, [refined], refinement),
        Section("What stays bounded, and what does not", [], sums),
    ]


def main_table(results: Results) -> Table:
    """Monte Carlo moments beside the bounds of Theorem 1."""
    columns = (
        Column("width", "width"),
        Column("E v^2", lambda row: _moment(row, "variance")),
        Column("bound", "variance_bound", ".3g"),
        Column("E dv^2/dx^2", lambda row: _moment(row, "lipschitz")),
        Column("bound", "lipschitz_bound", ".3g"),
    )
    return table(results["bounds"], columns)


def _moment(row: Row, name: str) -> str:
    return f"{row[name]:.3g} ± {row[f'{name}_error']:.1g}"


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    slopes = ", ".join(
        f"{name} {row['slope']:.2f} (theory {_exponent(row['theory'])})"
        for name, row in results["refinement"].items()
    )
    return f"refinement error falls with size to the power: {slopes}"


def _refinement_table(results: Results) -> Table:
    columns = (
        Column("prior", "name"),
        Column("fitted exponent", "slope", ".2f"),
        Column("of log-likelihoods", "log_likelihood_slope", ".2f"),
        Column("theory", "theory", _exponent),
    )
    rows = [{"name": name, **row} for name, row in results["refinement"].items()]
    return table(rows, columns)


def _exponent(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _draw_bounds(path: Path, stored: Stored) -> None:
    """Second moments of the output and of its differences, with two standard errors, below the
    bounds of the theorem, which hold at infinite width.
    """
    rows = stored.results["bounds"]
    widths = [row["width"] for row in rows]
    with figure(path, 8.4, 3.0) as canvas:
        labels = {"variance": "E v(x)^2", "lipschitz": "E (v(x) - v(y))^2 / |x - y|^2"}
        for axes, (name, label) in zip(canvas.subplots(1, 2), labels.items(), strict=True):
            mean, bound = ([row[f"{name}{end}"] for row in rows] for end in ("", "_bound"))
            errors = [2 * row[f"{name}_error"] for row in rows]
            look: Any = {"fmt": "o-", "color": BLUE, "capsize": 3, "label": "Monte Carlo"}
            axes.errorbar(widths, mean, yerr=errors, **look)
            axes.plot(widths, bound, "--", color=ORANGE, label="bound")
            axes.set(xscale="log", xlabel="width", ylabel=label, ylim=(0, None))
            axes.legend()


def _draw_refinement(path: Path, stored: Stored) -> None:
    """Left: mean largest distance over the box between a function and its refinement. Right: how
    much a log-likelihood changes (zeros observed at 16 points with noise 1). Dashed: the exponent
    of the theory.
    """
    refinement, sizes = stored.results["refinement"], stored.arrays["refinement_size"].values
    with figure(path, 9.4, 3.6) as canvas:
        shown = (
            ("errors", "slope", "E sup |v_fine - v|"),
            ("log_likelihood_changes", "log_likelihood_slope", "median |l(v_fine) - l(v)|"),
        )
        for axes, (values, slope, label) in zip(canvas.subplots(1, 2), shown, strict=True):
            for (name, row), colour in zip(refinement.items(), (BLUE, GREEN, ORANGE), strict=True):
                errors = np.array(row[values])
                axes.plot(sizes, errors, "o-", color=colour, label=f"{name}: {row[slope]:.2f}")
                if row["theory"] is not None:
                    line = errors[-1] * (sizes / sizes[-1]) ** row["theory"]
                    axes.plot(sizes, line, "--", color=colour, linewidth=1)
            _log_log(axes, "width or highest frequency", label)
            axes.legend(title="fitted exponent")


def _draw_tails(path: Path, stored: Stored) -> None:
    """The share of the prior's variance that a network of three hidden layers leaves out at a given
    width, from the Hurwitz zeta function.
    """
    shares, sizes = stored.results["tail_share"], stored.arrays["refinement_size"].values
    with figure(path, 6.4, 3.2) as canvas:
        axes = canvas.subplots()
        for (alpha, share), colour in zip(shares.items(), (ORANGE, BLUE, GREEN, GREY), strict=True):
            axes.plot(sizes, share, "o-", color=colour, label=f"alpha = {alpha}")
        axes.axhline(0.01, color="black", linewidth=0.6, linestyle=":")
        _log_log(axes, "width", "share of the variance left out")
        axes.legend()


def _draw_sums(path: Path, stored: Stored) -> None:
    """Left: the Cameron-Martin sum of Theorem 3, bounded for the trace-class prior and growing for
    equal variances. Right: the Feldman-Hajek sum of swapping two nodes, which grows linearly: the
    swap has no infinite-width limit.
    """
    norms, swap = stored.results["cameron_martin"], stored.results["swap"]
    with figure(path, 8.4, 3.0) as canvas:
        left, right = canvas.subplots(1, 2)
        left.plot(norms["widths"], norms["trace_class"], "o-", color=BLUE, label="trace-class")
        left.plot(norms["widths"], norms["iid"], "s-", color=ORANGE, label="equal variances")
        _log_log(left, "width", "mean Cameron-Martin sum")
        left.legend()
        right.plot(swap["widths"], swap["sum"], "o-", color=BLUE)
        _log_log(right, "width", "Feldman-Hajek sum of a swap")


def _log_log(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
