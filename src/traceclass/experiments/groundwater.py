"""The permeability of an aquifer from 33 heads (Figs. GWF_results, posterior_predictive)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pydantic
import xarray as xr
from scipy.special import logsumexp

from traceclass.errors import UserValueError
from traceclass.experiments.aquifer import (
    KERNELS,
    PICTURE,
    WELL_POINTS,
    KernelName,
    PriorName,
    Survey,
    at_picture,
    heads_of,
    kernel_of,
    likelihood_of,
    median_ess,
    one_draw,
    picture_points,
    prior_of,
    survey,
    true_flow,
    truth,
)
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.learned import RHAT_WANTED, diagnostics, mean_and_error
from traceclass.posterior import Posterior
from traceclass.sampling import Run
from traceclass.sampling.until import Until, worst_of

# Of intervals of heads.
LEVEL = 0.9
# Draws of the posterior predictive distribution in a box, the paper's number.
NUM_PREDICTIVE = 100
# A Laplace reference helps where there is one mode; networks have many.
ONE_MODE: tuple[PriorName, ...] = ("kl",)
# The kernel whose draws are shown, the first that ran.
SHOWN: tuple[KernelName, ...] = ("hmc", "laplace-hmc", "laplace-pcn", "pcnl", "pcn")
# Draws a chain after which these are left where they are on a network: they do not agree in three
# times as many either.
_SLOW_ON_NETWORKS: dict[KernelName, int] = {"pcn": 600, "pcnl": 600}
# Steps between draws.
_THIN = {"pcn": 50, "pcnl": 50, "hmc": 1, "laplace-pcn": 10, "laplace-hmc": 1}


class GroundwaterConfig(Config):
    """Settings of `groundwater`; the defaults are the paper's. `deep` is a network of 3 x 10."""

    priors: tuple[PriorName, ...] = pydantic.Field(default=("kl", "tcnn"), min_length=1)
    kernels: tuple[KernelName, ...] = pydantic.Field(
        default=("pcn", "pcnl", "hmc", "laplace-pcn", "laplace-hmc"), min_length=1
    )
    # The others take hours on the deeper network.
    deep_kernels: tuple[KernelName, ...] = ("hmc",)
    num_modes: int = pydantic.Field(default=25, ge=1, le=500)
    width: int = pydantic.Field(default=100, ge=1)
    cells: int = pydantic.Field(default=20, ge=2, le=200)
    noise: float = pydantic.Field(default=0.01, gt=0)
    num_held_out: int = pydantic.Field(default=50, ge=2)
    num_chains: pydantic.PositiveInt = 16
    num_warmup: int = pydantic.Field(default=1_000, ge=400)
    num_samples: pydantic.PositiveInt = 200
    max_samples: pydantic.PositiveInt = 1_800


class Problem(NamedTuple):
    """What was measured, and the posterior of each prior."""

    data: Survey
    posteriors: dict[PriorName, Posterior]


def build(config: GroundwaterConfig) -> Problem:
    """The paper's aquifer and wells, with noise of this seed."""
    for name in ("priors", "kernels", "deep_kernels"):
        chosen = getattr(config, name)
        if len(set(chosen)) < len(chosen):
            raise UserValueError(f"{name} names {', '.join(chosen)}: one of them twice.")
    for prior in config.priors:
        if not _kernels_of(prior, config):
            raise UserValueError(
                f"no kernel is left for the prior {prior!r}: Laplace references are for "
                f"{', '.join(ONE_MODE)}, whose posterior has one mode. Add e.g. hmc."
            )
    data = survey(config.seed, noise=config.noise, num_held_out=config.num_held_out)
    likelihood = likelihood_of(data, noise=config.noise, cells=config.cells)
    return Problem(
        data,
        {
            name: Posterior(
                prior_of(name, num_modes=config.num_modes, width=config.width), likelihood
            )
            for name in config.priors
        },
    )


def _kernels_of(prior: PriorName, config: GroundwaterConfig) -> list[KernelName]:
    """Those that were asked for; a Laplace reference only where there is one mode."""
    asked = config.deep_kernels if prior == "deep" else config.kernels
    return [kernel for kernel in asked if kernel in KERNELS or prior in ONE_MODE]


def run(problem: Problem, config: GroundwaterConfig, chains: Chains) -> Result:
    """Every kernel on every prior; pictures, predictions and scores of the draws of one of them."""
    began = time.perf_counter()
    cells: list[dict[str, Any]] = []
    scores: dict[str, Any] = {}
    arrays = _pictures_of_truth(problem.data)
    traces = {}
    for prior, posterior in problem.posteriors.items():
        runs = {}
        for kernel in _kernels_of(prior, config):
            runs[kernel] = _sample(problem.data, prior, kernel, posterior, config, chains)
            cells.append({"prior": prior, "kernel": kernel, **_figures(runs[kernel])})
        shown = next(kernel for kernel in SHOWN if kernel in runs)
        scores[prior] = {
            "num_coordinates": posterior.prior.num_coordinates,
            "kernel": shown,
            **_score(runs[shown], problem.data, config),
        }
        arrays |= _pictures(prior, runs[shown], posterior, config)
        traces[f"{prior}/posterior"] = runs[shown].to_arviz()["posterior"].to_dataset()
    numbers = {
        "cells": cells,
        "priors": scores,
        "noise": config.noise,
        "seconds": {"total": time.perf_counter() - began},
    }
    return Result(numbers, xr.DataTree.from_dict(traces), xr.Dataset(arrays))


def _sample(
    data: Survey,
    prior: PriorName,
    kernel: KernelName,
    posterior: Posterior,
    config: GroundwaterConfig,
    chains: Chains,
) -> Run:
    """Chains of one cell, until they agree about all heads and the log-likelihood."""
    is_long = _THIN[kernel] > 1
    return chains.sample(
        f"{prior}-{kernel}",
        posterior,
        kernel_of(kernel, posterior),
        record={"head": heads_of(posterior, data)},
        moments={"log_permeability": at_picture(posterior.prior)},
        until=Until(
            rhat=RHAT_WANTED,
            of=("head", "log_likelihood"),
            max_samples=max(config.num_samples, _most_draws(prior, kernel, config)),
        ),
        num_chains=config.num_chains,
        # As many as fill the vector registers of a core; half of the chains for two cores.
        group_size=max(1, config.num_chains // 2),
        num_warmup=config.num_warmup * (4 if is_long else 1),
        num_samples=config.num_samples,
        thin=_THIN[kernel],
        seed=config.seed,
        store_positions=max(1, config.num_samples // 10),
    )


def _most_draws(prior: PriorName, kernel: KernelName, config: GroundwaterConfig) -> int:
    if prior in ONE_MODE:
        return config.max_samples
    return min(config.max_samples, _SLOW_ON_NETWORKS.get(kernel, config.max_samples))


def _figures(sampled: Run) -> dict[str, Any]:
    """How good the chains are, on the heads and on the log-likelihood."""
    heads, level = sampled.draws["head"], sampled.draws["log_likelihood"]
    slowest, typical = worst_of(heads)[0], median_ess(heads)
    of_level = worst_of(level)[0]
    steps = sampled.num_chains * sampled.num_steps
    return {
        **diagnostics(sampled),
        "log_likelihood": mean_and_error(level),
        "steps_a_second": steps / sampled.sampling_seconds,
        "head_ess_per_second": slowest / sampled.sampling_seconds,
        "level_ess_per_second": of_level / sampled.sampling_seconds,
        "steps_per_head_ess": steps / slowest if slowest else None,
        "steps_per_median_head_ess": steps / typical if typical else None,
        "steps_per_level_ess": steps / of_level if of_level else None,
        "warnings": list(sampled.summary().warnings),
    }


def _score(sampled: Run, data: Survey, config: GroundwaterConfig) -> dict[str, Any]:
    """Held-out heads: how often intervals hold them, and the log-density they were predicted with.

    `coverage` is that of the true heads by intervals of the posterior, `predictive_coverage` that
    of noisy observations by those of the predictive distribution; the score is the mean of
    log p(observation | data), a mixture of Gaussians over the draws.
    """
    heads = _held_out(sampled)
    rng = np.random.default_rng(config.seed + 1)
    noisy = heads + config.noise * rng.normal(size=heads.shape)
    z = (data.held_out_observed - heads) / config.noise
    log_density = -0.5 * z**2 - np.log(config.noise * np.sqrt(2 * np.pi))
    log_score = logsumexp(log_density, axis=0) - np.log(len(heads))
    error = heads.mean(axis=0) - data.held_out_head
    return {
        "log_score": {
            "mean": float(log_score.mean()),
            "error": float(log_score.std(ddof=1) / np.sqrt(log_score.size)),
        },
        "coverage": _coverage(heads, data.held_out_head),
        "predictive_coverage": _coverage(noisy, data.held_out_observed),
        "head_error": float(np.sqrt(np.mean(error**2))),
    }


def _held_out(sampled: Run) -> np.ndarray:
    """Draws of the heads at the held-out points, (draws, points)."""
    heads = np.asarray(sampled.draws["head"], dtype=np.float64)
    return heads.reshape(-1, heads.shape[-1])[:, len(WELL_POINTS) :]


def _coverage(draws: np.ndarray, values: np.ndarray) -> float:
    low, high = np.quantile(draws, _ends(), axis=0)
    return float(np.mean((low <= values) & (values <= high)))


def _ends() -> tuple[float, float]:
    return (1 - LEVEL) / 2, (1 + LEVEL) / 2


def _pictures_of_truth(data: Survey) -> dict[str, Any]:
    _, head = true_flow()
    side = (PICTURE, PICTURE)
    return {
        "true_log_permeability": (
            ("x", "y"),
            np.asarray(truth(picture_points())).reshape(side),
        ),
        "true_head": (("node_x", "node_y"), np.asarray(head)),
        "wells": (("well", "coordinate"), WELL_POINTS),
        "observed": ("well", data.heads),
        "held_out": (("point", "coordinate"), data.held_out),
        "held_out_head": ("point", data.held_out_head),
        "held_out_observed": ("point", data.held_out_observed),
    }


def _pictures(
    prior: PriorName, sampled: Run, posterior: Posterior, config: GroundwaterConfig
) -> dict[str, Any]:
    """Log-permeabilities of one prior on a grid, and boxes of predicted heads at the wells."""
    mean, deviation = sampled.moments("log_permeability")
    positions = sampled.positions
    assert positions is not None
    at_draw = np.asarray(at_picture(posterior.prior)(positions[0, -1]))
    fields = {
        "prior_draw": one_draw(posterior.prior, config.seed),
        "posterior_draw": at_draw,
        "mean": mean,
        "sd": deviation,
    }
    pictures: dict[str, Any] = {
        f"{prior}_{name}": (("x", "y"), field.reshape(PICTURE, PICTURE))
        for name, field in fields.items()
    }
    heads = sampled.draws["head"][..., : len(WELL_POINTS)]
    heads = heads.reshape(-1, heads.shape[-1])
    chosen = np.linspace(0, len(heads) - 1, NUM_PREDICTIVE).astype(int)
    noise = np.random.default_rng(config.seed + 2).normal(size=(NUM_PREDICTIVE, heads.shape[-1]))
    pictures[f"{prior}_predictive"] = (
        ("predictive_draw", "well"),
        heads[chosen] + config.noise * noise,
    )
    low, high = np.quantile(_held_out(sampled), _ends(), axis=0)
    pictures[f"{prior}_held_out_low"] = ("point", low)
    pictures[f"{prior}_held_out_high"] = ("point", high)
    pictures[f"{prior}_held_out_mean"] = ("point", _held_out(sampled).mean(axis=0))
    return pictures


EXPERIMENT = Experiment(
    name="groundwater",
    summary="permeability of an aquifer from 33 heads: both priors, five kernels",
    presets={
        "quick": GroundwaterConfig(
            priors=("kl", "tcnn"),
            kernels=("hmc", "laplace-pcn"),
            num_modes=5,
            width=10,
            cells=6,
            num_chains=4,
            num_warmup=400,
            num_samples=40,
            max_samples=40,
        ),
        "paper": GroundwaterConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
)
