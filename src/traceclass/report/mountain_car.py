"""Tables and page of the mountain-car experiment, from its stored files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from traceclass.experiments.car import SHORT
from traceclass.experiments.driving import binomial_error
from traceclass.report import mountain_car_figures as figures
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import (
    ALTERNATIVES,
    KERNELS,
    errors_over,
    estimate,
    marked,
    number,
    with_error,
)

_LEGEND = Table(
    ("in the tables", ""),
    (
        ("tcNN, Fourier, BNN", "trace-class network, Fourier series, standard network"),
        ("noisy", "argmax of the posterior mean plus noise, the paper's policy"),
        ("argmax, Thompson", "argmax of the posterior mean; of one draw an episode"),
        ("steps", "median of the argmax policy's arrivals"),
        ("good", "data sets with R-hat below 1.02; only these are averaged"),
        ("R-hat", "the largest of everything recorded, over all data sets"),
        ("cloning", "classifiers of states by scikit-learn, no dynamics"),
        ("optimal", "the policy of value iteration"),
        ("brackets", "the chains did not converge"),
    ),
)


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    return [
        Section(
            "Driving by the learned value function",
            [_LEGEND, main_table(results), _spread_table(results)],
            [
                Figure(
                    figures.draw_failures(directory / "failures.png", results),
                    "Failures with the noisy argmax of the posterior mean: a diamond a data set (a "
                    "cross if its chains did not converge), dots the means of single chains on it, "
                    "circles the paper's one data set.",
                ),
                Figure(
                    figures.draw_steps(directory / "steps.png", results),
                    "Steps to the flag on the first data set (Fig. results, left); an episode that "
                    "does not arrive in time is a failure, counted at the right. Brackets: the "
                    "chains did not converge.",
                ),
            ],
        ),
        Section(
            "Can its probabilities be trusted? (one set of held-out drives for all rows)",
            [_score_table(results)],
            [
                Figure(
                    figures.draw_calibration(directory / "calibration.png", results),
                    "Drives that were not learned from: the share of actions taken against their "
                    "predicted probability, a mark for each bin of each data set (last kernel); "
                    "its area is the number of predictions. On the diagonal probabilities mean "
                    "what they say.",
                )
            ],
        ),
        Section(
            "Is it the true value function?",
            [_truth_table(results)],
            [
                Figure(
                    figures.draw_surfaces(directory / "value.png", arrays),
                    "Minus the least number of steps to the flag, from value iteration, and "
                    "posterior means and standard deviations on the first data set (last kernel). "
                    "The data see only differences of v between the successors of a state.",
                ),
                Figure(
                    figures.draw_truth(directory / "truth.png", arrays),
                    "Posterior mean against the true value at states of held-out drives. Any "
                    "increasing curve would be a perfect match.",
                ),
                Figure(
                    figures.draw_policies(directory / "policy.png", arrays),
                    "The best action: of the expert, of value iteration, of the posterior means. "
                    "Where the velocity is clipped all actions lead to one state: left is shown.",
                ),
            ],
        ),
        Section(
            "The chains",
            [_chain_table(results)],
            [
                Figure(
                    figures.draw_prior_differences(directory / "differences.png", trace, arrays),
                    "Value of each action's successor minus that of the expert's action, at five "
                    "states, first data set.",
                ),
                Figure(
                    figures.draw_traces(directory / "log_likelihood.png", trace),
                    "Log-likelihood of the draws on the first data set, one colour a chain.",
                ),
            ],
        ),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Failures of each policy, beside the paper's; cells that did not converge say so."""
    rows = []
    for row in results["rows"]:
        if row["num_converged"]:
            figures = [
                estimate(row["failures"][policy])
                for policy in ("noisy_argmax", "argmax", "thompson")
            ]
            figures.append(estimate(row["median_steps"], ".0f"))
        else:
            figures = ["not converged", "-", "-", "-"]
        rows.append(
            (
                f"{SHORT[row['prior']]}, {KERNELS[row['kernel']]}",
                *figures,
                f"{row['num_converged']} of {results['num_data_sets']}",
                number(row["rhat"], ".3f"),
                "-" if row["paper_failures"] is None else str(row["paper_failures"]),
            )
        )
    for row in results["alternatives"]:
        failures, steps = estimate(row["failures"]), estimate(row["median_steps"], ".0f")
        rows.append((ALTERNATIVES[row["name"]], "-", failures, "-", steps, "-", "-", "-"))
    return Table(
        (
            f"failures of {results['num_episodes']}",
            "noisy",
            "argmax",
            "Thompson",
            "steps",
            "good",
            "R-hat",
            "paper",
        ),
        rows,
    )


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    cells = results["cells"]
    converged = sum(cell["is_converged"] for cell in cells)
    return (
        f"{errors_over(results)}; {converged} of {len(cells)} cells have R-hat < 1.02 on "
        f"everything recorded; {results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """What is wrong with single cells."""
    return [
        f"{cell['prior']}-{cell['kernel']}-{cell['data_set']}: {text}"
        for cell in results["cells"]
        for text in cell["warnings"]
    ]


def _spread_table(results: dict[str, Any]) -> Table:
    """Failures data set by data set, and how far single chains differ on one."""
    rows = []
    for cell in results["cells"]:
        chains = cell["chain_failures"]
        failures = cell["policies"]["noisy_argmax"]["failures"]
        text = f"{failures} ± {binomial_error(failures, results['num_episodes']):.1f}"
        rows.append(
            (
                f"{SHORT[cell['prior']]}, {KERNELS[cell['kernel']]}",
                str(cell["data_set"]),
                marked(text, cell),
                marked(
                    f"{np.mean(chains):.1f}, {np.std(chains, ddof=min(1, len(chains) - 1)):.1f}",
                    cell,
                ),
                marked(f"{min(chains)} to {max(chains)}", cell),
                marked(str(cell["policies"]["argmax"]["failures"]), cell),
                marked(str(cell["policies"]["thompson"]["failures"]), cell),
                number(cell["rhat"], ".3f"),
            )
        )
    heads = (
        "cell",
        "data set",
        "noisy argmax ± binomial error",
        "single chains: mean, sd",
        "their range",
        "argmax",
        "Thompson",
        "R-hat",
    )
    return Table(heads, rows)


def _score_table(results: dict[str, Any]) -> Table:
    heads = ("held-out drives", "log-score", "accuracy", "calibration error")
    rows = [
        (
            name,
            estimate(row["log_score"], ".3f"),
            estimate(row["accuracy"], ".3f"),
            estimate(row["calibration_error"], ".3f"),
        )
        for name, row in _named_rows(results)
    ]
    return Table(heads, rows)


def _truth_table(results: dict[str, Any]) -> Table:
    heads = ("rank correlation with the true value", "visited states", "whole box")
    rows = [
        (
            name,
            estimate(row["rank_correlation_visited"], ".3f"),
            estimate(row["rank_correlation_box"], ".3f"),
        )
        for name, row in _named_rows(results)
        if "rank_correlation_box" in row
    ]
    return Table(heads, rows)


def _named_rows(results: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    posteriors = [
        (f"{SHORT[row['prior']]}, {KERNELS[row['kernel']]}", row) for row in results["rows"]
    ]
    return posteriors + [(ALTERNATIVES[row["name"]], row) for row in results["alternatives"]]


def _chain_table(results: dict[str, Any]) -> Table:
    heads = (
        "cell",
        "data set",
        "acceptance",
        "step size",
        "kicks",
        "steps",
        "ESS",
        "R-hat",
        "ESS a second",
        "seconds",
        "error of the table",
    )
    rows = [
        (
            f"{SHORT[cell['prior']]}, {KERNELS[cell['kernel']]}",
            str(cell["data_set"]),
            with_error(cell["acceptance_rate"], cell["acceptance_error"], ".3f"),
            number(cell["tuning"].get("step_size"), ".3g"),
            format(cell["tuning"]["num_kicks"], ".0f") if "num_kicks" in cell["tuning"] else "-",
            f"{cell['steps']:,}",
            number(cell["ess"], ".0f"),
            number(cell["rhat"], ".3f"),
            number(cell["ess_per_second"], ".1f"),
            f"{cell['seconds']:.0f}",
            f"{cell['interpolation_error']:.0e}",
        )
        for cell in results["cells"]
    ]
    return Table(heads, rows)
