"""Figures and tables of the mountain-car experiment, from its stored files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from traceclass.experiments.car import PRIORS, SHORT
from traceclass.experiments.driving import binomial_error
from traceclass.report.figures import (
    ACTION_COLOURS,
    ACTIONS,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    figure,
)
from traceclass.report.page import Figure, Section, Table
from traceclass.report.prior_comparison import difference_boxes
from traceclass.report.words import errors_over, estimate, marked, number, with_error

_KERNELS = {"pcn": "pCN", "pcnl": "pCNL", "hmc": "HMC"}
_ALTERNATIVES = {
    "logistic": "cloning, logistic",
    "network": "cloning, network",
    "expert": "expert",
    "optimal": "optimal",
}
_COLOURS = {"tcnn": BLUE, "kl": GREEN, "bnn": ORANGE, "logistic": GREY, "network": "black"}


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
                    _draw_failures(directory / "failures.png", results),
                    "Failures with the noisy argmax of the posterior mean: a diamond a data set (a "
                    "cross if its chains did not converge), dots the means of single chains on it, "
                    "circles the paper's one data set.",
                ),
                Figure(
                    _draw_steps(directory / "steps.png", results),
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
                    _draw_calibration(directory / "calibration.png", results),
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
                    _draw_surfaces(directory / "value.png", arrays),
                    "Minus the least number of steps to the flag, from value iteration, and "
                    "posterior means and standard deviations on the first data set (last kernel). "
                    "The data see only differences of v between the successors of a state.",
                ),
                Figure(
                    _draw_truth(directory / "truth.png", arrays),
                    "Posterior mean against the true value at states of held-out drives. Any "
                    "increasing curve would be a perfect match.",
                ),
                Figure(
                    _draw_policies(directory / "policy.png", arrays),
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
                    _draw_differences(directory / "differences.png", trace, arrays),
                    "Value of each action's successor minus that of the expert's action, at five "
                    "states, first data set.",
                ),
                Figure(
                    _draw_traces(directory / "log_likelihood.png", trace),
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
                f"{SHORT[row['prior']]}, {_KERNELS[row['kernel']]}",
                *figures,
                f"{row['num_converged']} of {results['num_data_sets']}",
                number(row["rhat"], ".3f"),
                "-" if row["paper_failures"] is None else str(row["paper_failures"]),
            )
        )
    for row in results["alternatives"]:
        failures, steps = estimate(row["failures"]), estimate(row["median_steps"], ".0f")
        rows.append((_ALTERNATIVES[row["name"]], "-", failures, "-", steps, "-", "-", "-"))
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
                f"{SHORT[cell['prior']]}, {_KERNELS[cell['kernel']]}",
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
        (f"{SHORT[row['prior']]}, {_KERNELS[row['kernel']]}", row) for row in results["rows"]
    ]
    return posteriors + [(_ALTERNATIVES[row["name"]], row) for row in results["alternatives"]]


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
            f"{SHORT[cell['prior']]}, {_KERNELS[cell['kernel']]}",
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


def _draw_failures(path: Path, results: dict[str, Any]) -> Path:
    rows = results["rows"]
    with figure(path, 8.4, 0.5 * len(rows) + 1.0) as canvas:
        axes = canvas.subplots()
        rng = np.random.default_rng(0)
        for height, row in enumerate(rows):
            colour = _COLOURS[row["prior"]]
            for cell in results["cells"]:
                if (cell["prior"], cell["kernel"]) != (row["prior"], row["kernel"]):
                    continue
                own = height + rng.uniform(-0.22, 0.22)
                chains = cell["chain_failures"]
                axes.scatter(chains, [own] * len(chains), s=5, color=colour, alpha=0.4)
                failures = cell["policies"]["noisy_argmax"]["failures"]
                axes.scatter(
                    failures, own, s=40, color=colour, marker="D" if cell["is_converged"] else "x"
                )
            if row["paper_failures"] is not None:
                axes.scatter(
                    row["paper_failures"], height, s=90, facecolor="none", edgecolor="black"
                )
        names = [f"{SHORT[row['prior']]}, {_KERNELS[row['kernel']]}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set(xlabel=f"failures of {results['num_episodes']}")
        axes.set_xlim(-2, results["num_episodes"] + 2)
        axes.invert_yaxis()
    return path


def _draw_steps(path: Path, results: dict[str, Any]) -> Path:
    policies = [
        (
            marked(f"{SHORT[c['prior']]}, {_KERNELS[c['kernel']]}, {words}", c),
            c["policies"][key]["steps"],
        )
        for c in results["cells"]
        if c["data_set"] == 0
        for key, words in (("noisy_argmax", "noisy"), ("argmax", "plain"))
    ]
    with figure(path, 8.4, 0.32 * len(policies) + 0.9) as canvas:
        axes = canvas.subplots()
        arrived = [[s for s in steps if s >= 0] for _, steps in policies]
        axes.boxplot(
            arrived,
            orientation="horizontal",
            tick_labels=[name for name, _ in policies],
            widths=0.6,
            flierprops={"markersize": 2},
            medianprops={"color": "black"},
        )
        for height, (_, steps) in enumerate(policies, start=1):
            failed = sum(s < 0 for s in steps)
            axes.annotate(
                f"{failed} failed", (1.01, height), xycoords=("axes fraction", "data"), va="center"
            )
        axes.set(xlabel="steps to the flag")
        axes.invert_yaxis()
    return path


def _draw_calibration(path: Path, results: dict[str, Any]) -> Path:
    """Bins of the data sets that converged, of the last kernel of each prior, and of the clones."""
    curves: dict[str, list[list[dict[str, Any]]]] = {}
    last = {row["prior"]: row["kernel"] for row in results["rows"]}
    for cell in results["cells"]:
        if last[cell["prior"]] == cell["kernel"] and cell["is_converged"]:
            curves.setdefault(cell["prior"], []).append(cell["calibration"])
    for row in results["alternatives"]:
        if row["calibration"]:
            curves[row["name"]] = row["calibration"]
    names = PRIORS | _ALTERNATIVES
    with figure(path, 2.3 * len(curves), 2.7) as canvas:
        panels = canvas.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for axes, (name, parts) in zip(panels, curves.items(), strict=True):
            axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.7)
            bins = [b for part in parts for b in part]
            axes.scatter(
                [b["predicted"] for b in bins],
                [b["observed"] for b in bins],
                s=[max(3.0, 0.4 * b["count"]) for b in bins],
                color=_COLOURS[name],
                alpha=0.6,
                linewidth=0,
            )
            axes.set(title=names[name], xlabel="predicted")
        panels[0].set_ylabel("taken")
    return path


def _draw_surfaces(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["prior"].values]
    with figure(path, 2.9 * (len(names) + 1), 5.2) as canvas:
        above, below = canvas.subplots(2, len(names) + 1, sharex=True, sharey=True)
        _surface(above[0], arrays, arrays["true_value"], "true value, steps", "viridis")
        below[0].set_axis_off()
        for column, name in enumerate(names, start=1):
            own = arrays.sel(prior=name)
            _surface(above[column], arrays, own["value_mean"], f"mean, {PRIORS[name]}", "viridis")
            _surface(below[column], arrays, own["value_sd"], "sd of v(x) - v(valley)", "magma")
    return path


def _surface(axes: Axes, arrays: xr.Dataset, values: xr.DataArray, title: str, cmap: str) -> None:
    mesh = axes.pcolormesh(
        arrays["position"], arrays["velocity"], values.T, cmap=cmap, rasterized=True
    )
    axes.figure.colorbar(mesh, ax=axes)
    _scatter_demonstrations(axes, arrays)
    axes.set(title=title, xlabel="position", ylabel="velocity")


def _draw_truth(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["prior"].values]
    with figure(path, 2.8 * len(names), 2.7) as canvas:
        for axes, name in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            axes.scatter(
                arrays["held_out_truth"],
                arrays["held_out_value"].sel(prior=name),
                s=8,
                color=_COLOURS[name],
                alpha=0.6,
            )
            axes.set(title=PRIORS[name], xlabel="minus steps to the flag")
        canvas.axes[0].set_ylabel("posterior mean of v")
    return path


def _draw_policies(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["prior"].values]
    panels = [("expert", arrays["expert_policy"]), ("value iteration", arrays["optimal_policy"])]
    panels += [(PRIORS[name], arrays["policy"].sel(prior=name)) for name in names]
    with figure(path, 2.6 * len(panels), 2.7) as canvas:
        for axes, (title, actions) in zip(
            canvas.subplots(1, len(panels), sharey=True), panels, strict=True
        ):
            axes.pcolormesh(
                arrays["position"],
                arrays["velocity"],
                actions.T,
                cmap=ListedColormap(ACTION_COLOURS),
                vmin=-0.5,
                vmax=2.5,
                alpha=0.6,
                rasterized=True,
            )
            _scatter_demonstrations(axes, arrays)
            axes.set(title=title, xlabel="position")
        canvas.axes[0].set_ylabel("velocity")
        canvas.axes[0].legend(loc="lower left", frameon=True, framealpha=0.9, fontsize=6)
    return path


def _draw_differences(path: Path, trace: xr.DataTree, arrays: xr.Dataset) -> Path:
    """A row a prior, of the last kernel, which is that of the surfaces."""
    cells = {str(cell).split("-")[0]: str(cell) for cell in trace.children}
    expert = arrays["test_expert"].values
    with figure(path, 10.5, 2.2 * len(cells) + 0.3) as canvas:
        grid = canvas.subplots(len(cells), len(expert), sharey="row", squeeze=False)
        for number_of_row, (row, (prior, cell)) in enumerate(zip(grid, cells.items(), strict=True)):
            draws = trace[cell]["posterior"].to_dataset()["value_difference"].values
            draws = draws.reshape(-1, *draws.shape[2:])
            for state, axes in enumerate(row):
                difference_boxes(axes, draws[:, state])
                x, w = arrays["test_states"].values[state]
                if number_of_row == 0:
                    axes.set_title(f"({x:g}, {w:g}): expert {ACTIONS[expert[state]]}")
            row[0].set_ylabel(PRIORS[prior])
    return path


def _draw_traces(path: Path, trace: xr.DataTree) -> Path:
    cells = list(trace.children)
    with figure(path, 8.4, 1.3 * len(cells) + 0.5) as canvas:
        panels = canvas.subplots(len(cells), 1, squeeze=False)[:, 0]
        for axes, cell in zip(panels, cells, strict=True):
            values = trace[cell]["posterior"].to_dataset()["log_likelihood"].values
            # A trace of thousands of draws is a black bar: every so many are drawn.
            every = max(1, values.shape[1] // 500)
            axes.plot(values[:, ::every].T, linewidth=0.5, alpha=0.8)
            axes.set_ylabel(cell)
        panels[-1].set_xlabel("draw")
    return path


def _scatter_demonstrations(axes: Axes, arrays: xr.Dataset) -> None:
    states = arrays["demonstration_states"].values
    actions = arrays["demonstration_actions"].values
    for action, name in enumerate(ACTIONS):
        chosen = actions == action
        if chosen.any():
            axes.scatter(
                *states[chosen].T,
                s=9,
                color=ACTION_COLOURS[action],
                edgecolor="white",
                linewidth=0.5,
                label=f"expert went {name}",
            )
