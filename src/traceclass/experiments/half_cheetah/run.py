"""A value function on R^17 from 100 choices of an expert (Table 2, Fig. prior_compare, results)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import traceclass as tc
from traceclass.control import half_cheetah as cheetah
from traceclass.control.coverage import coverage
from traceclass.experiments import cheetah as shared
from traceclass.experiments import cheetah_learned
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, traces
from traceclass.experiments.cheetah_learned import Coarse, cell_of, kicks_of
from traceclass.experiments.experiment import Result, check_table
from traceclass.experiments.half_cheetah.settings import SCHEMES, WATCHED, HalfCheetahConfig
from traceclass.scores import mean_over, means_over, paired_difference

_SCORES = ("samples", "mean", "vote", "balanced", "log_score")
_DRIVEN = tuple(f"{d}_{n}" for d in ("mean", "sample", "vote") for n in ("distance", "falls"))
# Streams of the schemes' demonstrations begin here.
_FIRST_SCHEME = 10
# Pictures of one episode, evenly spaced in time.
_PICTURES = 9


class Results(TypedDict):
    """Means over data sets of priors, clones and references; all table cells; coverage."""

    references: dict[str, Any]
    clones: dict[str, dict[str, Any]]
    priors: dict[str, dict[str, Any]]
    cells: list[dict[str, Any]]
    coverage: dict[str, dict[str, float]]
    shares: list[list[float]]
    paired: list[dict[str, Any]]
    num_data_sets: int


# Episodes of each policy, one entry per data set.
Rides = dict[str, list[cheetah.Runs]]


def check(config: HalfCheetahConfig) -> None:
    """No table cell twice, priors that can be made, and data."""
    check_table(config, priors=config.priors)
    for name in config.priors:
        shared.prior_of(name)
    _data(config)


def _data(config: HalfCheetahConfig) -> list[shared.DataSet]:
    return [shared.data_set(seed, config) for seed in config.seeds]


def _ordered(config: HalfCheetahConfig) -> list[str]:
    """The priors, narrow networks first: wider ones of their kind begin where they end."""
    return sorted(config.priors, key=lambda name: (len(name), name))


def cells(config: HalfCheetahConfig) -> list[str]:
    """Prior and number of the data set."""
    return [f"{p}-{number}" for p in _ordered(config) for number in range(config.num_data_sets)]


def cell(config: HalfCheetahConfig, name: str, earlier: Earlier) -> Cell:
    """One prior on one data set; wider trace-class networks begin at the narrowest one."""
    prior, _, number = name.rpartition("-")
    data = shared.data_set(config.seeds[int(number)], config)
    narrow = next((p for p in _ordered(config) if p.startswith("tcnn")), prior)
    coarse = None
    if prior.startswith("tcnn") and prior != narrow:
        before = earlier(f"{narrow}-{number}")
        coarse = Coarse(before, shared.prior_of(narrow), len(data.successors))
    labels = {"prior": prior, "seed": data.seed}
    kicks = kicks_of(prior, config)
    return cell_of(name, prior, data, config, labels=labels, num_kicks=kicks, coarse=coarse)


def measure(config: HalfCheetahConfig, cell: Cell, run: tc.Run) -> Measured:
    """Scores of one posterior, and the episodes of its policies."""
    prior, data = cell.labels["prior"], shared.data_set(cell.labels["seed"], config)
    learned = cheetah_learned.learned_from(run, cell, prior, data, config)
    policies = cheetah_learned.policies_of(learned, config)
    runs = {drive: shared.ride(policy, data.seed, config) for drive, policy in policies.items()}
    driven: dict[str, float] = {}
    for drive, episodes in runs.items():
        driven |= {f"{drive}_{key}": value for key, value in shared.distances(episodes).items()}
    return Measured(learned.numbers | driven, runs)


def finish(config: HalfCheetahConfig, done: Mapping[str, Done]) -> Result:
    """Table 2, rollouts and cloning on every data set, and the boxplot of one state."""
    problem, rides = _data(config), Rides()
    for data in problem:
        for name, runs in _reference_rides(data, config).items():
            rides.setdefault(name, []).append(runs)
    references = _references(problem, rides)
    clones = {}
    for method in shared.CLONES:
        cloned = [shared.cloned(method, data, config) for data in problem]
        rides[method] = [runs for _, runs in cloned]
        rows = [row for row, _ in cloned]
        clones[method] = means_over(rows, ("mean", "balanced", "log_score", "distance", "falls"))
    for each in done.values():
        for drive, runs in each.kept.items():
            rides.setdefault(f"{each.numbers['prior']} {drive}", []).append(runs)
    measured = [each.numbers for each in done.values()]
    priors = {p: _prior([c for c in measured if c["prior"] == p]) for p in config.priors}
    numbers: Results = {
        "references": references,
        "clones": clones,
        "priors": priors,
        "cells": measured,
        "coverage": _coverage(problem[0], config),
        "shares": [data.shares for data in problem],
        "paired": _pairs(references, clones, priors),
        "num_data_sets": len(problem),
    }
    first = {p: done[f"{p}-0"].run for p in _ordered(config)}
    return Result(dict(numbers), traces(first, "posterior"), _arrays(config, problem[0], rides))


def _prior(cells: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rhat": [cell["rhat"] for cell in cells],
        "seconds": sum(cell["seconds"] for cell in cells),
        **shared.row_over(cells, (*_SCORES, *_DRIVEN)),
    }


def _references(problem: list[shared.DataSet], rides: Rides) -> dict[str, Any]:
    """How far experts and random actions come, and what the commonest action and chance score."""
    commonest = [float((data.tests.actions == data.commonest).mean()) for data in problem]
    rows = {name: [shared.distances(runs) for runs in own] for name, own in rides.items()}
    return {
        "chance": 1 / cheetah.expert().num_actions,
        "commonest": mean_over(commonest),
        "rides": {name: means_over(own, ("distance", "falls")) for name, own in rows.items()},
    }


def _reference_rides(data: shared.DataSet, config: HalfCheetahConfig) -> dict[str, cheetah.Runs]:
    """Episodes of the discretised expert, of random actions, and of the expert itself."""
    expert, starts = cheetah.expert(), shared.starts_of(data.seed, config)

    def discretised(_: jax.Array, states: jax.Array) -> jax.Array:
        return jnp.asarray(expert.nearest(np.asarray(states, np.float64)))

    def at_random(key: jax.Array, states: jax.Array) -> jax.Array:
        own = jax.random.fold_in(key, data.seed)
        return jax.random.randint(own, (len(states),), 0, expert.num_actions)

    return {
        "discretised expert": shared.ride(discretised, data.seed, config),
        "random": shared.ride(at_random, data.seed, config),
        "continuous expert": cheetah.follow(expert, starts, num_steps=config.num_steps),
    }


def _coverage(data: shared.DataSet, config: HalfCheetahConfig) -> dict[str, dict[str, float]]:
    """Coverage of the first data set's demonstrations, compared with other ways to collect as many.

    It is measured against the states of its tests.
    """
    collected, count = {"these demonstrations": data.demonstrations}, config.num_demonstrations
    for number, (name, scheme) in enumerate(SCHEMES.items(), _FIRST_SCHEME):
        randomness = shared.stream(config.seed, number)
        collected[name] = cheetah.demonstrate(randomness, num_demonstrations=count, **scheme)
    return {
        name: coverage(seen.states, seen.actions, data.tests.states, cheetah.LOW, cheetah.HIGH)
        for name, seen in collected.items()
    }


def _pairs(
    references: dict[str, Any], clones: dict[str, Any], priors: dict[str, Any]
) -> list[dict[str, Any]]:
    """Differences of accuracy by the mean, over data sets: trace-class networks and all others."""
    each = {"commonest action": references["commonest"]["each"]}
    each |= {name: row["mean"]["each"] for name, row in (clones | priors).items()}
    return [
        {"prior": name, "beside": other, **paired_difference(each[name], values)}
        for name in priors
        if name.startswith("tcnn")
        for other, values in each.items()
        if other != name
    ]


def _arrays(config: HalfCheetahConfig, data: shared.DataSet, rides: Rides) -> xr.Dataset:
    """Distance curves, pictures of single episodes, and the state of the boxplot."""
    curves = [np.concatenate([runs.distance for runs in own], axis=1) for own in rides.values()]
    shown = np.linspace(0, config.num_steps, _PICTURES).astype(int)
    filmed = {name: name for name in ("discretised expert", "random")}
    filmed |= {prior: f"{prior} mean" for prior in config.priors}
    films, picture = [rides[name][0] for name in filmed.values()], ("film_name", "picture")
    return xr.Dataset(
        {
            "distance": (("policy", "step", "episode"), np.stack(curves)),
            "film": ((*picture, "state"), np.stack([runs.states[shown, 0] for runs in films])),
            "film_distance": (picture, np.stack([runs.distance[shown, 0] for runs in films])),
            "test_expert": ("test", data.tests.actions[:WATCHED]),
            "actions": (("action", "control"), cheetah.expert().actions),
        },
        coords={
            "policy": list(rides),
            "film_name": list(filmed),
            "picture_step": ("picture", shown),
        },
    )
