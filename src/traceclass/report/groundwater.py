"""Groundwater: fields and heads of each prior, what held-out heads say, and how kernels compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from traceclass.experiments.aquifer import PRIORS, SHORT
from traceclass.experiments.groundwater import LEVEL, NUM_PREDICTIVE
from traceclass.experiments.learned import LARGEST_RHAT
from traceclass.report.groundwater_figures import draw_fields, draw_held_out, draw_predictive
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import KERNELS, estimate, marked, number, with_error

# The authors' run with the cosine series; of what its 386 steps per effective sample are is not
# said.
_AUTHORS = ("KL", "pCN, the authors' run", "0.231", "-", "121", "386 of some number", "-", "-", "-")


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace
    names = {prior: PRIORS[prior] for prior in results["priors"]}
    return [
        Section(
            "Log-permeability",
            [],
            [
                Figure(
                    draw_fields(directory / "fields.png", names, arrays),
                    "Left: the true log-permeability, and its head with the 33 wells. Then, a row "
                    "a prior: a prior draw, a posterior draw, the posterior's mean and its "
                    "standard deviation (Fig. GWF_results, where permeabilities are shown).",
                )
            ],
        ),
        Section(
            "Heads at the wells",
            [],
            [
                Figure(
                    draw_predictive(directory / "predictive.png", names, arrays),
                    f"Boxes of {NUM_PREDICTIVE} draws of the posterior predictive distribution at "
                    "each well, less the observed head (Fig. posterior_predictive). Whiskers hold "
                    "95 %. At the first and last three the head is given by the boundary.",
                )
            ],
        ),
        Section(
            "Heads that were held out",
            [main_table(results)],
            [
                Figure(
                    draw_held_out(directory / "held_out.png", names, arrays),
                    f"{LEVEL:.0%} intervals of the head at held-out points, less the true head, "
                    "points in the order of their distance to the nearest well.",
                )
            ],
        ),
        Section("The kernels", [_kernel_table(results), _chain_table(results)], []),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Scores and coverage on held-out heads, a row a prior."""
    rows = []
    for name, prior in results["priors"].items():
        cell = _cell_of(results, name, prior["kernel"])
        rows.append(
            (
                SHORT[name],
                f"{prior['num_coordinates']:,}",
                KERNELS[prior["kernel"]],
                marked(estimate(prior["log_score"], ".2f"), cell),
                marked(f"{prior['coverage']:.0%}", cell),
                marked(f"{prior['predictive_coverage']:.0%}", cell),
                marked(f"{prior['head_error']:.4f}", cell),
                number(cell["rhat"], ".3f"),
            )
        )
    held = f"{LEVEL:.0%} holds"
    heads = (
        "prior",
        "size",
        "kernel",
        "log-score",
        f"{held} head",
        f"{held} data",
        "error",
        "R-hat",
    )
    return Table(heads, rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    converged = sum(cell["is_converged"] for cell in results["cells"])
    return (
        f"held-out heads: mean log-density, shares of {LEVEL:.0%} intervals that hold the true "
        f"head and a new observation, error of the mean; {converged} of "
        f"{len(results['cells'])} runs converged (R-hat below {LARGEST_RHAT}); "
        f"{results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """What the chains warned of, with their names."""
    return [
        f"{SHORT[cell['prior']]}, {KERNELS[cell['kernel']]}: {warning}"
        for cell in results["cells"]
        for warning in cell["warnings"]
    ]


def _cell_of(results: dict[str, Any], prior: str, kernel: str) -> dict[str, Any]:
    cells = results["cells"]
    return next(c for c in cells if (c["prior"], c["kernel"]) == (prior, kernel))


def _kernel_table(results: dict[str, Any]) -> Table:
    """Speed, beside plain pCN on the same prior where it ran, and the authors' run."""
    rows = []
    for cell in results["cells"]:
        plain = [c for c in results["cells"] if (c["prior"], c["kernel"]) == (cell["prior"], "pcn")]
        ratios = [
            _ratio(cell, plain, name) for name in ("head_ess_per_second", "level_ess_per_second")
        ]
        rows.append(
            (
                SHORT[cell["prior"]],
                KERNELS[cell["kernel"]],
                with_error(cell["acceptance_rate"], cell["acceptance_error"], ".3f"),
                number(cell["tuning"].get("step_size"), ".4g"),
                f"{cell['steps_a_second']:,.0f}",
                marked(number(cell["steps_per_median_head_ess"], ",.0f"), cell),
                marked(number(cell["steps_per_level_ess"], ",.0f"), cell),
                *ratios,
            )
        )
    heads = (
        *("prior", "kernel", "acceptance", "step size", "steps/s", "steps per ESS, median head"),
        *("of the log-likelihood", "ESS/s of pCN, slowest head", "of the log-likelihood"),
    )
    return Table(heads, [*rows, _AUTHORS])


def _ratio(cell: dict[str, Any], plain: list[dict[str, Any]], name: str) -> str:
    if not plain or not plain[0][name] or cell[name] is None:
        return "-"
    return f"x {cell[name] / plain[0][name]:.3g}"


def _chain_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            PRIORS[cell["prior"]],
            KERNELS[cell["kernel"]],
            f"{cell['draws']:,}",
            f"{cell['steps']:,}",
            number(cell["ess"], ",.0f"),
            number(cell["rhat"], ".3f"),
            number(cell["ess_per_second"], ".1f"),
            estimate(cell["log_likelihood"], ".2f"),
            f"{cell['seconds']:.0f}",
        )
        for cell in results["cells"]
    ]
    heads = (
        "prior",
        "kernel",
        "draws",
        "steps",
        "ESS",
        "R-hat",
        "ESS/s",
        "log-likelihood",
        "seconds",
    )
    return Table(heads, rows)
