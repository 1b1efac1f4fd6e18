"""Does refining the function or the grid slow a sampler down? Not those that know the prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import jax
import numpy as np
import xarray as xr

import traceclass as tc
from traceclass.draws import carried
from traceclass.experiments import aquifer
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, diagnostics
from traceclass.experiments.experiment import Result, made_once
from traceclass.experiments.mesh_refinement.settings import KernelName, MeshRefinementConfig
from traceclass.sampling.diagnostics import median_ess, worst_of
from traceclass.sampling.moments import error_of_mean

_KERNELS = {"pcn": tc.pcn, "pcnl": tc.pcnl, "hmc": tc.hmc, "random_walk": tc.random_walk}
# Steps between draws: those of HMC are whole trajectories.
_THIN = {"pcn": 25, "pcnl": 25, "hmc": 1, "random_walk": 25}


class Results(TypedDict):
    """All table cells, distances of the mean fields, and the mesh where steps were found."""

    cells: list[dict[str, Any]]
    distances: list[dict[str, Any]]
    first: dict[str, int]


class Mesh(NamedTuple):
    """A function of `modes` per side on a grid of `cells` per side."""

    modes: int
    cells: int

    def cell(self, kernel: str) -> str:
        """The name of its table cell for one kernel."""
        return f"{kernel}-{self.modes}-modes-{self.cells}-cells"


def check(config: MeshRefinementConfig) -> None:
    """Every mesh can be made."""
    for mesh in _meshes(config):
        _posterior(config, mesh)


def _meshes(config: MeshRefinementConfig) -> list[Mesh]:
    """Meshes, the first being the one where steps are found."""
    meshes = [Mesh(modes, config.cells[0]) for modes in config.modes]
    return list(dict.fromkeys([*meshes, *(Mesh(config.modes[0], cells) for cells in config.cells)]))


def _survey(config: MeshRefinementConfig) -> aquifer.Survey:
    return aquifer.survey(config.seed, noise=config.noise, num_held_out=2)


@made_once
def _posterior(config: MeshRefinementConfig, mesh: Mesh) -> tc.Posterior:
    """The same wells on every mesh."""
    prior = aquifer.prior_of("kl", num_modes=mesh.modes)
    return aquifer.posterior_of(prior, _survey(config), noise=config.noise, cells=mesh.cells)


def cells(config: MeshRefinementConfig) -> dict[str, tuple[KernelName, Mesh]]:
    """Every kernel on every mesh, by the name of its table cell."""
    meshes = _meshes(config)
    return {mesh.cell(kernel): (kernel, mesh) for kernel in config.kernels for mesh in meshes}


def cell(config: MeshRefinementConfig, name: str, earlier: Earlier) -> Cell:
    """Chains on a mesh; on all but the first with its step, from where its chains ended."""
    kernel, mesh = cells(config)[name]
    first, posterior = _meshes(config)[0], _posterior(config, mesh)
    tuned: dict[str, Any] = {"step_size": "adapt"}
    factory = _KERNELS[kernel]
    if mesh != first:
        found, prior = earlier(first.cell(kernel)), _posterior(config, first).prior
        tuning, key = found.tuning[kernel], jax.random.key(config.seed)
        if "num_kicks" in tuning:
            factory = factory.using(num_kicks=int(tuning["num_kicks"]))
        tuned = {
            "step_size": float(tuning["step_size"]),
            "num_warmup": config.num_warmup // 10,
            "initial_positions": carried(key, found.last_positions, prior, posterior.prior),
        }
    share = min(1.0, (config.cells[0] / mesh.cells) ** 2)
    changes = {
        "num_samples": max(config.min_samples, int(share * config.num_samples)),
        "thin": _THIN[kernel],
        "store_positions": False,
    }
    labels, sampling = {"kernel": kernel, **mesh._asdict()}, config.sampling | changes | tuned
    return aquifer.cell_of(
        posterior, _survey(config), sampling, name=name, labels=labels, kernel=factory
    )


def measure(_: MeshRefinementConfig, cell: Cell, run: tc.Run) -> Measured:
    """Acceptance, and effective samples per step: of the median head, and the log-likelihood."""
    steps = run.num_chains * run.num_steps
    numbers = {
        "num_coordinates": cell.posterior.prior.num_coordinates,
        **diagnostics(run),
        "head_ess_per_step": median_ess(run.draws["head"]) / steps,
        "log_likelihood_ess_per_step": worst_of(run.draws["log_likelihood"])[0] / steps,
    }
    error = error_of_mean(run.running_moments["log_permeability"])
    return Measured(numbers, (*run.moments("log_permeability"), error))


def finish(config: MeshRefinementConfig, done: Mapping[str, Done]) -> Result:
    """Acceptance and effective samples on all meshes; distances of the mean fields."""
    numbers: Results = {
        "cells": [each.numbers for each in done.values()],
        "distances": _distances(config, done),
        "first": _meshes(config)[0]._asdict(),
    }
    return Result(dict(numbers), None, xr.Dataset())


def _distances(config: MeshRefinementConfig, done: Mapping[str, Done]) -> list[dict[str, Any]]:
    """How far the mean field on each mesh is from the one on the finest of its row."""
    kernel = "hmc" if "hmc" in config.kernels else config.kernels[0]
    meshes, distances = _meshes(config), []
    rows = {
        "modes": [m for m in meshes if m.cells == config.cells[0]],
        "cells": [m for m in meshes if m.modes == config.modes[0]],
    }
    for refined, row in rows.items():
        *coarser, finest = sorted(row, key=lambda mesh: getattr(mesh, refined))
        best, _, best_error = done[finest.cell(kernel)].kept
        for mesh in coarser:
            mean, deviation, error = done[mesh.cell(kernel)].kept
            distances.append(
                {
                    "refined": refined,
                    "size": getattr(mesh, refined),
                    "finest": getattr(finest, refined),
                    "distance": float(np.sqrt(np.mean((mean - best) ** 2))),
                    "error": float(np.hypot(error, best_error)),
                    "posterior_sd": float(np.sqrt(np.mean(deviation**2))),
                    "kernel": kernel,
                }
            )
    return distances
