"""How near a network comes to a function it sees almost everywhere (Fig. approx_u)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pydantic
import xarray as xr

from traceclass.errors import UserValueError
from traceclass.experiments.aquifer import PICTURE, at_picture, picture_points, prior_of, truth
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.learned import diagnostics
from traceclass.kernels import hmc
from traceclass.likelihoods import DarcyFlow, GaussianRegression
from traceclass.posterior import Posterior

# The paper's grid, 20 x 20 cells. Fewer observations are every k-th node of it.
_CELLS = 20
# Of intervals mean +- 1.645 sd of the log-permeability.
_QUANTILE = 1.645


class ApproximationConfig(Config):
    """Settings of `approximation`; observations are at every k-th node, k of `strides`.

    Strides are run at the first of `widths`, widths at the first of `strides`: the paper's.
    """

    strides: tuple[int, ...] = pydantic.Field(default=(1, 2, 4, 5), min_length=1)
    widths: tuple[int, ...] = pydantic.Field(default=(100, 10, 30, 300), min_length=1)
    noise: float = pydantic.Field(default=0.01, gt=0)
    num_chains: pydantic.PositiveInt = 8
    num_warmup: int = pydantic.Field(default=1_000, ge=400)
    num_samples: int = pydantic.Field(default=100, ge=4)


class Cell(NamedTuple):
    """One posterior: observations at every `stride`-th node, a network of `width` nodes."""

    stride: int
    width: int
    posterior: Posterior

    @property
    def name(self) -> str:
        return f"{len(self.posterior.likelihood.points)}-observations-width-{self.width}"


def build(config: ApproximationConfig) -> list[Cell]:
    """A column of numbers of observations and a row of widths, which meet in the paper's cell."""
    for stride in config.strides:
        if stride < 1 or _CELLS % stride:
            raise UserValueError(f"strides must divide {_CELLS}, the cells a side; got {stride}.")
    pairs = [(stride, config.widths[0]) for stride in config.strides]
    pairs += [(config.strides[0], width) for width in config.widths]
    return [_cell(stride, width, config) for stride, width in dict.fromkeys(pairs)]


def _cell(stride: int, width: int, config: ApproximationConfig) -> Cell:
    points = DarcyFlow(cells=_CELLS // stride).nodes
    # Nodes of a coarser grid are seen with the noise they have in the finer one.
    noise = np.random.default_rng(config.seed).normal(size=(_CELLS + 1, _CELLS + 1))
    observed = truth(points) + config.noise * noise[::stride, ::stride].ravel()
    likelihood = GaussianRegression(points, observed, noise=config.noise)
    return Cell(stride, width, Posterior(prior_of("tcnn", width=width), likelihood))


def run(problem: list[Cell], config: ApproximationConfig, chains: Chains) -> Result:
    """The posterior mean of the log-permeability in every cell, and its distance from the truth."""
    began = time.perf_counter()
    cells, fields = [], {}
    true = np.asarray(truth(picture_points()), dtype=np.float64)
    for cell in problem:
        prior = cell.posterior.prior
        at_points = at_picture(prior)
        sampled = chains.sample(
            cell.name,
            cell.posterior,
            hmc,
            record={"value": prior.at(picture_points()[:: len(true) // 16])},
            moments={"value": at_points},
            num_chains=config.num_chains,
            num_warmup=config.num_warmup,
            num_samples=config.num_samples,
            seed=config.seed,
            store_positions=False,
        )
        mean, deviation = sampled.moments("value")
        fields[cell.name] = mean
        cells.append(
            {
                "cell": cell.name,
                "observations": len(cell.posterior.likelihood.points),
                "width": cell.width,
                "num_coordinates": prior.num_coordinates,
                "error": float(np.sqrt(np.mean((mean - true) ** 2))),
                "posterior_sd": float(np.sqrt(np.mean(deviation**2))),
                "coverage": float(np.mean(np.abs(mean - true) < _QUANTILE * deviation)),
                **diagnostics(sampled),
                "warnings": list(sampled.summary().warnings),
            }
        )
    side = (PICTURE, PICTURE)
    arrays = {f"mean_{name}": (("x", "y"), field.reshape(side)) for name, field in fields.items()}
    arrays["truth"] = (("x", "y"), true.reshape(side))
    numbers: dict[str, Any] = {
        "cells": cells,
        "shown": cells[0]["cell"],
        "true_sd": float(true.std()),
        "noise": config.noise,
        "seconds": {"total": time.perf_counter() - began},
    }
    return Result(numbers, None, xr.Dataset(arrays))


EXPERIMENT = Experiment(
    name="approximation",
    summary="a network's posterior mean of a function seen at 25 to 441 nodes, four widths",
    presets={
        "quick": ApproximationConfig(
            strides=(5, 10), widths=(8, 4), num_chains=4, num_warmup=400, num_samples=20
        ),
        "paper": ApproximationConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
)
