"""Boxplots of centred values under three priors (Fig. prior_compare, top)."""

from __future__ import annotations

from functools import partial
from typing import Any

import xarray as xr

from traceclass.experiments.car import PRIORS, SHORT
from traceclass.experiments.mountain_car.figures import draw_differences
from traceclass.experiments.prior_comparison.run import Results
from traceclass.experiments.prior_comparison.settings import DECIDED, PAPER
from traceclass.report.chains import chain_table, no_warnings, rhat
from traceclass.report.figures import ACTIONS
from traceclass.report.page import Figure, Section, Stored
from traceclass.report.tables import Column, Table, marked, written

warnings = no_warnings


def sections(stored: Stored) -> list[Section]:
    """Centred values, shares of draws, and the chains."""
    results = stored.results
    priors = results["priors"]
    rows = {marked(PRIORS[name], prior): stored.trace[name] for name, prior in priors.items()}
    drawn = Figure(
        "priors.png",
        "Value of each action's successor minus the value for the expert's action (eq. "
        "normalise_v), one row per prior and one column per state. Boxes below zero say that the "
        "posterior prefers the expert's action; whiskers hold 95 % of the draws. Rows have scales "
        "of their own; brackets: the chains did not converge.",
        partial(draw_differences, rows=rows, arrays=stored.arrays),
    )
    cells = [{"prior": name, **prior} for name, prior in priors.items()]
    chains = chain_table(cells, Column("prior", lambda cell: PRIORS[cell["prior"]]))
    return [
        Section("Centred values at five states", [main_table(results)], [drawn]),
        Section("How often each action is the best", [_share_table(results, stored.arrays)]),
        Section("The chains", [chains]),
    ]


def main_table(results: Results) -> Table:
    """Which states each posterior is decided about."""

    def decision(prior: dict[str, Any], state: dict[str, Any]) -> str:
        if not prior["is_converged"]:
            return "not converged"
        return "undecided" if state["decided"] is None else ACTIONS[state["decided"]]

    rows = []
    for name, prior in results["priors"].items():
        decisions = [decision(prior, state) for state in prior["states"]]
        rows.append((SHORT[name], f"{prior['num_coordinates']:,}", *decisions))
    rows.append(("paper", "-", *PAPER.split(", ")))
    states = (f"state {n + 1}" for n in range(len(rows[0]) - 2))
    return Table(("prior", "size", *states), rows)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    worst = max(results["priors"].values(), key=lambda p: p["rhat"] or float("inf"))["rhat"]
    return (
        f"decided: one action is the best in {DECIDED:.0%} of the draws; the paper's states differ "
        f"from ours; worst R-hat {rhat(worst)}"
    )


def _share_table(results: Results, arrays: xr.Dataset) -> Table:
    rows = []
    for name, prior in results["priors"].items():
        for index, state in enumerate(prior["states"]):
            x, w = arrays["test_states"].values[index]
            expert = ACTIONS[int(arrays["test_expert"].values[index])]
            numbers = (*state["share_best"], *state["difference"])
            texts = [marked(written(number, ".3f"), prior) for number in numbers]
            rows.append((PRIORS[name], f"({x:g}, {w:g})", expert, *texts))
    titles = [f"{number} {action}" for number in ("share", "mean") for action in ACTIONS]
    return Table(("prior", "state", "expert", *titles), rows)
