"""Curves over the number of demonstrations and the noise level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from traceclass.experiments.car import PRIORS
from traceclass.report.figures import curve, figure
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import errors_over, estimate, number

_CLONES = {"logistic": "cloning: logistic", "network": "cloning: network"}
_PANELS = (
    ("failures", "failures, plain argmax"),
    ("noisy_failures", "failures, noisy argmax"),
    ("log_score", "held-out log-score"),
    ("accuracy", "held-out accuracy"),
)


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace, arrays
    made = []
    if results["sizes"]:
        drawn = Figure(
            _draw_sizes(directory / "sizes.png", results),
            "Against the number of demonstrations, with standard errors over data sets. Smaller "
            "data sets are the beginnings of the larger ones. A log-score below the axis, or minus "
            "infinity, is not drawn; see the table.",
        )
        made.append(Section("How many demonstrations?", [main_table(results)], [drawn]))
    if results["noises"]:
        drawn = Figure(
            _draw_noises(directory / "noises.png", results),
            "Against the noise level of the likelihood, which is also that of the noisy argmax.",
        )
        made.append(Section("How much does the noise level matter?", [_noises(results)], [drawn]))
    return made


def main_table(results: dict[str, Any]) -> Table:
    """One line a prior and size, clones below."""
    rows = [
        (PRIORS[point["prior"]], str(point["size"]), *_figures(point, results))
        for point in results["sizes"]
    ]
    for method, words in _CLONES.items():
        for point in results["clones"]:
            own = point[method]
            rows.append(
                (
                    words,
                    str(point["size"]),
                    "-",
                    estimate(own["failures"]),
                    estimate(own["log_score"], ".3f"),
                    estimate(own["accuracy"], ".3f"),
                    estimate(own["calibration_error"], ".3f"),
                    "-",
                    "-",
                )
            )
    return Table(("prior", "demonstrations", *_heads(results)), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    points = results["sizes"] + results["noises"]
    converged = sum(point["num_converged"] for point in points)
    return (
        f"{errors_over(results)}; {converged} of "
        f"{len(points) * results['num_data_sets']} posteriors have R-hat < 1.02; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """What is wrong with single cells."""
    return [f"{cell['cell']}: {text}" for cell in results["cells"] for text in cell["warnings"]]


def _heads(results: dict[str, Any]) -> tuple[str, ...]:
    of = results["num_episodes"]
    return (
        f"noisy failures of {of}",
        f"failures of {of}",
        "log-score",
        "accuracy",
        "calibration error",
        "rank correlation",
        "worst R-hat",
    )


def _figures(point: dict[str, Any], results: dict[str, Any]) -> tuple[str, ...]:
    if not point["num_converged"]:
        return ("not converged", "-", "-", "-", "-", "-", number(point["rhat"], ".3f"))
    left_out = results["num_data_sets"] - point["num_converged"]
    rhat = number(point["rhat"], ".3f") + (f" ({left_out} left out)" if left_out else "")
    return (
        estimate(point["noisy_failures"]),
        estimate(point["failures"]),
        *(estimate(point[name], ".3f") for name in ("log_score", "accuracy", "calibration_error")),
        estimate(point["rank_correlation_visited"], ".2f"),
        rhat,
    )


def _noises(results: dict[str, Any]) -> Table:
    rows = [
        (PRIORS[point["prior"]], format(point["noise"], "g"), *_figures(point, results))
        for point in results["noises"]
    ]
    return Table(("prior", "noise", *_heads(results)), rows)


def _draw_sizes(path: Path, results: dict[str, Any]) -> Path:
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
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return path


def _draw_noises(path: Path, results: dict[str, Any]) -> Path:
    with figure(path, 10.5, 2.6) as canvas:
        for axes, (key, title) in zip(canvas.subplots(1, len(_PANELS)), _PANELS, strict=True):
            prior = results["noises"][0]["prior"]
            points = [(p["noise"], p[key]) for p in results["noises"]]
            curve(axes, points, prior, PRIORS[prior])
            axes.set(xscale="log", title=title, xlabel="noise")
    return path
