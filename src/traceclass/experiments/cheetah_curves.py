"""The half cheetah over the number of demonstrations, of irrelevant inputs, and of nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pydantic
import xarray as xr
from jaxtyping import Array

from traceclass.control import half_cheetah as cheetah
from traceclass.errors import UserValueError
from traceclass.experiments.base import Chains, Experiment, Result
from traceclass.experiments.car import check_table
from traceclass.experiments.cheetah import (
    CheetahConfig,
    DataSet,
    PriorName,
    data_set,
    posterior_of,
    prior_of,
)
from traceclass.experiments.cheetah_learned import (
    Learned,
    learn,
)
from traceclass.experiments.cheetah_rides import (
    distances,
    policies_of,
    ride,
)
from traceclass.experiments.cheetah_scores import (
    CLONES,
    clone_of,
    clone_scores,
    over_data_sets,
)
from traceclass.experiments.driving import seeds_of
from traceclass.posterior import Posterior

_SCORES = ("samples", "mean", "balanced", "log_score")
# Gradients of one timing, and timings of which the fastest counts.
_GRADIENTS, _TIMINGS = 20, 5


class CheetahCurvesConfig(CheetahConfig):
    """Settings of `half-cheetah-curves`; all but the lists are those of `half-cheetah`."""

    sizes: tuple[pydantic.PositiveInt, ...] = (25, 50, 100, 250, 1_000)
    size_priors: tuple[PriorName, ...] = ("tcnn-10", "bnn-10", "kl-5")
    # Beyond this a series is not sampled: 1,000 demonstrations of 8 actions are 8,000 points, each
    # of which sees all of its coefficients.
    max_series_size: pydantic.PositiveInt = 250
    dims: tuple[int, ...] = (17, 34, 68, 136)
    dim_priors: tuple[PriorName, ...] = ("tcnn-10", "bnn-10", "kl-2")
    widths: tuple[pydantic.PositiveInt, ...] = (10, 30, 100, 300)
    num_data_sets: int = pydantic.Field(default=3, ge=1, le=1_000)
    num_samples: pydantic.PositiveInt = 100
    max_samples: pydantic.PositiveInt = 100
    num_wide_samples: pydantic.PositiveInt = 20
    max_wide_samples: pydantic.PositiveInt = 20
    num_refined_warmup: pydantic.PositiveInt = 20
    num_kept: pydantic.PositiveInt = 40

    @pydantic.field_validator("dims")
    @classmethod
    def _no_smaller_than_the_cheetah(cls, dims: tuple[int, ...]) -> tuple[int, ...]:
        if any(dim < cheetah.DIM for dim in dims):
            raise UserValueError(f"inputs are appended to the cheetah's {cheetah.DIM}; got {dims}")
        return dims


class Setting(NamedTuple):
    """One point of a curve: what varies, its value, and the prior."""

    curve: str
    value: int
    prior: str


def build(config: CheetahCurvesConfig) -> list[DataSet]:
    """Data sets with as many demonstrations as the largest size needs."""
    check_table(
        config.seed,
        config.num_data_sets,
        sizes=config.sizes,
        size_priors=config.size_priors,
        dims=config.dims,
        dim_priors=config.dim_priors,
        widths=config.widths,
    )
    for setting in settings_of(config):
        prior_of(setting.prior, dim=setting.value if setting.curve == "dim" else cheetah.DIM)
    most = max((*config.sizes, config.num_demonstrations))
    return [data_set(seed, config, most) for seed in seeds_of(config)]


def settings_of(config: CheetahCurvesConfig) -> list[Setting]:
    """Every point of every curve, in an order in which a run can begin where another ended."""
    by_size = [
        Setting("size", size, prior)
        for prior in config.size_priors
        for size in sorted(config.sizes)
        if size <= config.max_series_size or not prior.startswith("kl")
    ]
    by_dim = [Setting("dim", dim, prior) for prior in config.dim_priors for dim in config.dims]
    by_width = [
        Setting("width", width, f"{kind}-{width}")
        for kind in ("tcnn", "bnn")
        for width in sorted(config.widths)
    ]
    return [*by_size, *by_dim, *by_width]


def run(problem: list[DataSet], config: CheetahCurvesConfig, chains: Chains) -> Result:
    """All curves, with cloning beside the first."""
    began = time.perf_counter()
    learned: dict[tuple[str, str, int], Learned] = {}
    points, all_cells = [], []
    for setting in settings_of(config):
        cells = []
        for number, data in enumerate(problem):
            seen = _seen(setting, data, config)
            before = _before(setting)
            coarse = None if before is None else learned.get((setting.curve, before, number))
            cell = f"{setting.curve}-{setting.prior}-{setting.value}-{number}"
            found = learn(chains, cell, setting.prior, seen, config, coarse=coarse)
            if before is not None:
                learned[setting.curve, before, number] = found
            cells.append(_cell(found, setting, seen, config))
        points.append(_point(setting, cells, problem[0], config))
        all_cells += cells
    numbers = {
        "points": points,
        "clones": [_clones(problem, config, size) for size in sorted(config.sizes)],
        "cells": all_cells,
        "num_data_sets": len(problem),
        "seconds": {"total": time.perf_counter() - began},
    }
    return Result(numbers, None, xr.Dataset(coords={"size": sorted(config.sizes)}))


def _before(setting: Setting) -> str | None:
    """Under which name a run goes on from that of the point before, if it can.

    Networks go on to more demonstrations, and trace-class ones to more nodes: a standard network's
    functions change with every node.
    """
    kind = setting.prior.partition("-")[0]
    if setting.curve == "size" and kind != "kl":
        return setting.prior
    return kind if setting.curve == "width" and kind == "tcnn" else None


def _seen(setting: Setting, data: DataSet, config: CheetahCurvesConfig) -> DataSet:
    """The data of one point."""
    if setting.curve == "size":
        return data.first(setting.value)
    first = data.first(config.num_demonstrations)
    return first.widened(setting.value) if setting.curve == "dim" else first


def _cell(
    found: Learned, setting: Setting, data: DataSet, config: CheetahCurvesConfig
) -> dict[str, Any]:
    """Scores, and how far the mean's policy comes if it sees no irrelevant inputs."""
    figures = dict(found.numbers) | setting._asdict()
    if setting.curve != "dim":
        runs = ride(policies_of(found, config)["mean"], data.seed, config)
        figures |= distances(runs)
    return figures


def _point(
    setting: Setting, cells: list[dict[str, Any]], data: DataSet, config: CheetahCurvesConfig
) -> dict[str, Any]:
    names = _SCORES if setting.curve == "dim" else (*_SCORES, "distance")
    point = {
        **setting._asdict(),
        "num_coordinates": cells[0]["num_coordinates"],
        "num_converged": sum(cell["is_converged"] for cell in cells),
        "rhat": max(cell["rhat"] for cell in cells),
        **over_data_sets(cells, names),
    }
    if setting.curve == "dim":
        seen = _seen(setting, data, config)
        prior = prior_of(setting.prior, dim=setting.value)
        point["gradient_seconds"] = _gradient_seconds(posterior_of(prior, seen, noise=config.noise))
    return point


def _gradient_seconds(posterior: Posterior) -> float:
    """Of one value and gradient of the log-likelihood: the fastest of some timings."""

    @jax.jit
    def many(z: Array) -> Array:
        gradient: Callable[[Array], Array] = jax.grad(posterior.log_likelihood)
        return jax.lax.fori_loop(0, _GRADIENTS, lambda _, z: z + 1e-9 * gradient(z), z)

    z = jnp.zeros(posterior.prior.num_coordinates)
    many(z).block_until_ready()
    timings = []
    for _ in range(_TIMINGS):
        began = time.perf_counter()
        many(z).block_until_ready()
        timings.append((time.perf_counter() - began) / _GRADIENTS)
    return min(timings)


def _clones(problem: list[DataSet], config: CheetahCurvesConfig, size: int) -> dict[str, Any]:
    """All clones at one number of demonstrations, over the data sets."""
    figures: dict[str, Any] = {"size": size}
    for method in CLONES:
        cells = []
        for data in problem:
            seen = data.first(size)
            clone = clone_of(method, seen)
            cells.append(clone_scores(clone, seen) | distances(ride(clone, data.seed, config)))
        figures[method] = over_data_sets(cells, ("mean", "balanced", "log_score", "distance"))
    return figures


EXPERIMENT = Experiment(
    name="half-cheetah-curves",
    summary="accuracy and distance over demonstrations, irrelevant inputs and width",
    presets={
        "quick": CheetahCurvesConfig(
            sizes=(20, 40),
            size_priors=("tcnn-5",),
            dims=(17, 34),
            dim_priors=("tcnn-5",),
            widths=(4, 8),
            num_data_sets=1,
            num_demonstrations=30,
            num_tests=100,
            num_kicks=10,
            num_samples=10,
            max_samples=10,
            num_chains=2,
            num_kept=20,
            num_episodes=2,
            num_steps=20,
        ),
        "paper": CheetahCurvesConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
    takes_until=False,
)
