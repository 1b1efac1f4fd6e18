"""How many demonstrations are enough, and how much the noise level matters."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pydantic
import xarray as xr

from traceclass import control
from traceclass.control import mountain_car as car
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.car import (
    PriorName,
    check_table,
    choices,
    held_out,
    keys_of,
    prior_of,
    true_value,
)
from traceclass.experiments.driving import (
    cloned,
    course_of,
    mean_failures,
    mean_over,
    seeds_of,
)
from traceclass.experiments.learned import Asked, ask, learn
from traceclass.kernels import hmc
from traceclass.posterior import Posterior
from traceclass.priors import Prior

_SCORES = ("log_score", "accuracy", "calibration_error")


class LearningCurveConfig(Config):
    """Settings of `learning-curve`; all but the sizes and noises are the paper's."""

    sizes: tuple[pydantic.PositiveInt, ...] = (5, 10, 20, 50, 100, 200, 400)
    noises: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    priors: tuple[PriorName, ...] = ("tcnn", "kl", "bnn")
    noise_prior: PriorName = "tcnn"
    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    num_data_sets: int = pydantic.Field(default=3, ge=1, le=1_000)
    num_chains: pydantic.PositiveInt = 8
    num_warmup: int = pydantic.Field(default=600, ge=400)
    num_samples: pydantic.PositiveInt = 125
    max_samples: pydantic.PositiveInt = 400
    num_kept: pydantic.PositiveInt = 1_000
    num_episodes: int = pydantic.Field(default=100, ge=1, le=100_000)
    max_steps: int = pydantic.Field(default=200, ge=1, le=100_000)
    num_held_out: int = pydantic.Field(default=200, ge=2, le=100_000)
    reference_grid: int = pydantic.Field(default=300, ge=10, le=2000)


class Problem(NamedTuple):
    """Priors, and as many demonstrations of each data set as the largest size needs."""

    priors: dict[PriorName, Prior]
    demonstrations: list[car.Demonstrations]


class Setting(NamedTuple):
    """One point of a curve."""

    prior: PriorName
    size: int
    noise: float


def build(config: LearningCurveConfig) -> Problem:
    """The demonstrations, of which smaller sizes take the first, and the priors."""
    check_table(
        config.seed,
        config.num_data_sets,
        sizes=config.sizes,
        noises=config.noises,
        priors=config.priors,
    )
    most = max((*config.sizes, config.num_demonstrations))
    demonstrations = [
        car.demonstrate(keys_of(seed).data, num_demonstrations=most) for seed in seeds_of(config)
    ]
    for noise in (*config.noises, config.noise):
        choices(demonstrations[0], noise=noise)
    names: set[PriorName] = {*config.priors, config.noise_prior}
    return Problem({name: prior_of(name) for name in sorted(names)}, demonstrations)


def run(problem: Problem, config: LearningCurveConfig, chains: Chains) -> Result:
    """Both curves, by Hamiltonian Monte Carlo, with behavioural cloning beside the first."""
    began = time.perf_counter()
    truth = true_value(config.reference_grid)
    tests = held_out(config.seed, config.num_held_out)
    by_size = [Setting(p, n, config.noise) for p in config.priors for n in config.sizes]
    by_noise = [
        Setting(config.noise_prior, config.num_demonstrations, noise) for noise in config.noises
    ]
    points: dict[Setting, dict[str, Any]] = {}
    all_cells = []
    for setting in dict.fromkeys((*by_size, *by_noise)):
        asked = ask(problem.priors[setting.prior], tests, truth, noise=setting.noise)
        cells = [
            _cell(problem, config, chains, asked, setting, number)
            for number in range(config.num_data_sets)
        ]
        all_cells += cells
        points[setting] = _point(setting, cells, config.num_episodes)
    numbers = {
        "sizes": [points[s] for s in by_size],
        "noises": [points[s] for s in by_noise],
        "clones": [_clones(problem, config, tests, n) for n in config.sizes],
        "cells": all_cells,
        "num_episodes": config.num_episodes,
        "num_data_sets": config.num_data_sets,
        "seconds": {"total": time.perf_counter() - began},
    }
    return Result(numbers, None, xr.Dataset(coords={"size": list(config.sizes)}))


def _first(demonstrations: car.Demonstrations, size: int) -> car.Demonstrations:
    return car.Demonstrations(*(part[:size] for part in demonstrations))


def _cell(
    problem: Problem,
    config: LearningCurveConfig,
    chains: Chains,
    asked: Asked,
    setting: Setting,
    number: int,
) -> dict[str, Any]:
    cell = f"{setting.prior}-{setting.size}-{setting.noise}-{number}"
    seen = _first(problem.demonstrations[number], setting.size)
    learned = learn(
        chains,
        cell,
        Posterior(asked.prior, choices(seen, noise=setting.noise)),
        hmc,
        asked,
        num_kept=config.num_kept,
        max_samples=max(config.num_samples, config.max_samples),
        num_chains=config.num_chains,
        num_warmup=config.num_warmup,
        num_samples=config.num_samples,
        seed=seeds_of(config)[number],
    )
    course = course_of(config, number)
    noisy = control.noisy_argmax_policy(learned.mean, car.successors, noise=setting.noise)
    plain = control.argmax_policy(learned.mean, car.successors)
    return (
        {"cell": cell}
        | learned.numbers
        | {
            "noisy_failures": course.drive(noisy)["failures"],
            "failures": course.drive(plain)["failures"],
        }
    )


def _point(setting: Setting, cells: list[dict[str, Any]], num_episodes: int) -> dict[str, Any]:
    """Means over the data sets whose chains converged."""
    good = [cell for cell in cells if cell["is_converged"]]
    return {
        **setting._asdict(),
        "num_converged": len(good),
        "rhat": max(cell["rhat"] for cell in cells),
        **{
            name: mean_failures([cell[name] for cell in good], num_episodes)
            for name in ("noisy_failures", "failures")
        },
        **{name: mean_over([cell[name] for cell in good]) for name in _SCORES},
        "rank_correlation_visited": mean_over(
            [cell["rank_correlation_visited"]["mean"] for cell in good]
        ),
    }


def _clones(
    problem: Problem,
    config: LearningCurveConfig,
    tests: car.Demonstrations,
    size: int,
) -> dict[str, Any]:
    """Both clones at one size, over the data sets."""
    figures: dict[str, Any] = {"size": size}
    for method in control.CLONES:
        cells = [
            cloned(method, _first(demonstrations, size), tests, course_of(config, number))
            for number, demonstrations in enumerate(problem.demonstrations)
        ]
        figures[method] = {
            "failures": mean_failures([cell["failures"] for cell in cells], config.num_episodes),
            **{name: mean_over([cell[name] for cell in cells]) for name in _SCORES},
        }
    return figures


EXPERIMENT = Experiment(
    name="learning-curve",
    summary="failures and held-out scores from 5 to 400 demonstrations, and over noise levels",
    presets={
        "quick": LearningCurveConfig(
            sizes=(5, 20),
            noises=(0.1,),
            priors=("kl",),
            noise_prior="kl",
            num_demonstrations=20,
            num_data_sets=1,
            num_chains=4,
            num_warmup=400,
            num_samples=50,
            max_samples=50,
            num_kept=100,
            num_episodes=10,
            num_held_out=50,
            reference_grid=60,
        ),
        "paper": LearningCurveConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
)
