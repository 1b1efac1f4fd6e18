"""Figures and tables of the mountain-car experiment, from its stored files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from traceclass.report.figures import ACTION_COLOURS, BLUE, figure
from traceclass.report.page import Figure, Section, Table

_ACTIONS = ("left", "coast", "right")
_POLICIES = {
    "noisy_argmax": "noisy argmax of the posterior mean",
    "argmax": "plain argmax of the posterior mean",
    "thompson": "Thompson sampling (one draw an episode)",
    "expert": "the expert itself",
}


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    return [
        Section(
            "Driving by the learned value function",
            [main_table(results)],
            [
                Figure(
                    _draw_steps(directory / "steps.png", arrays),
                    "Steps to the flag in each episode; an episode that does not arrive in time "
                    "counts as a failure.",
                )
            ],
        ),
        Section(
            "The value function and how well it is known",
            [],
            [
                Figure(
                    _draw_surface(directory / "value.png", arrays),
                    "Posterior mean and standard deviation of v(x) - v(valley). Demonstrations "
                    "constrain differences of v only, so the value at the valley's bottom is "
                    "subtracted.",
                ),
                Figure(
                    _draw_policy(directory / "policy.png", arrays),
                    "The expert's action, the action of the posterior mean, and the share of "
                    "posterior draws that push right. At the upper and lower edge the velocity is "
                    "clipped: all actions lead to the same state there, and left is shown.",
                ),
                Figure(
                    _draw_differences(directory / "differences.png", trace, arrays),
                    "Value of each action's successor minus that of the expert's action, at five "
                    "states. A box below zero says that the posterior prefers the expert's action.",
                ),
            ],
        ),
        Section(
            "The chains",
            [_chain_table(results)],
            [
                Figure(
                    _draw_traces(directory / "log_likelihood.png", trace),
                    "Log-likelihood of every kept draw, one colour a chain.",
                )
            ],
        ),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Failures of each policy, beside the paper's."""
    rows = []
    for name, numbers in results["policies"].items():
        steps, paper = numbers["median_steps_of_arrivals"], numbers["paper_failures_of_100"]
        rows.append(
            (
                _POLICIES[name],
                f"{numbers['failures']} of {numbers['episodes']}",
                "-" if steps is None else f"{steps:.0f}",
                "-" if paper is None else f"{paper} of 100",
            )
        )
    return Table(("policy", "failures", "median steps", "paper's failures"), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    chains = results["posterior"]
    rhat = chains["rhat_value_differences"]
    return (
        f"value differences: R-hat {'not defined' if rhat is None else f'{rhat:.3f}'}, "
        f"ESS {chains['ess_value_differences'] or 0:.0f}; "
        f"acceptance {chains['acceptance_rate']:.3f}; "
        f"{chains['steps_per_second']:,.0f} steps/s; "
        f"{results['seconds']['total']:.0f} s in all"
    )


def _chain_table(results: dict[str, Any]) -> Table:
    chains, seconds = results["posterior"], results["seconds"]

    def number(value: float | None, digits: str) -> str:
        return "not defined" if value is None else format(value, digits)

    rows = [
        ("acceptance rate", number(chains["acceptance_rate"], ".3f")),
        ("step size", number(chains["step_size"], ".4g")),
        ("R-hat, worst value difference", number(chains["rhat_value_differences"], ".3f")),
        ("ESS, worst value difference", number(chains["ess_value_differences"], ".0f")),
        ("R-hat, log-likelihood", number(chains["rhat_log_likelihood"], ".3f")),
        ("ESS, log-likelihood", number(chains["ess_log_likelihood"], ".0f")),
        ("steps a second, all chains", number(chains["steps_per_second"], ",.0f")),
        ("compilation", f"{seconds['compile']:.1f} s"),
        ("warm-up", f"{seconds['warmup']:.1f} s"),
        ("sampling", f"{seconds['sampling']:.1f} s"),
    ]
    rows += [("warning", text) for text in chains["warnings"]]
    return Table(("diagnostic", "value"), rows)


def _draw_surface(path: Path, arrays: xr.Dataset) -> Path:
    with figure(path, 8.4, 3.4) as canvas:
        for axes, name, title, colours in zip(
            canvas.subplots(1, 2, sharey=True),
            ("value_mean", "value_sd"),
            ("posterior mean of v(x) - v(valley)", "posterior standard deviation"),
            ("viridis", "magma"),
            strict=True,
        ):
            mesh = axes.pcolormesh(
                arrays["position"],
                arrays["velocity"],
                arrays[name].T,
                cmap=colours,
                rasterized=True,
            )
            canvas.colorbar(mesh, ax=axes)
            _scatter_demonstrations(axes, arrays)
            _label_state_space(axes, title)
        canvas.axes[0].legend(loc="lower left", frameon=True, framealpha=0.9)
    return path


def _draw_policy(path: Path, arrays: xr.Dataset) -> Path:
    with figure(path, 10.5, 3.2) as canvas:
        left, middle, right = canvas.subplots(1, 3, sharey=True)
        colours = ListedColormap(ACTION_COLOURS)
        agreement = float((arrays["policy"] == arrays["expert_policy"]).mean())
        for axes, name, title in (
            (left, "expert_policy", "expert"),
            (middle, "policy", f"posterior mean (agrees on {agreement:.0%} of the box)"),
        ):
            axes.pcolormesh(
                arrays["position"],
                arrays["velocity"],
                arrays[name].T,
                cmap=colours,
                vmin=-0.5,
                vmax=2.5,
                alpha=0.6,
                rasterized=True,
            )
            _label_state_space(axes, title)
        share = arrays["choice_share"].isel(action=2).T
        mesh = right.pcolormesh(
            arrays["position"],
            arrays["velocity"],
            share,
            cmap="PuOr_r",
            vmin=0,
            vmax=1,
            rasterized=True,
        )
        canvas.colorbar(mesh, ax=right)
        _label_state_space(right, "share of draws that push right")
        for axes in (left, middle, right):
            _scatter_demonstrations(axes, arrays)
        left.legend(loc="lower left", frameon=True, framealpha=0.9)
    return path


def _draw_differences(path: Path, trace: xr.DataTree, arrays: xr.Dataset) -> Path:
    draws = trace["posterior"].to_dataset()["value_difference"].values
    draws = draws.reshape(-1, *draws.shape[2:])
    expert = arrays["test_expert"].values
    with figure(path, 10.5, 2.9) as canvas:
        for state, axes in enumerate(canvas.subplots(1, len(expert), sharey=True)):
            boxes = axes.boxplot(
                [draws[:, state, action] for action in range(len(_ACTIONS))],
                tick_labels=_ACTIONS,
                patch_artist=True,
                widths=0.6,
                flierprops={"markersize": 2, "alpha": 0.4},
                medianprops={"color": "black"},
            )
            for box, colour in zip(boxes["boxes"], ACTION_COLOURS, strict=True):
                box.set(facecolor=colour, alpha=0.6)
            axes.axhline(0, color="black", linewidth=0.6)
            x, w = arrays["test_states"].values[state]
            axes.set_title(f"({x:g}, {w:g}): expert {_ACTIONS[expert[state]]}")
        canvas.axes[0].set_ylabel("v - v(expert's action)")
    return path


def _draw_traces(path: Path, trace: xr.DataTree) -> Path:
    with figure(path, 8.4, 2.8) as canvas:
        axes = canvas.subplots()
        axes.plot(
            trace["posterior"].to_dataset()["log_likelihood"].values.T, linewidth=0.7, alpha=0.8
        )
        axes.set(xlabel="draw", ylabel="log-likelihood")
    return path


def _draw_steps(path: Path, arrays: xr.Dataset) -> Path:
    names = [str(name) for name in arrays["policy_name"].values]
    longest = int(arrays["num_steps"].max())
    with figure(path, 8.4, 2.6) as canvas:
        axes = canvas.subplots()
        rng = np.random.default_rng(0)
        for row, name in enumerate(names):
            steps = arrays["num_steps"].sel(policy_name=name).values
            reached = arrays["reached"].sel(policy_name=name).values.astype(bool)
            height = row + rng.uniform(-0.25, 0.25, steps.size)
            axes.scatter(steps[reached], height[reached], s=8, color=BLUE, alpha=0.6)
            axes.scatter(
                steps[~reached], height[~reached], s=14, color=ACTION_COLOURS[2], marker="x"
            )
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.set(xlabel="steps (a cross is a failure)", xlim=(0, longest * 1.03))
        axes.invert_yaxis()
    return path


def _scatter_demonstrations(axes: Axes, arrays: xr.Dataset) -> None:
    states = arrays["demonstration_states"].values
    actions = arrays["demonstration_actions"].values
    for action, name in enumerate(_ACTIONS):
        chosen = actions == action
        if chosen.any():
            axes.scatter(
                *states[chosen].T,
                s=14,
                color=ACTION_COLOURS[action],
                edgecolor="white",
                linewidth=0.6,
                label=f"expert went {name}",
            )


def _label_state_space(axes: Axes, title: str) -> None:
    axes.set(title=title, xlabel="position")
    if axes.get_subplotspec() is not None and axes.get_subplotspec().is_first_col():  # pyright: ignore[reportOptionalMemberAccess]
        axes.set_ylabel("velocity")
