"""A value function on R^17 from 100 choices of an expert (Table 2, Fig. prior_compare, results)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pydantic
import xarray as xr
from scipy import stats

from traceclass.control import half_cheetah as cheetah
from traceclass.control.coverage import coverage
from traceclass.experiments.base import Chains, Experiment, Result
from traceclass.experiments.car import check_table
from traceclass.experiments.cheetah import (
    WATCHED,
    CheetahConfig,
    DataSet,
    PriorName,
    data_set,
    prior_of,
    stream,
)
from traceclass.experiments.cheetah_learned import (
    Learned,
    learn,
)
from traceclass.experiments.cheetah_rides import (
    distances,
    policies_of,
    reference_policies,
    ride,
    ride_continuously,
)
from traceclass.experiments.cheetah_scores import (
    CLONES,
    clone_of,
    clone_scores,
    over_data_sets,
)
from traceclass.experiments.driving import seeds_of

# Table 2 of the paper: per cent of 100 test states, by samples and by means.
PAPER = {"kl-10": (20.1, 25.0), "bnn-100": (18.1, 20.0), "tcnn-100": (32.1, 42.0)}
_SCORES = ("samples", "mean", "vote", "balanced", "log_score")
_DRIVES = ("mean", "sample", "vote")
# Schemes whose coverage is compared: episode length, every n-th kept, whose states.
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "first 4 states": {"episode_length": 4},
    "25 steps, restarts": {"episode_length": 25},
    "50 steps, restarts": {"episode_length": 50},
    "every 5th of 100 steps": {"episode_length": 100, "keep_every": 5},
    "every 20th of 100 steps": {"episode_length": 100, "keep_every": 20},
    "every 5th of 100 steps, continuous expert": {
        "episode_length": 100,
        "keep_every": 5,
        "states_from": "continuous",
    },
    "every 5th of 100 steps, exploration 0.2": {
        "episode_length": 100,
        "keep_every": 5,
        "exploration": 0.2,
    },
}
_SCHEMES = 10
# Pictures of one episode, evenly spaced in time.
_PICTURES = 9


class HalfCheetahConfig(CheetahConfig):
    """Settings of `half-cheetah`; the defaults are the paper's, with more data sets and tests."""

    priors: tuple[PriorName, ...] = pydantic.Field(
        default=("tcnn-100", "tcnn-10", "bnn-100", "bnn-10", "kl-10", "kl-5"), min_length=1
    )


class Rides(NamedTuple):
    """Distance (steps + 1, episodes) of each policy, data set by data set."""

    curves: dict[str, list[np.ndarray]]

    def add(self, name: str, runs: cheetah.Runs) -> dict[str, float]:
        """Keep the curve; what it comes to."""
        self.curves.setdefault(name, []).append(runs.distance)
        return distances(runs)


def build(config: HalfCheetahConfig) -> list[DataSet]:
    """The data sets, one a seed."""
    check_table(config.seed, config.num_data_sets, priors=config.priors)
    for name in config.priors:
        prior_of(name)
    return [data_set(seed, config) for seed in seeds_of(config)]


def run(problem: list[DataSet], config: HalfCheetahConfig, chains: Chains) -> Result:
    """Table 2, rollouts and cloning on every data set, and the boxplot of one state."""
    began = time.perf_counter()
    rides, films = Rides({}), {}
    numbers: dict[str, Any] = {
        "references": _references(problem, config, rides, films),
        "clones": _clones(problem, config, rides),
        "priors": {},
        "cells": [],
        "coverage": _coverage(problem[0], config),
        "shares": [_shares(data) for data in problem],
        "num_data_sets": len(problem),
    }
    traces: dict[str, Any] = {}
    narrow: dict[int, Learned] = {}
    for name in sorted(config.priors, key=lambda name: (len(name), name)):
        cells = []
        for number, data in enumerate(problem):
            coarse = narrow.get(number) if name.startswith("tcnn") else None
            learned = learn(chains, f"{name}-{number}", name, data, config, coarse=coarse)
            if name.startswith("tcnn"):
                narrow.setdefault(number, learned)
            cells.append(_cell(learned, name, data, config, rides, films))
            if number == 0:
                traces[name] = learned.run.to_arviz()["posterior"].to_dataset()
        numbers["priors"][name] = _prior(cells)
        numbers["cells"] += cells
    numbers["priors"] = {name: numbers["priors"][name] for name in config.priors}
    numbers["paired"] = _pairs(numbers)
    numbers["seconds"] = {"total": time.perf_counter() - began}
    nested = {f"{name}/posterior": tree for name, tree in traces.items()}
    return Result(numbers, xr.DataTree.from_dict(nested), _arrays(problem[0], rides, films))


def _cell(
    learned: Learned,
    name: str,
    data: DataSet,
    config: HalfCheetahConfig,
    rides: Rides,
    films: dict[str, cheetah.Runs],
) -> dict[str, Any]:
    """Figures of one posterior, its policies' included."""
    figures = dict(learned.numbers) | {"prior": name, "seed": data.seed}
    for drive, policy in policies_of(learned, config).items():
        runs = ride(policy, data.seed, config)
        ridden = rides.add(f"{name} {drive}", runs)
        figures |= {f"{drive}_{key}": value for key, value in ridden.items()}
        if drive == "mean":
            films.setdefault(name, runs)
    return figures


def _prior(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over data sets; cells whose chains do not agree count, and are counted."""
    driven = tuple(f"{drive}_{key}" for drive in _DRIVES for key in ("distance", "falls"))
    return {
        "num_coordinates": cells[0]["num_coordinates"],
        "num_converged": sum(cell["is_converged"] for cell in cells),
        "rhat": [cell["rhat"] for cell in cells],
        "seconds": sum(cell["seconds"] for cell in cells),
        **over_data_sets(cells, (*_SCORES, *driven)),
    }


def _references(
    problem: list[DataSet], config: HalfCheetahConfig, rides: Rides, films: dict[str, cheetah.Runs]
) -> dict[str, Any]:
    """Experts and random actions, and what the commonest action and chance score."""
    ridden: dict[str, list[Mapping[str, float]]] = {}
    for data in problem:
        for name, policy in reference_policies(data.seed).items():
            runs = ride(policy, data.seed, config)
            films.setdefault(name, runs)
            ridden.setdefault(name, []).append(rides.add(name, runs))
        runs = ride_continuously(data.seed, config)
        ridden.setdefault("continuous expert", []).append(rides.add("continuous expert", runs))
    commonest = [float((data.tests.actions == data.commonest).mean()) for data in problem]
    return {
        "chance": 1 / cheetah.expert().num_actions,
        "commonest": over_data_sets([{"mean": share} for share in commonest], ("mean",))["mean"],
        "rides": {
            name: over_data_sets(cells, ("distance", "falls")) for name, cells in ridden.items()
        },
    }


def _clones(problem: list[DataSet], config: HalfCheetahConfig, rides: Rides) -> dict[str, Any]:
    """Classifiers of the same pairs."""
    figures = {}
    for method in CLONES:
        cells = []
        for data in problem:
            clone = clone_of(method, data)
            ridden = rides.add(method, ride(clone, data.seed, config))
            cells.append(clone_scores(clone, data) | ridden)
        figures[method] = over_data_sets(
            cells, ("mean", "balanced", "log_score", "distance", "falls")
        )
    return figures


def _coverage(data: DataSet, config: HalfCheetahConfig) -> dict[str, dict[str, float]]:
    """Of the first data set's demonstrations, and of other ways to make as many: of its tests."""
    collected = {"these demonstrations": data.demonstrations}
    for number, (name, scheme) in enumerate(SCHEMES.items(), _SCHEMES):
        collected[name] = cheetah.demonstrate(
            stream(config.seed, number), num_demonstrations=config.num_demonstrations, **scheme
        )
    return {
        name: coverage(seen.states, seen.actions, data.tests.states, cheetah.LOW, cheetah.HIGH)
        for name, seen in collected.items()
    }


def _shares(data: DataSet) -> list[float]:
    """How often each action is the expert's on the test set."""
    count = data.successors.shape[1]
    return (np.bincount(data.tests.actions, minlength=count) / len(data.tests.actions)).tolist()


def _pairs(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Differences of accuracy by the mean, over data sets: each prior beside every yardstick."""
    each = {"commonest action": numbers["references"]["commonest"]["each"]}
    each |= {name: figures["mean"]["each"] for name, figures in numbers["clones"].items()}
    each |= {name: figures["mean"]["each"] for name, figures in numbers["priors"].items()}
    return [
        {"prior": name, "beside": other, **_paired(each[name], values)}
        for name in numbers["priors"]
        if name.startswith("tcnn")
        for other, values in each.items()
        if other != name
    ]


def _paired(ours: list[float], theirs: list[float]) -> dict[str, float | None]:
    """Mean, standard error, and the two-sided p-value of Student's paired test."""
    gaps = np.asarray(ours) - np.asarray(theirs)
    if len(gaps) < 2 or np.ptp(gaps) == 0:
        return {"difference": float(gaps.mean()), "error": None, "p_value": None}
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    p_value = 2 * float(stats.t.sf(abs(mean) / error, len(gaps) - 1))
    return {"difference": mean, "error": error, "p_value": p_value}


def _arrays(data: DataSet, rides: Rides, films: Mapping[str, cheetah.Runs]) -> xr.Dataset:
    """Distance curves, pictures of single episodes, and the state of the boxplot."""
    curves = {name: np.concatenate(parts, axis=1) for name, parts in rides.curves.items()}
    steps = next(iter(curves.values())).shape[0] - 1
    shown = np.linspace(0, steps, _PICTURES).astype(int)
    return xr.Dataset(
        {
            "distance": (("policy", "step", "episode"), np.stack(list(curves.values()))),
            "film": (
                ("film_name", "picture", "state"),
                np.stack([runs.states[shown, 0] for runs in films.values()]),
            ),
            "film_distance": (
                ("film_name", "picture"),
                np.stack([runs.distance[shown, 0] for runs in films.values()]),
            ),
            "test_expert": ("test", data.tests.actions[:WATCHED]),
            "actions": (("action", "control"), cheetah.expert().actions),
        },
        coords={
            "policy": list(curves),
            "film_name": list(films),
            "picture_step": ("picture", shown),
        },
    )


EXPERIMENT = Experiment(
    name="half-cheetah",
    summary="a value function on 17 inputs from 100 choices: accuracy, distance, and cloning",
    presets={
        "quick": HalfCheetahConfig(
            priors=("tcnn-10", "kl-2"),
            num_data_sets=1,
            num_demonstrations=40,
            num_tests=200,
            num_kicks=10,
            num_samples=40,
            max_samples=40,
            num_kept=20,
            num_episodes=3,
            num_steps=40,
        ),
        "paper": HalfCheetahConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
    takes_until=False,
)
