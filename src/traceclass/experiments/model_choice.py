"""Which alpha, which variance, which width? Evidence and held-out scores, and what is inferred."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np
import pydantic
import xarray as xr
from jaxtyping import Array

from traceclass.control import mountain_car as car
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.car import choices, held_out, keys_of
from traceclass.kernels import hmc, tempered
from traceclass.likelihoods import GaussianRegression
from traceclass.model_choice.comparison import Model, compare
from traceclass.module import Module
from traceclass.posterior import Posterior
from traceclass.priors import (
    Hyper,
    LogNormal,
    Prior,
    ShiftedLogNormal,
    TraceClassNetwork,
    scale_to_box,
)
from traceclass.sampling import Run
from traceclass.sampling.adaptation import MIN_WARMUP
from traceclass.sampling.diagnostics import LARGEST_RHAT
from traceclass.sampling.until import worst_of

ProblemName = Literal["mountain-car", "regression"]
# What the sweeps go over, each with the others at their base values.
SWEEPS = ("alpha", "variance", "width")
HIERARCHICAL = "inferred"
# Medians of the hyperpriors are the paper's numbers; a factor of e^sigma up or down is no surprise.
_SIGMA_ALPHA, _SIGMA_VARIANCE, _SIGMA_NOISE = 0.75, 1.0, 1.0


class ModelChoiceConfig(Config):
    """Settings of `model-choice`; the base values are those of the paper's mountain car."""

    problems: tuple[ProblemName, ...] = pydantic.Field(
        default=("mountain-car", "regression"), min_length=1
    )
    alphas: tuple[float, ...] = (1.01, 1.1, 1.25, 1.5, 2.0, 3.0)
    variances: tuple[float, ...] = (0.25, 1.0, 2.0, 4.0, 16.0)
    widths: tuple[pydantic.PositiveInt, ...] = (1, 2, 5, 10, 20, 50, 100, 200)
    alpha: float = 1.5
    variance: float = 2.0
    width: pydantic.PositiveInt = 10
    depth: int = pydantic.Field(default=3, ge=1, le=10)
    noise: float = 0.1
    regression_noise: float = 0.3
    num_observations: int = pydantic.Field(default=50, ge=2, le=100_000)
    num_held_out: int = pydantic.Field(default=200, ge=2, le=100_000)
    num_temperatures: int = pydantic.Field(default=12, ge=2, le=1_000)
    num_chains: pydantic.PositiveInt = 4
    num_warmup: int = pydantic.Field(default=600, ge=400)
    num_samples: pydantic.PositiveInt = 1_000
    # Of networks wider than this, a quarter of the draws and the shortest warm-up.
    widest_in_full: pydantic.PositiveInt = 50


class Data(NamedTuple):
    """A likelihood to learn from, one to be judged by, and how the network reads its inputs."""

    likelihood: Any
    held_out: Any
    num_inputs: int
    inputs: Any


class Candidate(NamedTuple):
    """One model: what is varied, to which value, and the prior; no value if all are inferred."""

    sweep: str
    value: float | None
    prior: Prior

    @property
    def name(self) -> str:
        return HIERARCHICAL if self.value is None else f"{self.sweep}-{self.value:g}"


class Problem(NamedTuple):
    """Data sets and their candidates, by the problem's name."""

    data: dict[ProblemName, Data]
    candidates: dict[ProblemName, list[Candidate]]


def target(x: np.ndarray) -> np.ndarray:
    """The function to be found by regression: a wave that quickens, with a kink at 0.3."""
    return np.sin(3 * x + 4 * x**2) + 0.8 * np.abs(x - 0.3)


def build(config: ModelChoiceConfig) -> Problem:
    """All data and all priors."""
    data: dict[ProblemName, Data] = {name: _DATA[name](config) for name in config.problems}
    return Problem(data, {name: _candidates(config, data[name]) for name in config.problems})


def _car(config: ModelChoiceConfig) -> Data:
    seen = car.demonstrate(keys_of(config.seed).data, num_demonstrations=config.num_observations)
    unseen = held_out(config.seed, config.num_held_out)
    learned, judged = (choices(part, noise=config.noise) for part in (seen, unseen))
    return Data(learned, judged, 2, scale_to_box(car.LOW, car.HIGH))


def _regression(config: ModelChoiceConfig) -> Data:
    rng = np.random.default_rng(config.seed)

    def drawn(count: int) -> GaussianRegression:
        x = rng.uniform(-1, 1, size=count)
        y = target(x) + config.regression_noise * rng.normal(size=count)
        return GaussianRegression(x[:, None], y, noise=config.regression_noise)

    return Data(drawn(config.num_observations), drawn(config.num_held_out), 1, None)


_DATA: dict[ProblemName, Callable[[ModelChoiceConfig], Data]] = {
    "mountain-car": _car,
    "regression": _regression,
}


def _candidates(config: ModelChoiceConfig, data: Data) -> list[Candidate]:
    """The base model once in each sweep that has its value, and the hierarchical one."""

    def network(**changed: Any) -> TraceClassNetwork:
        settings = {"alpha": config.alpha, "variance": config.variance, "width": config.width}
        settings |= changed
        return TraceClassNetwork(
            num_inputs=data.num_inputs,
            widths=(int(settings["width"]),) * config.depth,
            alpha=settings["alpha"],
            weight_variance=settings["variance"],
            bias_variance=settings["variance"],
            inputs=data.inputs,
        )

    values = {"alpha": config.alphas, "variance": config.variances, "width": config.widths}
    swept = [
        Candidate(sweep, value, network(**{sweep: value}))
        for sweep in SWEEPS
        for value in values[sweep]
    ]
    return [*swept, Candidate(HIERARCHICAL, None, _hierarchical(config, data, network()))]


def _hierarchical(config: ModelChoiceConfig, data: Data, network: TraceClassNetwork) -> Hyper:
    """Alpha and both variances inferred, and the noise of an observation; not that of a choice.

    Of a choice only v / noise is seen, so its noise is a variance of the last layer once more.
    """
    variance = LogNormal(median=config.variance, sigma=_SIGMA_VARIANCE)
    is_regression = isinstance(data.likelihood, GaussianRegression)
    noise = LogNormal(median=config.regression_noise, sigma=_SIGMA_NOISE)
    return Hyper(
        network,
        alpha=ShiftedLogNormal(low=1.0, median=config.alpha, sigma=_SIGMA_ALPHA),
        weight_variance=variance,
        bias_variance=variance,
        noise=noise if is_regression else None,
    )


class Inferred(Module):
    """z -> one hyperparameter; a module, so that runs of one shape compile once."""

    prior: Hyper
    name: str = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        return self.prior.hyperparameters(z)[self.name]


class Values(Module):
    """z -> the function at some points, whose R-hat says whether the chains agree."""

    values_of: Callable[[Array], Array]

    def __call__(self, z: Array) -> Array:
        values = self.values_of(z)
        return values - values[0]


# Points at which chains are compared, less the first.
_NUM_VALUES = 9


def run(problem: Problem, config: ModelChoiceConfig, chains: Chains) -> Result:
    """A tempered run for each candidate, and its scores."""
    began = time.perf_counter()
    numbers: dict[str, Any] = {"problems": {}, "base": _base(config)}
    posteriors = {}
    for name, candidates in problem.candidates.items():
        data = problem.data[name]
        cells: dict[str, dict[str, Any]] = {}
        for candidate in candidates:
            key = _key(candidate, config)
            if key not in cells:
                sampled = _sample(name, key, candidate, data, config, chains)
                scores = compare({key: sampled}, held_out=data.held_out).models[0]
                cells[key] = _cell(sampled, scores)
                if candidate.value is None:
                    posteriors |= _inferred(name, candidate, sampled)
        numbers["problems"][name] = {
            "sweeps": {
                sweep: [
                    {"value": c.value, "cell": _key(c, config)} | cells[_key(c, config)]
                    for c in candidates
                    if c.sweep == sweep
                ]
                for sweep in SWEEPS
            },
            HIERARCHICAL: cells[HIERARCHICAL]
            | {
                "posterior": _quantiles(name, posteriors),
                "prior": _prior_quantiles(candidates[-1]),
            },
        }
    numbers["seconds"] = {"total": time.perf_counter() - began}
    arrays = {n: (("draw",), draws) for n, draws in posteriors.items()}
    return Result(numbers, None, xr.Dataset(arrays))


def _base(config: ModelChoiceConfig) -> dict[str, float]:
    return {sweep: getattr(config, sweep) for sweep in SWEEPS}


def _key(candidate: Candidate, config: ModelChoiceConfig) -> str:
    """The cell of a candidate; the base model, which is in every sweep, has one."""
    if candidate.value is not None and candidate.value == getattr(config, candidate.sweep):
        return "base"
    return candidate.name


def _sample(
    name: str,
    key: str,
    candidate: Candidate,
    data: Data,
    config: ModelChoiceConfig,
    chains: Chains,
) -> Run:
    prior = candidate.prior
    points = np.asarray(data.held_out.points)
    few = points[:: max(1, len(points) // _NUM_VALUES)]
    record: dict[str, Any] = {"values": Values(prior.at(few))}
    if isinstance(prior, Hyper):
        record |= {each: Inferred(prior, each) for each in prior.names}
    is_wide = candidate.sweep == "width" and (candidate.value or 0) > config.widest_in_full
    return chains.sample(
        f"{name}-{key}",
        Posterior(prior, data.likelihood),
        tempered(hmc, num_temperatures=config.num_temperatures),
        record=record,
        num_chains=config.num_chains,
        num_warmup=MIN_WARMUP if is_wide else config.num_warmup,
        num_samples=-(-config.num_samples // 4) if is_wide else config.num_samples,
        seed=config.seed,
    )


def _cell(sampled: Run, scores: Model) -> dict[str, Any]:
    tempering, evidence = sampled.tempering, sampled.evidence
    rhat = max(worst_of(values)[1] for values in sampled.draws.values())
    return {
        "num_coordinates": sampled.last_positions.shape[1],
        "log_evidence": evidence.log_evidence,
        "log_evidence_error": evidence.standard_error,
        "thermodynamic": evidence.thermodynamic,
        "thermodynamic_error": evidence.thermodynamic_error,
        "held_out": scores.held_out.value,
        "held_out_error": scores.held_out.error,
        "elpd_loo": scores.elpd_loo.value,
        "elpd_loo_error": scores.elpd_loo.error,
        "num_influential": scores.num_influential,
        "barrier": tempering.barrier,
        "fewest_round_trips": int(tempering.round_trips.min()),
        "rhat": rhat,
        "warnings": list(sampled.summary().warnings),
        "is_converged": bool(rhat < LARGEST_RHAT),
        "seconds": sampled.compile_seconds + sampled.warmup_seconds + sampled.sampling_seconds,
    }


def _inferred(name: str, candidate: Candidate, sampled: Run) -> dict[str, np.ndarray]:
    assert isinstance(candidate.prior, Hyper)
    return {f"{name} {each}": sampled.draws[each].ravel() for each in candidate.prior.names}


_LEVELS = (0.05, 0.5, 0.95)


def _quantiles(name: str, posteriors: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """5, 50 and 95 % of every hyperparameter."""
    prefix = f"{name} "
    return {
        each.removeprefix(prefix): np.quantile(draws, _LEVELS).tolist()
        for each, draws in posteriors.items()
        if each.startswith(prefix)
    }


def _prior_quantiles(candidate: Candidate) -> dict[str, list[float]]:
    prior = candidate.prior
    assert isinstance(prior, Hyper)
    draws = jax.vmap(prior.hyperparameters)(prior.sample(jax.random.key(0), (4_000,)))
    return {name: np.quantile(np.asarray(d), _LEVELS).tolist() for name, d in draws.items()}


EXPERIMENT = Experiment(
    name="model-choice",
    summary="evidence and held-out score over alpha, variance and width, and all inferred",
    presets={
        "quick": ModelChoiceConfig(
            problems=("regression",),
            alphas=(1.1, 3.0),
            variances=(),
            widths=(5,),
            width=5,
            depth=1,
            num_observations=20,
            num_held_out=40,
            num_temperatures=5,
            num_warmup=400,
            num_samples=200,
        ),
        "paper": ModelChoiceConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
)
