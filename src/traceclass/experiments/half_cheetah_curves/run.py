"""The half cheetah over the number of demonstrations, of irrelevant inputs, and of nodes."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

import traceclass as tc
from traceclass.control import half_cheetah as cheetah
from traceclass.experiments import cheetah as shared
from traceclass.experiments import cheetah_learned
from traceclass.experiments.cells import Cell, Done, Earlier, Measured
from traceclass.experiments.cheetah_learned import Coarse, cell_of, kicks_of
from traceclass.experiments.experiment import Result, check_table
from traceclass.experiments.half_cheetah_curves.settings import CheetahCurvesConfig

_SCORES = ("samples", "mean", "balanced", "log_score")
# Gradients of one timing, and timings of which the fastest counts.
_GRADIENTS, _TIMINGS = 20, 5


class Results(TypedDict):
    """Every point of every curve, clones at every size, and all table cells."""

    points: list[dict[str, Any]]
    clones: list[dict[str, Any]]
    cells: list[dict[str, Any]]
    num_data_sets: int


class Setting(NamedTuple):
    """One point of a curve: what varies, its value, and the prior."""

    curve: str
    value: int
    prior: str

    def cell(self, number: int) -> str:
        """The name of its table cell for one data set."""
        return f"{self.curve}-{self.prior}-{self.value}-{number}"

    @property
    def dim(self) -> int:
        """The number of inputs."""
        return self.value if self.curve == "dim" else cheetah.DIM


def check(config: CheetahCurvesConfig) -> None:
    """No table cell twice, priors that can be made, and data."""
    names = ("sizes", "size_priors", "dims", "dim_priors", "widths")
    check_table(config, **{name: getattr(config, name) for name in names})
    for setting in settings_of(config):
        shared.prior_of(setting.prior, dim=setting.dim)
    _data(config, 0)


def _data(config: CheetahCurvesConfig, number: int) -> shared.DataSet:
    """A data set with as many demonstrations as the largest size needs."""
    most = max((*config.sizes, config.num_demonstrations))
    return shared.data_set(config.seeds[number], config, most)


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


def _before(setting: Setting, config: CheetahCurvesConfig) -> Setting | None:
    """The point at whose ends the chains of this one begin, if there is one.

    Networks go on to more demonstrations, and trace-class ones to more nodes: a standard network's
    functions change with every node.
    """
    kind = setting.prior.partition("-")[0]
    if setting.curve == "size" and kind != "kl":
        same = [s for s in settings_of(config) if s.curve == "size" and s.prior == setting.prior]
    elif setting.curve == "width" and kind == "tcnn":
        same = [s for s in settings_of(config) if s.curve == "width" and s.prior.startswith(kind)]
    else:
        return None
    index = same.index(setting)
    return same[index - 1] if index else None


def _seen(setting: Setting, config: CheetahCurvesConfig, number: int) -> shared.DataSet:
    """The data of one point."""
    data = _data(config, number)
    if setting.curve == "size":
        return data.first(setting.value)
    first = data.first(config.num_demonstrations)
    return first.widened(setting.value) if setting.curve == "dim" else first


def _num_kicks(setting: Setting, config: CheetahCurvesConfig) -> int:
    """More by the square root of the number of demonstrations, from one point to the next."""
    before = _before(setting, config)
    if before is None:
        return kicks_of(setting.prior, config)
    sizes = [len(_seen(s, config, 0).successors) for s in (setting, before)]
    return max(1, round(_num_kicks(before, config) * np.sqrt(sizes[0] / sizes[1])))


def cells(config: CheetahCurvesConfig) -> dict[str, tuple[Setting, int]]:
    """Every point of every curve on every data set, by the name of its table cell."""
    numbers = range(config.num_data_sets)
    return {s.cell(number): (s, number) for s in settings_of(config) for number in numbers}


def cell(config: CheetahCurvesConfig, name: str, earlier: Earlier) -> Cell:
    """One point of a curve on one data set."""
    setting, number = cells(config)[name]
    before, coarse = _before(setting, config), None
    if before is not None:
        run, prior = earlier(before.cell(number)), shared.prior_of(before.prior, dim=before.dim)
        coarse = Coarse(run, prior, len(_seen(before, config, number).successors))
    data, labels = _seen(setting, config, number), setting._asdict()
    kicks = _num_kicks(setting, config)
    return cell_of(name, setting.prior, data, config, labels=labels, num_kicks=kicks, coarse=coarse)


def measure(config: CheetahCurvesConfig, cell: Cell, run: tc.Run) -> Measured:
    """Scores, and how far the mean's policy comes if it sees no irrelevant inputs."""
    setting, number = cells(config)[cell.name]
    data = _seen(setting, config, number)
    learned = cheetah_learned.learned_from(run, cell, setting.prior, data, config)
    if setting.curve == "dim":
        return Measured(learned.numbers)
    runs = shared.ride(cheetah_learned.policies_of(learned, config)["mean"], data.seed, config)
    return Measured(learned.numbers | shared.distances(runs))


def finish(config: CheetahCurvesConfig, done: Mapping[str, Done]) -> Result:
    """All curves, with cloning beside the first."""
    numbers: Results = {
        "points": [_point(setting, config, done) for setting in settings_of(config)],
        "clones": [_clones(config, size) for size in sorted(config.sizes)],
        "cells": [each.numbers for each in done.values()],
        "num_data_sets": config.num_data_sets,
    }
    return Result(dict(numbers), None, xr.Dataset(coords={"size": sorted(config.sizes)}))


def _point(setting: Setting, config: CheetahCurvesConfig, done: Mapping[str, Done]) -> dict:
    cells = [done[setting.cell(number)].numbers for number in range(config.num_data_sets)]
    names = _SCORES if setting.curve == "dim" else (*_SCORES, "distance")
    point = {
        **setting._asdict(),
        "rhat": max(cell["rhat"] for cell in cells),
        **shared.row_over(cells, names),
    }
    if setting.curve == "dim":
        prior = shared.prior_of(setting.prior, dim=setting.value)
        posterior = shared.posterior_of(prior, _seen(setting, config, 0), noise=config.noise)
        point["gradient_seconds"] = _gradient_seconds(posterior)
    return point


def _gradient_seconds(posterior: tc.Posterior) -> float:
    """Seconds for one value and gradient of the log-likelihood: the fastest of some timings."""

    @jax.jit
    def many(z: Array) -> Array:
        gradient: Callable[[Array], Array] = jax.grad(posterior.log_likelihood)
        return jax.lax.fori_loop(0, _GRADIENTS, lambda _, z: z + 1e-9 * gradient(z), z)

    z = jnp.zeros(posterior.prior.num_coordinates)
    many(z).block_until_ready()
    timings = timeit.repeat(lambda: many(z).block_until_ready(), number=1, repeat=_TIMINGS)
    return min(timings) / _GRADIENTS


def _clones(config: CheetahCurvesConfig, size: int) -> dict[str, Any]:
    """All clones at one number of demonstrations, over the data sets."""
    row: dict[str, Any] = {"size": size}
    seen = [_data(config, number).first(size) for number in range(config.num_data_sets)]
    for method in shared.CLONES:
        cells = [shared.cloned(method, data, config)[0] for data in seen]
        row[method] = tc.scores.means_over(cells, ("mean", "balanced", "log_score", "distance"))
    return row
