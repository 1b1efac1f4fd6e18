"""Curves over the number of demonstrations and the noise level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traceclass.experiments.car import PRIORS
from traceclass.experiments.learning_curve.run import Results
from traceclass.report.chains import chain_warnings, rhat, seconds_in_all
from traceclass.report.figures import curve, figure, legend_below
from traceclass.report.page import Section, figures
from traceclass.report.tables import Column, Row, Table, errors_over, table
from traceclass.run_directory.contents import Stored
from traceclass.sampling.diagnostics import STRICT

_CLONES = {"logistic": "cloning: logistic", "network": "cloning: network"}
_PANELS = (
    ("failures", "failures, plain argmax"),
    ("noisy_failures", "failures, noisy argmax"),
    ("log_score", "held-out log-score"),
    ("accuracy", "held-out accuracy"),
)


def sections(stored: Stored) -> list[Section]:
    """One section per curve."""
    results, made = stored.results, []
    if results["sizes"]:
        drawn = figures(stored, sizes=_draw_sizes)
        made.append(Section("How many demonstrations?", [main_table(results)], drawn))
    if results["noises"]:
        drawn = figures(stored, noises=_draw_noises)
        title, rows = "How much does the noise level matter?", results["noises"]
        made.append(Section(title, [table(rows, _columns(results, "noise"))], drawn))
    return made


def main_table(results: Results) -> Table:
    """One line per prior and size, clones below."""
    clones = [
        {"size": row["size"], "clone": words, **row[method]}
        for method, words in _CLONES.items()
        for row in results["clones"]
    ]
    return table([*results["sizes"], *clones], _columns(results, "size", "demonstrations"))


def _columns(results: Results, at: str, title: str = "") -> tuple[Column, ...]:
    def noisy(point: Row) -> Any:
        is_known = "clone" in point or point["num_converged"]
        return point.get("noisy_failures") if is_known else "not converged"

    def worst(point: Row) -> str:
        left_out = results["num_data_sets"] - point.get("num_converged", 0)
        if "clone" in point:
            return "-"
        is_partial = left_out and point["num_converged"]
        return rhat(point["rhat"]) + (f" ({left_out} left out)" if is_partial else "")

    of = results["num_episodes"]
    return (
        Column("prior", lambda point: point.get("clone") or PRIORS[point["prior"]]),
        Column(title or at, at, "g"),
        Column(f"noisy failures of {of}", noisy, ".1f"),
        Column(f"failures of {of}", "failures", ".1f"),
        Column("log-score", "log_score", ".3f"),
        Column("accuracy", "accuracy", ".3f"),
        Column("calibration error", "calibration_error", ".3f"),
        Column("rank correlation", "rank_correlation_visited", ".2f"),
        Column("worst R-hat", worst),
    )


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    points = results["sizes"] + results["noises"]
    converged = sum(point["num_converged"] for point in points)
    return (
        f"{errors_over(results)}; {converged} of {len(points) * results['num_data_sets']} "
        f"posteriors have R-hat < {STRICT.largest}; {seconds_in_all(results)}"
    )


def warnings(results: Results) -> list[str]:
    """What is wrong with single cells."""
    return chain_warnings(results["cells"], lambda cell: cell["cell"])


def _draw_sizes(path: Path, stored: Stored) -> None:
    """Against the number of demonstrations, with standard errors over data sets. Smaller data sets
    are the beginnings of the larger ones. A log-score below the axis, or minus infinity, is not
    drawn; see the table.
    """
    results = stored.results
    with figure(path, 10.5, 2.9) as canvas:
        for axes, (key, title) in zip(canvas.subplots(1, len(_PANELS)), _PANELS, strict=True):
            for prior in dict.fromkeys(point["prior"] for point in results["sizes"]):
                own = [p for p in results["sizes"] if p["prior"] == prior]
                curve(axes, [(p["size"], p[key]) for p in own], prior, PRIORS[prior])
            for method, words in _CLONES.items():
                own = [(p["size"], p[method].get(key)) for p in results["clones"]]
                curve(axes, own, method, words)
            axes.set(xscale="log", title=title, xlabel="demonstrations")
            if key == "log_score":
                axes.set_ylim(-3, 0)
        legend_below(canvas)


def _draw_noises(path: Path, stored: Stored) -> None:
    """Against the noise level of the likelihood, which is also the noise of the noisy argmax."""
    results = stored.results
    with figure(path, 10.5, 2.6) as canvas:
        for axes, (key, title) in zip(canvas.subplots(1, len(_PANELS)), _PANELS, strict=True):
            prior = results["noises"][0]["prior"]
            points = [(p["noise"], p[key]) for p in results["noises"]]
            curve(axes, points, prior, PRIORS[prior])
            axes.set(xscale="log", title=title, xlabel="noise")
