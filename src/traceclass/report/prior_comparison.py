"""Boxplots of centred values under three priors (Fig. prior_compare, top)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from traceclass.experiments.car import PRIORS, SHORT
from traceclass.experiments.prior_comparison import DECIDED, PAPER
from traceclass.report.differences import draw_differences
from traceclass.report.figures import ACTIONS
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import estimate, marked, number, with_error


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    return [
        Section(
            "Centred values at five states",
            [main_table(results)],
            [
                Figure(
                    _draw(directory / "priors.png", results, trace, arrays),
                    "Value of each action's successor minus that of the expert's action (eq. "
                    "normalise_v), a row a prior and a column a state. Boxes below zero say that "
                    "the posterior prefers the expert's action; whiskers hold 95 % of the draws. "
                    "Rows have scales of their own; brackets: the chains did not converge.",
                )
            ],
        ),
        Section("How often each action is the best", [_share_table(results, arrays)], []),
        Section("The chains", [_chain_table(results)], []),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Which states each posterior is decided about."""
    names = list(results["priors"])
    count = len(results["priors"][names[0]]["states"])
    rows = []
    for name in names:
        prior = results["priors"][name]
        decisions = [
            "undecided" if state["decided"] is None else ACTIONS[state["decided"]]
            for state in prior["states"]
        ]
        if not prior["is_converged"]:
            decisions = ["not converged"] * count
        rows.append((SHORT[name], f"{prior['num_coordinates']:,}", *decisions))
    rows.append(("paper", "-", *PAPER.split(", ")))
    return Table(("prior", "size", *(f"state {n + 1}" for n in range(count))), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    worst = max(results["priors"].values(), key=lambda p: p["rhat"] or float("inf"))["rhat"]
    return (
        f"decided: one action is the best in {DECIDED:.0%} of the draws; the paper's states are "
        f"others than ours; worst R-hat {number(worst, '.3f')}; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def _share_table(results: dict[str, Any], arrays: xr.Dataset) -> Table:
    rows = []
    for name, prior in results["priors"].items():
        for index, state in enumerate(prior["states"]):
            x, w = arrays["test_states"].values[index]
            rows.append(
                (
                    PRIORS[name],
                    f"({x:g}, {w:g})",
                    ACTIONS[int(arrays["test_expert"].values[index])],
                    *(marked(estimate(share, ".3f"), prior) for share in state["share_best"]),
                    *(marked(estimate(mean, ".3f"), prior) for mean in state["difference"]),
                )
            )
    shares = (f"share {action}" for action in ACTIONS)
    means = (f"mean {action}" for action in ACTIONS)
    return Table(("prior", "state", "expert", *shares, *means), rows)


def _chain_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            PRIORS[name],
            with_error(prior["acceptance_rate"], prior["acceptance_error"], ".3f"),
            number(prior["tuning"].get("step_size"), ".4g"),
            number(prior["tuning"].get("num_kicks"), ".0f"),
            f"{prior['draws']:,}",
            number(prior["ess"], ".0f"),
            number(prior["rhat"], ".3f"),
            f"{prior['seconds']:.0f}",
        )
        for name, prior in results["priors"].items()
    ]
    heads = ("prior", "acceptance", "step size", "kicks", "draws", "ESS", "R-hat", "seconds")
    return Table(heads, rows)


def _draw(path: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset) -> Path:
    rows = {marked(PRIORS[n], prior): trace[n] for n, prior in results["priors"].items()}
    return draw_differences(path, rows, arrays)
