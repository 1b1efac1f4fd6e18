"""The permeability of an aquifer from 33 heads (Figs. GWF_results, posterior_predictive)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import jax
import numpy as np
import xarray as xr
from scipy.special import logsumexp

import traceclass as tc
from traceclass.errors import UserValueError
from traceclass.experiments import aquifer
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, agreed, diagnostics, traces
from traceclass.experiments.experiment import Result, made_once
from traceclass.experiments.groundwater.settings import COVERAGE, NUM_PREDICTIVE, GroundwaterConfig
from traceclass.sampling.diagnostics import mean_and_error, median_ess, worst_of
from traceclass.scores import central, coverage, standard_error

# A Laplace reference helps where there is one mode; networks have many.
_ONE_MODE: tuple[str, ...] = ("kl",)
# The kernel whose draws are shown, the first that ran.
_SHOWN: tuple[str, ...] = ("hmc", "laplace-hmc", "laplace-pcn", "pcnl", "pcn")
# The largest number of draws per chain of these kernels on a network: with three times as many,
# their chains do not agree either.
_SLOW_ON_NETWORKS: dict[str, int] = {"pcn": 600, "pcnl": 600}
# Steps between draws.
_THIN = {"pcn": 50, "pcnl": 50, "hmc": 1, "laplace-pcn": 10, "laplace-hmc": 1}


class Results(TypedDict):
    """Chains of every prior and kernel, and what held-out heads say about each prior."""

    cells: list[dict[str, Any]]
    priors: dict[str, dict[str, Any]]
    noise: float


def check(config: GroundwaterConfig) -> None:
    """No kernel twice, and at least one for every prior."""
    for name in ("priors", "kernels", "deep_kernels"):
        chosen = getattr(config, name)
        if len(set(chosen)) < len(chosen):
            raise UserValueError(f"{name} names {', '.join(chosen)}: one of them twice.")
    for prior in config.priors:
        if not _kernels_of(prior, config):
            raise UserValueError(
                f"no kernel is left for the prior {prior!r}: Laplace references are for "
                f"{', '.join(_ONE_MODE)}, whose posterior has one mode. Add e.g. hmc."
            )
        _posterior(config, prior)


def _kernels_of(prior: str, config: GroundwaterConfig) -> list[str]:
    """The kernels that were asked for; a Laplace reference only where there is one mode."""
    asked = config.deep_kernels if prior == "deep" else config.kernels
    return [kernel for kernel in asked if kernel in aquifer.KERNELS or prior in _ONE_MODE]


def _survey(config: GroundwaterConfig) -> aquifer.Survey:
    """The paper's aquifer and wells, with noise of this seed."""
    return aquifer.survey(config.seed, noise=config.noise, num_held_out=config.num_held_out)


@made_once
def _posterior(config: GroundwaterConfig, prior: str) -> tc.Posterior:
    made = aquifer.prior_of(prior, num_modes=config.num_modes, width=config.width)
    return aquifer.posterior_of(made, _survey(config), noise=config.noise, cells=config.cells)


def cells(config: GroundwaterConfig) -> list[str]:
    """Prior and kernel."""
    return [f"{p}-{kernel}" for p in config.priors for kernel in _kernels_of(p, config)]


def cell(config: GroundwaterConfig, name: str, _: Earlier) -> Cell:
    """One kernel on the posterior of one prior, until the chains agree about all heads."""
    prior, kernel = name.split("-", 1)
    posterior, most = _posterior(config, prior), config.max_samples
    if prior not in _ONE_MODE:
        most = min(most, _SLOW_ON_NETWORKS.get(kernel, most))
    changes = {
        "num_warmup": config.num_warmup * (4 if _THIN[kernel] > 1 else 1),
        "thin": _THIN[kernel],
        "store_positions": max(1, config.num_samples // 10),
    }
    return aquifer.cell_of(
        posterior,
        _survey(config),
        config.sampling | changes,
        name=name,
        labels={"prior": prior, "kernel": kernel},
        kernel=aquifer.kernel_of(kernel, posterior),
        until=agreed(config, "head", most=max(config.num_samples, most)),
    )


def measure(_config: GroundwaterConfig, _cell: Cell, run: tc.Run) -> Measured:
    """How good the chains are, on the heads and on the log-likelihood."""
    steps = run.num_chains * run.num_steps
    worst = {name: worst_of(run.draws[name])[0] for name in ("head", "log_likelihood")}
    sizes = {"median_head": median_ess(run.draws["head"]), **worst}
    numbers = {
        **diagnostics(run),
        "log_likelihood": mean_and_error(run.draws["log_likelihood"]),
        "steps_per_second": steps / run.sampling_seconds,
        **{f"{n}_ess_per_second": ess / run.sampling_seconds for n, ess in worst.items()},
        **{f"steps_per_{n}_ess": steps / ess if ess else None for n, ess in sizes.items()},
        "warnings": list(run.summary().warnings),
    }
    return Measured(numbers)


def finish(config: GroundwaterConfig, done: Mapping[str, Done]) -> Result:
    """Pictures, predictions and scores from the draws of one kernel per prior."""
    arrays, priors, shown = _pictures_of_truth(_survey(config)), {}, {}
    for prior in config.priors:
        kernel = next(kernel for kernel in _SHOWN if f"{prior}-{kernel}" in done)
        run = shown[prior] = done[f"{prior}-{kernel}"].run
        priors[prior] = {
            "num_coordinates": _posterior(config, prior).prior.num_coordinates,
            "kernel": kernel,
            **_score(run, _survey(config), config),
        }
        arrays |= _pictures(prior, run, config)
    cells = [each.numbers for each in done.values()]
    numbers: Results = {"cells": cells, "priors": priors, "noise": config.noise}
    return Result(dict(numbers), traces(shown, "posterior"), xr.Dataset(arrays))


def _score(run: tc.Run, data: aquifer.Survey, config: GroundwaterConfig) -> dict[str, Any]:
    """Held-out heads: how often intervals hold them, and the log-density they were predicted with.

    `coverage` counts true heads in intervals of the posterior, `predictive_coverage` noisy
    observations in those of the predictive distribution; the score is the mean of
    log p(observation | data), a mixture of Gaussians over the draws.
    """
    heads = _held_out(run)
    rng = np.random.default_rng(config.seed + 1)
    noisy = heads + config.noise * rng.normal(size=heads.shape)
    z = (data.held_out_observed - heads) / config.noise
    log_density = -0.5 * z**2 - np.log(config.noise * np.sqrt(2 * np.pi))
    log_score = logsumexp(log_density, axis=0) - np.log(len(heads))
    error = heads.mean(axis=0) - data.held_out_head
    return {
        "log_score": {"mean": float(log_score.mean()), "error": standard_error(log_score)},
        "coverage": coverage(heads, data.held_out_head, level=COVERAGE),
        "predictive_coverage": coverage(noisy, data.held_out_observed, level=COVERAGE),
        "head_error": float(np.sqrt(np.mean(error**2))),
    }


def _held_out(run: tc.Run) -> np.ndarray:
    """Draws of the heads at the held-out points, (draws, points)."""
    heads = np.asarray(run.draws["head"], dtype=np.float64)
    return heads.reshape(-1, heads.shape[-1])[:, len(aquifer.WELL_POINTS) :]


def _pictures_of_truth(data: aquifer.Survey) -> dict[str, Any]:
    _, head = aquifer.true_flow()
    return {
        "true_log_permeability": aquifer.picture(aquifer.truth(aquifer.picture_points())),
        "true_head": (("node_x", "node_y"), np.asarray(head)),
        "wells": (("well", "coordinate"), aquifer.WELL_POINTS),
        "observed": ("well", data.heads),
        "held_out": (("point", "coordinate"), data.held_out),
        "held_out_head": ("point", data.held_out_head),
        "held_out_observed": ("point", data.held_out_observed),
    }


def _pictures(name: str, run: tc.Run, config: GroundwaterConfig) -> dict[str, Any]:
    """Log-permeabilities of one prior on a grid, and boxes of predicted heads at the wells."""
    prior, (mean, deviation) = _posterior(config, name).prior, run.moments("log_permeability")
    assert run.positions is not None
    field_of = prior.at(aquifer.picture_points())
    fields = {
        "prior_draw": field_of(prior.sample(jax.random.key(config.seed))),
        "posterior_draw": field_of(run.positions[0, -1]),
        "mean": mean,
        "sd": deviation,
    }
    heads = run.draws["head"][..., : len(aquifer.WELL_POINTS)]
    heads = heads.reshape(-1, heads.shape[-1])
    chosen = np.linspace(0, len(heads) - 1, NUM_PREDICTIVE).astype(int)
    noise = np.random.default_rng(config.seed + 2).normal(size=(NUM_PREDICTIVE, heads.shape[-1]))
    predictive = heads[chosen] + config.noise * noise
    held_out = _held_out(run)
    low, high = np.quantile(held_out, central(COVERAGE), axis=0)
    return {
        **{f"{name}_{each}": aquifer.picture(field) for each, field in fields.items()},
        f"{name}_predictive": (("predictive_draw", "well"), predictive),
        f"{name}_held_out_low": ("point", low),
        f"{name}_held_out_high": ("point", high),
        f"{name}_held_out_mean": ("point", held_out.mean(axis=0)),
    }
