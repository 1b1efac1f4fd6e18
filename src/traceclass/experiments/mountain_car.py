"""Mountain car: value functions learned from demonstrations, then driven (Fig. results, left).

Three priors, three kernels, several data sets; beside them behavioural cloning, the expert, and
the optimal driver. What the paper does not show: how far the learned function is the true one, and
whether its probabilities can be trusted on drives that were not learned from.
"""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import xarray as xr
from jaxtyping import Array

from traceclass import control
from traceclass.control import mountain_car as car
from traceclass.control.policies import Policy, successor_values
from traceclass.control.value_iteration import GridValue, grid_points
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.car import (
    KERNELS,
    TEST_STATES,
    KernelName,
    PriorName,
    check_table,
    choices,
    held_out,
    keys_of,
    prior_of,
    true_value,
)
from traceclass.experiments.driving import (
    Course,
    cloned,
    course_of,
    mean_failures,
    mean_over,
    seeds_of,
)
from traceclass.experiments.learned import Asked, Learned, ask, learn
from traceclass.posterior import Posterior
from traceclass.priors import Prior
from traceclass.sampling.adaptation import MIN_WARMUP

# Failures of 100 episodes with the noisy argmax of the posterior mean.
PAPER_FAILURES = {
    "tcnn": {"pcn": 23, "pcnl": 25},
    "kl": {"pcn": 34, "pcnl": 24},
    "bnn": {"pcn": 81, "pcnl": 80},
}
# A step of HMC is a trajectory of dozens of gradients, so a draw takes fewer of them: shares of
# `num_warmup` and `thin`.
_WARMUP_SHARE = {"pcn": 1.0, "pcnl": 1.0, "hmc": 0.1}
_THIN_SHARE = {"pcn": 1.0, "pcnl": 1.0, "hmc": 0.01}


class MountainCarConfig(Config):
    """Settings of `mountain-car`; the defaults are the paper's models and data."""

    priors: tuple[PriorName, ...] = pydantic.Field(default=("tcnn", "kl", "bnn"), min_length=1)
    kernels: tuple[KernelName, ...] = pydantic.Field(default=("pcn", "pcnl", "hmc"), min_length=1)
    num_data_sets: int = pydantic.Field(default=3, ge=1, le=1_000)
    widths: tuple[int, ...] = (10, 10, 10)
    alpha: float = 1.5
    weight_variance: float = 2.0
    bias_variance: float = 2.0
    activation: str = "tanh"
    iid_variance: float = 1 / 3
    max_frequency: pydantic.PositiveInt = 7
    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    step_size: float | Literal["adapt"] = "adapt"
    num_chains: pydantic.PositiveInt = 8
    # Of pCN and pCNL; a tenth of it for HMC. At least 400 steps where step sizes are adapted.
    num_warmup: pydantic.NonNegativeInt = 10_000
    num_samples: pydantic.PositiveInt = 250
    max_samples: pydantic.PositiveInt = 4_000
    thin: pydantic.PositiveInt = 100
    num_kept: pydantic.PositiveInt = 1_000
    num_episodes: int = pydantic.Field(default=100, ge=1, le=100_000)
    max_steps: int = pydantic.Field(default=200, ge=1, le=100_000)
    num_held_out: int = pydantic.Field(default=200, ge=2, le=100_000)
    grid: int = pydantic.Field(default=61, ge=2, le=1001)
    reference_grid: int = pydantic.Field(default=300, ge=10, le=2000)


class Problem(NamedTuple):
    """A posterior for each prior and data set, and what is asked of all of them."""

    demonstrations: list[car.Demonstrations]
    priors: dict[PriorName, Prior]


def build(config: MountainCarConfig) -> Problem:
    """Demonstrations of the expert and the priors of the value function."""
    check_table(config.seed, config.num_data_sets, priors=config.priors, kernels=config.kernels)
    for kernel in config.kernels:
        if config.step_size != "adapt":
            KERNELS[kernel].check_step_size(config.step_size)
    demonstrations = [
        car.demonstrate(keys_of(seed).data, num_demonstrations=config.num_demonstrations)
        for seed in seeds_of(config)
    ]
    priors: dict[PriorName, Prior] = {
        name: prior_of(
            name,
            widths=config.widths,
            alpha=config.alpha,
            weight_variance=config.weight_variance,
            bias_variance=config.bias_variance,
            activation=config.activation,
            iid_variance=config.iid_variance,
            max_frequency=config.max_frequency,
        )
        for name in config.priors
    }
    choices(demonstrations[0], noise=config.noise)
    return Problem(demonstrations, priors)


def run(problem: Problem, config: MountainCarConfig, chains: Chains) -> Result:
    """Every cell of the table, the alternatives, and what the report shows."""
    began = time.perf_counter()
    truth = true_value(config.reference_grid)
    tests = held_out(config.seed, config.num_held_out)
    asked: dict[PriorName, Asked] = {
        name: ask(prior, tests, truth, noise=config.noise) for name, prior in problem.priors.items()
    }
    cells, shown, traces, alternatives = [], {}, {}, []
    for number, demonstrations in enumerate(problem.demonstrations):
        for prior in config.priors:
            for kernel in config.kernels:
                learned = _learn(problem, config, chains, asked, (prior, kernel, number))
                cells.append(
                    {"prior": prior, "kernel": kernel, "data_set": number}
                    | learned.numbers
                    | _drive(learned, config, number)
                )
                if number == 0:
                    # Of several kernels the last that converged is shown: one posterior for all.
                    if prior not in shown or learned.numbers["is_converged"]:
                        shown[prior] = learned
                    traces[f"{prior}-{kernel}"] = learned.run.to_arviz()
        alternatives += _alternatives(demonstrations, tests, truth, course_of(config, number))
    numbers = {
        "cells": cells,
        "rows": [
            _row(prior, kernel, cells, config.num_episodes)
            for prior in config.priors
            for kernel in config.kernels
        ],
        "alternatives": _alternative_rows(alternatives, config.num_episodes),
        "num_episodes": config.num_episodes,
        "num_data_sets": config.num_data_sets,
        "seconds": {"total": time.perf_counter() - began},
    }
    arrays = _arrays(problem, shown, truth, tests, config)
    return Result(numbers, xr.DataTree.from_dict(_nested(traces)), arrays)


def _learn(
    problem: Problem,
    config: MountainCarConfig,
    chains: Chains,
    asked: dict[PriorName, Asked],
    cell: tuple[PriorName, KernelName, int],
) -> Learned:
    prior, kernel, number = cell
    likelihood = choices(problem.demonstrations[number], noise=config.noise)
    warmup = round(config.num_warmup * _WARMUP_SHARE[kernel])
    if config.step_size == "adapt":
        warmup = max(MIN_WARMUP, warmup)
    return learn(
        chains,
        f"{prior}-{kernel}-{number}",
        Posterior(problem.priors[prior], likelihood),
        KERNELS[kernel],
        asked[prior],
        num_kept=config.num_kept,
        max_samples=max(config.num_samples, config.max_samples),
        step_size=config.step_size,
        num_chains=config.num_chains,
        num_warmup=warmup,
        num_samples=config.num_samples,
        thin=max(1, round(config.thin * _THIN_SHARE[kernel])),
        seed=seeds_of(config)[number],
    )


def _drive(learned: Learned, config: MountainCarConfig, number: int) -> dict[str, Any]:
    """Episodes under each policy of a posterior, and under each chain's own mean."""
    course = course_of(config, number)
    flat = learned.kept.reshape(-1, learned.kept.shape[-1])
    key = keys_of(course.seed).thompson
    draws = jax.random.choice(key, jnp.asarray(flat), (config.num_episodes,))

    def noisy(value: Any) -> Policy:
        return control.noisy_argmax_policy(value, car.successors, noise=config.noise)

    policies = {
        "noisy_argmax": noisy(learned.mean),
        "argmax": control.argmax_policy(learned.mean, car.successors),
        "thompson": control.thompson_policy(learned.prior, draws, car.successors),
    }
    return {
        "policies": {name: course.drive(policy) for name, policy in policies.items()},
        "chain_failures": [course.drive(noisy(m))["failures"] for m in learned.chain_means],
    }


def _alternatives(
    demonstrations: car.Demonstrations,
    tests: car.Demonstrations,
    truth: GridValue,
    course: Course,
) -> list[dict[str, Any]]:
    """Clones of the expert, the expert itself and the optimal driver, on one data set."""
    rows = [
        {"name": method} | cloned(method, demonstrations, tests, course)
        for method in control.CLONES
    ]
    drivers: dict[str, Policy] = {
        "expert": _expert,
        "optimal": control.argmax_policy(truth, car.successors),
    }
    for name, policy in drivers.items():
        actions = policy(jax.random.key(0), tests.states)
        agreement = float(jnp.mean(actions == tests.actions))
        rows.append({"name": name, "accuracy": agreement} | course.drive(policy))
    return rows


def _expert(key: Array, states: Array) -> Array:
    del key
    return car.expert(states)


def _row(prior: str, kernel: str, cells: list[dict[str, Any]], num_episodes: int) -> dict[str, Any]:
    """A row of the table: means over the data sets whose chains converged, standard errors."""
    own = [c for c in cells if (c["prior"], c["kernel"]) == (prior, kernel)]
    good = [c for c in own if c["is_converged"]]
    return {
        "prior": prior,
        "kernel": kernel,
        "num_converged": len(good),
        "rhat": max(c["rhat"] for c in own),
        "failures": {
            name: mean_failures([c["policies"][name]["failures"] for c in good], num_episodes)
            for name in ("noisy_argmax", "argmax", "thompson")
        },
        "median_steps": mean_over([c["policies"]["argmax"]["median_steps"] for c in good]),
        "log_score": mean_over([c["log_score"] for c in good]),
        "accuracy": mean_over([c["accuracy"] for c in good]),
        "calibration_error": mean_over([c["calibration_error"] for c in good]),
        "rank_correlation_visited": mean_over(
            [c["rank_correlation_visited"]["mean"] for c in good]
        ),
        "rank_correlation_box": mean_over([c["rank_correlation_box"]["mean"] for c in good]),
        "paper_failures": PAPER_FAILURES[prior].get(kernel),
    }


def _alternative_rows(
    alternatives: list[dict[str, Any]], num_episodes: int
) -> list[dict[str, Any]]:
    figures = ("median_steps", "accuracy", "log_score", "calibration_error")
    rows = []
    for name in dict.fromkeys(a["name"] for a in alternatives):
        own = [a for a in alternatives if a["name"] == name]
        rows.append(
            {"name": name, "failures": mean_failures([a["failures"] for a in own], num_episodes)}
            | {figure: mean_over([a.get(figure) for a in own]) for figure in figures}
            | {"calibration": [a["calibration"] for a in own if "calibration" in a]}
        )
    return rows


def _nested(traces: dict[str, xr.DataTree]) -> dict[str, xr.Dataset]:
    return {
        f"{cell}/{group}": tree[group].to_dataset()
        for cell, tree in traces.items()
        for group in ("posterior", "sample_stats")
    }


def _arrays(
    problem: Problem,
    shown: dict[PriorName, Learned],
    truth: GridValue,
    tests: car.Demonstrations,
    config: MountainCarConfig,
) -> xr.Dataset:
    """Surfaces of the first data set on a grid, with the true value and the demonstrations."""
    side = config.grid
    grid = grid_points(car.LOW, car.HIGH, (side, side))
    on_grid = ("position", "velocity")
    names = list(shown)
    means = [np.asarray(shown[name].mean(grid)) for name in names]
    demonstrations = problem.demonstrations[0]

    def best(value: Any) -> np.ndarray:
        return np.asarray(jnp.argmax(successor_values(value, car.successors, grid), axis=1))

    def panels(values: list[np.ndarray]) -> np.ndarray:
        return np.stack(values).reshape(-1, side, side)

    return xr.Dataset(
        {
            "value_mean": (("prior", *on_grid), panels([m - m.max() for m in means])),
            "value_sd": (
                ("prior", *on_grid),
                panels([_sd_of_differences(shown[name], grid) for name in names]),
            ),
            "policy": (("prior", *on_grid), panels([best(shown[name].mean) for name in names])),
            "expert_policy": (on_grid, np.asarray(car.expert(grid)).reshape(side, side)),
            "optimal_policy": (on_grid, best(truth).reshape(side, side)),
            "true_value": (on_grid, np.asarray(truth(grid)).reshape(side, side)),
            "demonstration_states": (
                ("demonstration", "state"),
                np.asarray(demonstrations.states),
            ),
            "demonstration_actions": ("demonstration", np.asarray(demonstrations.actions)),
            "held_out_states": (("held_out", "state"), np.asarray(tests.states)),
            "held_out_truth": ("held_out", np.asarray(truth(tests.states))),
            "held_out_value": (
                ("prior", "held_out"),
                np.stack([np.asarray(shown[name].mean(tests.states)) for name in names]),
            ),
            "test_states": (("test", "state"), np.array(TEST_STATES)),
            "test_expert": ("test", np.asarray(car.expert(jnp.array(TEST_STATES)))),
        },
        coords={
            "prior": names,
            "position": np.asarray(grid[::side, 0]),
            "velocity": np.asarray(grid[:side, 1]),
        },
    )


def _sd_of_differences(learned: Learned, grid: Array) -> np.ndarray:
    """The posterior sd of v(x) - v(valley): the likelihood does not see a constant added to v."""
    points = jnp.concatenate([grid, jnp.array([[-0.5, 0.0]])])
    values_of = learned.prior.at(points)
    flat = jnp.asarray(learned.kept.reshape(-1, learned.kept.shape[-1]))

    def moments(total: tuple[Array, Array], z: Array) -> tuple[tuple[Array, Array], None]:
        values = values_of(z)
        difference = values[:-1] - values[-1]
        return (total[0] + difference, total[1] + difference**2), None

    blank = jnp.zeros(len(grid))
    (first, second), _ = jax.jit(lambda z: jax.lax.scan(moments, (blank, blank), z))(flat)
    mean = first / len(flat)
    return np.sqrt(np.maximum(np.asarray(second / len(flat) - mean**2), 0.0))


EXPERIMENT = Experiment(
    name="mountain-car",
    summary="learn value functions from demonstrations, three priors by three kernels, and drive",
    presets={
        "quick": MountainCarConfig(
            priors=("tcnn", "kl"),
            kernels=("hmc",),
            num_data_sets=1,
            num_chains=4,
            num_warmup=4_000,
            num_samples=50,
            max_samples=50,
            num_kept=200,
            num_episodes=20,
            num_held_out=50,
            grid=21,
            reference_grid=60,
        ),
        "paper": MountainCarConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
)
