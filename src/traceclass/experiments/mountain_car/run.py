"""Value functions learned from 50 choices, and how well one drives by them (Fig. results, left).

The paper's three priors, by each of its kernels and by HMC; beside them behavioural cloning, the
expert, and the optimal driver. What the paper does not show: how far the learned function is the
true one, and whether its probabilities can be trusted on drives that were not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.control.grid_value import grid_points
from traceclass.control.policies import Policy, successor_values
from traceclass.experiments import learned as shared
from traceclass.experiments.car import KERNELS, TEST_STATES, choices, demonstrations, prior_of
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, agreed, traces
from traceclass.experiments.experiment import PriorName, Result, check_table, made_once
from traceclass.experiments.learned import Learned, yardsticks
from traceclass.experiments.mountain_car.settings import PAPER_FAILURES, MountainCarConfig
from traceclass.sampling.adaptation import MIN_WARMUP
from traceclass.sampling.moments import moments_of
from traceclass.scores import mean_failures, mean_over, means_over

# A step of HMC is a trajectory of dozens of gradients, so a draw takes fewer of them: shares of
# `num_warmup` and `thin`.
_WARMUP_SHARE = {"pcn": 1.0, "pcnl": 1.0, "hmc": 0.1}
_THIN_SHARE = {"pcn": 1.0, "pcnl": 1.0, "hmc": 0.01}
_POLICIES = ("noisy_argmax", "argmax", "thompson")


class Results(TypedDict):
    """Table cells, rows of means over data sets, and the drivers they are compared with."""

    cells: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    alternatives: list[dict[str, Any]]
    num_episodes: int
    num_data_sets: int


def check(config: MountainCarConfig) -> None:
    """No table cell twice, and priors, noise and step sizes that can be used."""
    check_table(config, priors=config.priors, kernels=config.kernels)
    if config.step_size != "adapt":
        for kernel in config.kernels:
            KERNELS[kernel].check_step_size(config.step_size)
    for prior in config.priors:
        _prior(config, prior)
    choices(_demonstrations(config, 0), noise=config.noise)


def _demonstrations(config: MountainCarConfig, number: int) -> car.Demonstrations:
    return demonstrations(config.seeds[number], config.num_demonstrations)


@made_once
def _prior(config: MountainCarConfig, name: PriorName) -> tc.Prior:
    settings = ("widths", "alpha", "weight_variance", "bias_variance", "activation")
    settings += ("iid_variance", "max_frequency")
    return prior_of(name, **{setting: getattr(config, setting) for setting in settings})


@made_once
def _asked(config: MountainCarConfig, name: PriorName) -> shared.Asked:
    return shared.ask(_prior(config, name), *yardsticks(config), noise=config.noise)


def cells(config: MountainCarConfig) -> list[str]:
    """Prior, kernel and number of the data set."""
    return [
        f"{prior}-{kernel}-{number}"
        for number in range(config.num_data_sets)
        for prior in config.priors
        for kernel in config.kernels
    ]


def cell(config: MountainCarConfig, name: str, _: Earlier) -> Cell:
    """The posterior of one prior given one data set, by one kernel."""
    prior, kernel, number = name.split("-")
    asked = _asked(config, prior)  # pyright: ignore[reportArgumentType]
    likelihood = choices(_demonstrations(config, int(number)), noise=config.noise)
    warmup = round(config.num_warmup * _WARMUP_SHARE[kernel])
    changes = {
        "step_size": config.step_size,
        "num_warmup": max(MIN_WARMUP, warmup) if config.step_size == "adapt" else warmup,
        "thin": max(1, round(config.thin * _THIN_SHARE[kernel])),
        "seed": config.seeds[int(number)],
    }
    return Cell(
        name=name,
        labels={"prior": prior, "kernel": kernel, "data_set": int(number)},
        posterior=tc.Posterior(asked.prior, likelihood),
        kernel=KERNELS[kernel],
        record=asked.record,
        sampling=config.sampling | changes,
        until=agreed(config, *asked.record),
    )


def measure(config: MountainCarConfig, cell: Cell, run: tc.Run) -> Measured:
    """Scores of the learned function, and episodes under each policy of it."""
    asked = _asked(config, cell.labels["prior"])
    learned = shared.learned_from(run, asked, num_kept=config.num_kept)
    driven = _drive(learned, config, shared.course_of(config, cell.labels["data_set"]))
    return Measured(learned.numbers | driven, learned)


def _drive(learned: Learned, config: MountainCarConfig, course: shared.Course) -> dict[str, Any]:
    """Episodes under each policy of a posterior, and under each chain's own mean."""
    draws = jax.random.choice(course.keys.thompson, learned.positions, (config.num_episodes,))

    def noisy(value: Any) -> Policy:
        return tc.control.noisy_argmax_policy(value, car.successors, noise=config.noise)

    policies = {
        "noisy_argmax": noisy(learned.mean),
        "argmax": tc.control.argmax_policy(learned.mean, car.successors),
        "thompson": tc.control.thompson_policy(learned.prior, draws, car.successors),
    }
    return {
        "policies": {name: course.drive(policy) for name, policy in policies.items()},
        "chain_failures": [course.drive(noisy(m))["failures"] for m in learned.chain_means],
    }


def finish(config: MountainCarConfig, done: Mapping[str, Done]) -> Result:
    """Means over data sets, the other drivers, and surfaces of the first data set."""
    measured = [each.numbers for each in done.values()]
    numbers: Results = {
        "cells": measured,
        "rows": [
            _row(prior, kernel, measured, config.num_episodes)
            for prior in config.priors
            for kernel in config.kernels
        ],
        "alternatives": _alternative_rows(config),
        "num_episodes": config.num_episodes,
        "num_data_sets": config.num_data_sets,
    }
    first = [each for each in done.values() if each.numbers["data_set"] == 0]
    shown: dict[str, Learned] = {}
    for each in first:
        # The last kernel that converged is shown: one posterior for all.
        if each.numbers["prior"] not in shown or each.numbers["is_converged"]:
            shown[each.numbers["prior"]] = each.kept
    runs = {each.cell.name.removesuffix("-0"): each.run for each in first}
    return Result(dict(numbers), traces(runs, "posterior", "sample_stats"), _arrays(config, shown))


def _row(prior: str, kernel: str, cells: list[dict[str, Any]], num_episodes: int) -> dict[str, Any]:
    """A row of the table: means over the data sets whose chains converged, standard errors."""
    own = [c for c in cells if (c["prior"], c["kernel"]) == (prior, kernel)]
    driven = [c["policies"] for c in own if c["is_converged"]]
    return {
        "prior": prior,
        "kernel": kernel,
        **shared.row_over(own, "rank_correlation_visited", "rank_correlation_box"),
        "failures": {
            name: mean_failures([policies[name]["failures"] for policies in driven], num_episodes)
            for name in _POLICIES
        },
        "median_steps": mean_over([policies["argmax"]["median_steps"] for policies in driven]),
        "paper_failures": PAPER_FAILURES[prior].get(kernel),
    }


def _alternative_rows(config: MountainCarConfig) -> list[dict[str, Any]]:
    """Clones, the expert and the optimal driver, over the data sets."""
    by_data_set = [_alternatives(config, number) for number in range(config.num_data_sets)]
    rows = []
    for name in by_data_set[0]:
        own = [alternatives[name] for alternatives in by_data_set]
        failures = mean_failures([each["failures"] for each in own], config.num_episodes)
        calibration = [each["calibration"] for each in own if "calibration" in each]
        row = {"name": name, "failures": failures, "calibration": calibration}
        rows.append(row | means_over(own, ("median_steps", *shared.SCORES)))
    return rows


def _alternatives(config: MountainCarConfig, number: int) -> dict[str, dict[str, Any]]:
    """Clones of the expert, the expert itself and the optimal driver, on one data set."""
    (tests, truth), course = yardsticks(config), shared.course_of(config, number)
    seen = _demonstrations(config, number)
    rows = {str(m): shared.cloned(m, seen, config, number) for m in tc.control.CLONES}
    drivers: dict[str, Policy] = {
        "expert": lambda key, states: car.expert(states),  # noqa: ARG005
        "optimal": tc.control.argmax_policy(truth, car.successors),
    }
    for name, policy in drivers.items():
        actions = policy(jax.random.key(0), tests.states)
        agreement = float(jnp.mean(actions == tests.actions))
        rows[name] = {"accuracy": agreement} | course.drive(policy)
    return rows


def _arrays(config: MountainCarConfig, shown: dict[str, Learned]) -> xr.Dataset:
    """Surfaces of the first data set on a grid, with the true value and the demonstrations."""
    tests, truth = yardsticks(config)
    side = config.grid
    grid = grid_points(car.LOW, car.HIGH, (side, side))
    means = [np.asarray(learned.mean(grid)) for learned in shown.values()]
    seen, states = _demonstrations(config, 0), jnp.array(TEST_STATES)

    def best(value: Any) -> np.ndarray:
        return np.asarray(jnp.argmax(successor_values(value, car.successors, grid), axis=1))

    def on_grid(values: Any, *prior: str) -> Any:
        values = np.asarray(values)
        return (*prior, "position", "velocity"), values.reshape(*values.shape[:-1], side, side)

    at_tests = np.stack([np.asarray(learned.mean(tests.states)) for learned in shown.values()])
    return xr.Dataset(
        {
            "value_mean": on_grid([m - m.max() for m in means], "prior"),
            "value_sd": on_grid([_sd_of_differences(f, grid) for f in shown.values()], "prior"),
            "policy": on_grid([best(learned.mean) for learned in shown.values()], "prior"),
            "expert_policy": on_grid(car.expert(grid)),
            "optimal_policy": on_grid(best(truth)),
            "true_value": on_grid(truth(grid)),
            "demonstration_states": (("demonstration", "state"), np.asarray(seen.states)),
            "demonstration_actions": ("demonstration", np.asarray(seen.actions)),
            "held_out_states": (("held_out", "state"), np.asarray(tests.states)),
            "held_out_truth": ("held_out", np.asarray(truth(tests.states))),
            "held_out_value": (("prior", "held_out"), at_tests),
            "test_states": (("test", "state"), np.array(TEST_STATES)),
            "test_expert": ("test", np.asarray(car.expert(states))),
        },
        coords={
            "prior": list(shown),
            "position": np.asarray(grid[::side, 0]),
            "velocity": np.asarray(grid[:side, 1]),
        },
    )


def _sd_of_differences(learned: Learned, grid: Array) -> np.ndarray:
    """The posterior sd of v(x) - v(valley): the likelihood does not see a constant added to v."""
    values_of = learned.prior.at(jnp.concatenate([grid, jnp.array([[-0.5, 0.0]])]))

    def differences(z: Array) -> Array:
        values = values_of(z)
        return values[:-1] - values[-1]

    return moments_of(differences, learned.positions)[1]
