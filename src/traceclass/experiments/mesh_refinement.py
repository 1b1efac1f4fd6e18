"""Does refining the function or the grid slow a sampler down? Not those that know the prior."""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import xarray as xr

from traceclass.experiments.aquifer import (
    Survey,
    at_picture,
    heads_of,
    likelihood_of,
    median_ess,
    prior_of,
    survey,
)
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.learned import diagnostics
from traceclass.kernels import hmc, pcn, pcnl, random_walk
from traceclass.posterior import Posterior
from traceclass.sampling import Run
from traceclass.sampling.until import worst_of

KernelName = Literal["pcn", "pcnl", "hmc", "random_walk"]
KERNELS = {"pcn": pcn, "pcnl": pcnl, "hmc": hmc, "random_walk": random_walk}
# Steps between draws: HMC's are whole trajectories.
_THIN = {"pcn": 25, "pcnl": 25, "hmc": 1, "random_walk": 25}


class MeshRefinementConfig(Config):
    """Settings of `mesh-refinement`.

    Step sizes are found on the first of `modes` and of `cells`, and kept for all others: `modes` a
    side at the first grid, and grids of `cells` a side at the first number of modes.
    """

    kernels: tuple[KernelName, ...] = pydantic.Field(
        default=("pcn", "pcnl", "hmc", "random_walk"), min_length=1
    )
    modes: tuple[int, ...] = pydantic.Field(default=(25, 5, 10, 50), min_length=1)
    cells: tuple[int, ...] = pydantic.Field(default=(20, 10, 40, 80), min_length=1)
    noise: float = pydantic.Field(default=0.01, gt=0)
    num_chains: pydantic.PositiveInt = 16
    num_warmup: int = pydantic.Field(default=2_000, ge=400)
    # Of the first grid; a grid of twice the cells costs ten times as much, and gets fewer.
    num_samples: int = pydantic.Field(default=240, ge=8)
    min_samples: int = pydantic.Field(default=30, ge=8)


class Mesh(NamedTuple):
    """A function of `modes` a side on a grid of `cells` a side."""

    modes: int
    cells: int
    posterior: Posterior


class Problem(NamedTuple):
    """Meshes, the first being the one where steps are found."""

    data: Survey
    meshes: list[Mesh]


def build(config: MeshRefinementConfig) -> Problem:
    """The same wells on every mesh."""
    data = survey(config.seed, noise=config.noise, num_held_out=2)
    pairs = [(modes, config.cells[0]) for modes in config.modes]
    pairs += [(config.modes[0], cells) for cells in config.cells]
    return Problem(
        data,
        [
            Mesh(
                modes,
                cells,
                Posterior(
                    prior_of("kl", num_modes=modes),
                    likelihood_of(data, noise=config.noise, cells=cells),
                ),
            )
            for modes, cells in dict.fromkeys(pairs)
        ],
    )


def run(problem: Problem, config: MeshRefinementConfig, chains: Chains) -> Result:
    """Acceptance and effective samples a step at one step size on all meshes; means of HMC."""
    began = time.perf_counter()
    cells, means = [], {}
    first = problem.meshes[0]
    for kernel in config.kernels:
        found: Run | None = None
        for mesh in problem.meshes:
            name = f"{kernel}-{mesh.modes}-modes-{mesh.cells}-cells"
            sampled = _sample(problem.data, mesh, first, kernel, found, config, chains, name)
            found = found or sampled
            cells.append(
                {
                    "kernel": kernel,
                    "modes": mesh.modes,
                    "cells": mesh.cells,
                    "num_coordinates": mesh.posterior.prior.num_coordinates,
                    **_figures(sampled),
                }
            )
            mean, deviation = sampled.moments("log_permeability")
            means[name] = (mean, deviation, _mean_error(sampled))
    numbers = {
        "cells": cells,
        "distances": _distances(problem, config, means),
        "first": {"modes": first.modes, "cells": first.cells},
        "seconds": {"total": time.perf_counter() - began},
    }
    return Result(numbers, None, xr.Dataset())


def _sample(
    data: Survey,
    mesh: Mesh,
    first: Mesh,
    kernel: KernelName,
    found: Run | None,
    config: MeshRefinementConfig,
    chains: Chains,
    name: str,
) -> Run:
    """Chains on a mesh; on all but the first with its step, from where its chains ended."""
    tuned: dict[str, Any] = {"step_size": "adapt", "num_warmup": config.num_warmup}
    factory = KERNELS[kernel]
    if found is not None:
        tuning = found.tuning[kernel]
        if "num_kicks" in tuning:
            factory = factory.using(num_kicks=int(tuning["num_kicks"]))
        tuned = {
            "step_size": float(tuning["step_size"]),
            "num_warmup": config.num_warmup // 10,
            "initial_positions": _carried(found, first, mesh, config.seed),
        }
    share = min(1.0, (config.cells[0] / mesh.cells) ** 2)
    return chains.sample(
        name,
        mesh.posterior,
        factory,
        record={"head": heads_of(mesh.posterior, data)},
        moments={"log_permeability": at_picture(mesh.posterior.prior)},
        num_chains=config.num_chains,
        group_size=max(1, config.num_chains // 2),
        num_samples=max(config.min_samples, int(share * config.num_samples)),
        thin=_THIN[kernel],
        seed=config.seed,
        store_positions=False,
        **tuned,
    )


def _carried(found: Run, first: Mesh, mesh: Mesh, seed: int) -> Any:
    """Positions on `mesh` of the same functions as at the end of the first run."""
    positions, prior, to = found.last_positions, first.posterior.prior, mesh.posterior.prior
    if to.num_coordinates < prior.num_coordinates:
        return jax.vmap(lambda z: prior.restrict(z, to))(jnp.asarray(positions))
    keys = jax.random.split(jax.random.key(seed), len(positions))
    return jax.vmap(lambda key, z: prior.prolong(key, z, to))(keys, jnp.asarray(positions))


def _figures(sampled: Run) -> dict[str, Any]:
    """Acceptance, and effective samples a step: the median over heads, and the log-likelihood's."""
    heads, level = sampled.draws["head"], sampled.draws["log_likelihood"]
    steps = sampled.num_chains * sampled.num_steps
    return {
        **diagnostics(sampled),
        "head_ess_per_step": median_ess(heads) / steps,
        "level_ess_per_step": worst_of(level)[0] / steps,
    }


def _mean_error(sampled: Run) -> float:
    """The standard error of the mean field, from the spread of the chains' own means."""
    means = np.asarray(sampled.running_moments["log_permeability"].mean, dtype=np.float64)
    if len(means) < 2:
        return float("nan")
    return float(np.sqrt(np.mean(means.var(axis=0, ddof=1) / len(means))))


def _distances(
    problem: Problem, config: MeshRefinementConfig, means: dict[str, Any]
) -> list[dict[str, Any]]:
    """How far the mean field on each mesh is from that on the finest of its row."""
    kernel = "hmc" if "hmc" in config.kernels else config.kernels[0]
    rows = {
        "modes": [m for m in problem.meshes if m.cells == config.cells[0]],
        "cells": [m for m in problem.meshes if m.modes == config.modes[0]],
    }
    distances = []
    for refined, meshes in rows.items():
        ordered = sorted(meshes, key=lambda mesh: getattr(mesh, refined))
        finest, _, finest_error = means[
            f"{kernel}-{ordered[-1].modes}-modes-{ordered[-1].cells}-cells"
        ]
        for mesh in ordered[:-1]:
            mean, deviation, error = means[f"{kernel}-{mesh.modes}-modes-{mesh.cells}-cells"]
            distances.append(
                {
                    "refined": refined,
                    "size": getattr(mesh, refined),
                    "finest": getattr(ordered[-1], refined),
                    "distance": float(np.sqrt(np.mean((mean - finest) ** 2))),
                    "error": float(np.hypot(error, finest_error)),
                    "posterior_sd": float(np.sqrt(np.mean(deviation**2))),
                    "kernel": kernel,
                }
            )
    return distances


def level_of(cells: list[dict[str, Any]], kernel: str, refined: str, first: dict[str, int]) -> list:
    """The cells of a kernel in which only `refined` ("modes" or "cells") differs from the first."""
    other = "cells" if refined == "modes" else "modes"
    row = [c for c in cells if c["kernel"] == kernel and c[other] == first[other]]
    return sorted(row, key=lambda cell: cell[refined])


EXPERIMENT = Experiment(
    name="mesh-refinement",
    summary="acceptance and ESS from 25 to 2,500 terms and from 10 to 80 cells, four kernels",
    presets={
        "quick": MeshRefinementConfig(
            kernels=("pcn", "random_walk"),
            modes=(4, 8),
            cells=(4, 6),
            num_chains=4,
            num_warmup=400,
            num_samples=20,
            min_samples=20,
        ),
        "paper": MeshRefinementConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
    takes_until=False,
)
