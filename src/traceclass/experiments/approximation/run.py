"""How near a network comes to a function it sees almost everywhere (Fig. approx_u)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np
import xarray as xr

import traceclass as tc
from traceclass.errors import UserValueError
from traceclass.experiments.approximation.settings import ApproximationConfig
from traceclass.experiments.aquifer import PICTURE, picture, picture_points, prior_of, truth
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, diagnostics
from traceclass.experiments.experiment import Result

# The paper's grid, 20 x 20 cells. Fewer observations are every k-th node of it.
_CELLS = 20
# 90 % intervals are mean +- 1.645 sd of the log-permeability.
_QUANTILE = 1.645


class Results(TypedDict):
    """Errors of all table cells, and which of them is drawn."""

    cells: list[dict[str, Any]]
    shown: str
    true_sd: float
    noise: float


def check(config: ApproximationConfig) -> None:
    """Strides that fit the grid, and widths that can be used."""
    for stride in config.strides:
        if stride < 1 or _CELLS % stride:
            raise UserValueError(f"strides must divide {_CELLS}, the cells per side; got {stride}.")
    for width in config.widths:
        prior_of("tcnn", width=width)


def cells(config: ApproximationConfig) -> dict[str, tuple[int, int]]:
    """Strides and widths by name: all strides at the first width, all widths at the first stride.

    They meet in the paper's cell.
    """
    pairs = [(stride, config.widths[0]) for stride in config.strides]
    pairs += [(config.strides[0], width) for width in config.widths]
    return {
        f"{(_CELLS // stride + 1) ** 2}-observations-width-{width}": (stride, width)
        for stride, width in dict.fromkeys(pairs)
    }


def cell(config: ApproximationConfig, name: str, _: Earlier) -> Cell:
    """The posterior given every k-th node, by HMC."""
    stride, width = cells(config)[name]
    points = tc.DarcyFlow(cells=_CELLS // stride).nodes
    # Nodes of a coarser grid are seen with the noise they have in the finer one.
    noise = np.random.default_rng(config.seed).normal(size=(_CELLS + 1, _CELLS + 1))
    observed = truth(points) + config.noise * noise[::stride, ::stride].ravel()
    prior, shown = prior_of("tcnn", width=width), picture_points()
    changes = {"moments": {"value": prior.at(shown)}, "store_positions": False}
    return Cell(
        name=name,
        labels={"cell": name, "observations": len(points), "width": width},
        posterior=tc.Posterior(prior, tc.GaussianRegression(points, observed, noise=config.noise)),
        kernel=tc.hmc,
        record={"value": prior.at(shown[:: PICTURE**2 // 16])},
        sampling=config.sampling | changes,
    )


def measure(_: ApproximationConfig, cell: Cell, run: tc.Run) -> Measured:
    """The distance of the posterior mean of the log-permeability from the truth."""
    mean, deviation = run.moments("value")
    true = _true()
    numbers = {
        "num_coordinates": cell.posterior.prior.num_coordinates,
        "error": float(np.sqrt(np.mean((mean - true) ** 2))),
        "posterior_sd": float(np.sqrt(np.mean(deviation**2))),
        "coverage": float(np.mean(np.abs(mean - true) < _QUANTILE * deviation)),
        **diagnostics(run),
        "warnings": list(run.summary().warnings),
    }
    return Measured(numbers, mean)


def _true() -> np.ndarray:
    return np.asarray(truth(picture_points()), dtype=np.float64)


def finish(config: ApproximationConfig, done: Mapping[str, Done]) -> Result:
    """All errors, with the posterior means as fields."""
    true = _true()
    fields = {f"mean_{name}": each.kept for name, each in done.items()} | {"truth": true}
    numbers: Results = {
        "cells": [each.numbers for each in done.values()],
        "shown": next(iter(done)),
        "true_sd": float(true.std()),
        "noise": config.noise,
    }
    arrays = xr.Dataset({name: picture(field) for name, field in fields.items()})
    return Result(dict(numbers), None, arrays)
