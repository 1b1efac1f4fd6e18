"""Failures and held-out scores against the number of demonstrations and the noise level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import xarray as xr

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.experiments import learned as shared
from traceclass.experiments.car import choices, demonstrations, prior_of
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, agreed
from traceclass.experiments.experiment import PriorName, Result, check_table, made_once
from traceclass.experiments.learned import cloned, course_of, yardsticks
from traceclass.experiments.learning_curve.settings import LearningCurveConfig
from traceclass.scores import mean_failures, means_over


class Results(TypedDict):
    """Points of both curves, clones at every size, and all table cells."""

    sizes: list[dict[str, Any]]
    noises: list[dict[str, Any]]
    clones: list[dict[str, Any]]
    cells: list[dict[str, Any]]
    num_episodes: int
    num_data_sets: int


class Setting(NamedTuple):
    """One point of a curve."""

    prior: PriorName
    size: int
    noise: float

    def cell(self, number: int) -> str:
        """The name of its table cell for one data set."""
        return f"{self.prior}-{self.size}-{self.noise}-{number}"


def check(config: LearningCurveConfig) -> None:
    """No table cell twice, and noises that can be used."""
    check_table(config, sizes=config.sizes, noises=config.noises, priors=config.priors)
    for noise in (*config.noises, config.noise):
        choices(_first(config, 0, config.num_demonstrations), noise=noise)


def _by_size(config: LearningCurveConfig) -> list[Setting]:
    return [Setting(prior, size, config.noise) for prior in config.priors for size in config.sizes]


def _by_noise(config: LearningCurveConfig) -> list[Setting]:
    settings = config.noise_prior, config.num_demonstrations
    return [Setting(*settings, noise) for noise in config.noises]


def _first(config: LearningCurveConfig, number: int, size: int) -> car.Demonstrations:
    """The first of as many as the largest size needs."""
    most = max((*config.sizes, config.num_demonstrations))
    return car.Demonstrations(*(x[:size] for x in demonstrations(config.seeds[number], most)))


@made_once
def _asked(config: LearningCurveConfig, prior: PriorName, noise: float) -> shared.Asked:
    return shared.ask(prior_of(prior), *yardsticks(config), noise=noise)


def cells(config: LearningCurveConfig) -> dict[str, tuple[Setting, int]]:
    """All points of both curves, each on every data set, by the name of the table cell."""
    settings, numbers = (*_by_size(config), *_by_noise(config)), range(config.num_data_sets)
    return {setting.cell(number): (setting, number) for setting in settings for number in numbers}


def cell(config: LearningCurveConfig, name: str, _: Earlier) -> Cell:
    """The posterior at one point of a curve given one data set, by HMC."""
    setting, number = cells(config)[name]
    asked = _asked(config, setting.prior, setting.noise)
    seen = _first(config, number, setting.size)
    return Cell(
        name=name,
        labels={"cell": name},
        posterior=tc.Posterior(asked.prior, choices(seen, noise=setting.noise)),
        kernel=tc.hmc,
        record=asked.record,
        sampling=config.sampling | {"seed": config.seeds[number]},
        until=agreed(config, *asked.record),
    )


def measure(config: LearningCurveConfig, cell: Cell, run: tc.Run) -> Measured:
    """Scores of the learned function, and failures with and without noise."""
    setting, number = cells(config)[cell.name]
    asked = _asked(config, setting.prior, setting.noise)
    learned = shared.learned_from(run, asked, num_kept=config.num_kept)
    noisy = tc.control.noisy_argmax_policy(learned.mean, car.successors, noise=asked.noise)
    plain = tc.control.argmax_policy(learned.mean, car.successors)
    policies, course = {"noisy_failures": noisy, "failures": plain}, course_of(config, number)
    failures = {name: course.drive(policy)["failures"] for name, policy in policies.items()}
    return Measured(learned.numbers | failures)


def finish(config: LearningCurveConfig, done: Mapping[str, Done]) -> Result:
    """Both curves, with behavioural cloning beside the first."""
    numbers: Results = {
        "sizes": [_point(setting, config, done) for setting in _by_size(config)],
        "noises": [_point(setting, config, done) for setting in _by_noise(config)],
        "clones": [_clones(config, size) for size in config.sizes],
        "cells": [each.numbers for each in done.values()],
        "num_episodes": config.num_episodes,
        "num_data_sets": config.num_data_sets,
    }
    return Result(dict(numbers), None, xr.Dataset(coords={"size": list(config.sizes)}))


def _point(setting: Setting, config: LearningCurveConfig, done: Mapping[str, Done]) -> dict:
    """Means over the data sets whose chains converged."""
    cells = [done[setting.cell(number)].numbers for number in range(config.num_data_sets)]
    good, names = [cell for cell in cells if cell["is_converged"]], ("noisy_failures", "failures")
    return {
        **setting._asdict(),
        **shared.row_over(cells, "rank_correlation_visited"),
        **{n: mean_failures([cell[n] for cell in good], config.num_episodes) for n in names},
    }


def _clones(config: LearningCurveConfig, size: int) -> dict[str, Any]:
    """Both clones at one size, over the data sets."""
    row: dict[str, Any] = {"size": size}
    seen = [_first(config, number, size) for number in range(config.num_data_sets)]
    for method in tc.control.CLONES:
        cells = [cloned(method, own, config, number) for number, own in enumerate(seen)]
        row[method] = {
            "failures": mean_failures([cell["failures"] for cell in cells], config.num_episodes),
            **means_over(cells, shared.SCORES),
        }
    return row
