"""Which alpha, which variance, which width? Evidence and held-out scores, and what is inferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.experiments.car import choices, demonstrations, held_out
from traceclass.experiments.cells import Cell, Done, Earlier, Measured
from traceclass.experiments.experiment import Result, made_once
from traceclass.experiments.model_choice.settings import HIERARCHICAL, SWEEPS, ModelChoiceConfig
from traceclass.module import Module
from traceclass.sampling.adaptation import MIN_WARMUP
from traceclass.sampling.diagnostics import USUAL, worst_of

# Medians of the hyperpriors are the paper's numbers; a factor of e^sigma up or down is no surprise.
_SIGMA_ALPHA, _SIGMA_VARIANCE, _SIGMA_NOISE = 0.75, 1.0, 1.0
# Points at which chains are compared, not counting the first.
_NUM_VALUES = 9
_PROBABILITIES = (0.05, 0.5, 0.95)


class Results(TypedDict):
    """For each problem the sweeps and the hierarchical model; the base values of the settings."""

    problems: dict[str, dict[str, Any]]
    base: dict[str, float]


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
    prior: tc.Prior

    @property
    def name(self) -> str:
        return HIERARCHICAL if self.value is None else f"{self.sweep}-{self.value:g}"


class Inferred(Module):
    """z -> one hyperparameter; a module, so that runs of one shape compile once."""

    prior: tc.Hyper
    name: str = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        return self.prior.hyperparameters(z)[self.name]


class Values(Module):
    """z -> the function at some points, whose R-hat says whether the chains agree."""

    values_of: Callable[[Array], Array]

    def __call__(self, z: Array) -> Array:
        values = self.values_of(z)
        return values - values[0]


def target(x: np.ndarray) -> np.ndarray:
    """The function to be found by regression: a wave that quickens, with a kink at 0.3."""
    return np.sin(3 * x + 4 * x**2) + 0.8 * np.abs(x - 0.3)


def check(config: ModelChoiceConfig) -> None:
    """All data and all priors can be made."""
    for problem in config.problems:
        candidates_of(config, problem)


@made_once
def data_of(config: ModelChoiceConfig, problem: str) -> Data:
    """What one problem is learned from and judged by."""
    if problem == "mountain-car":
        seen = demonstrations(config.seed, config.num_observations)
        unseen = held_out(config.seed, config.num_held_out)
        learned, judged = (choices(part, noise=config.noise) for part in (seen, unseen))
        return Data(learned, judged, 2, tc.scale_to_box(car.LOW, car.HIGH))
    rng = np.random.default_rng(config.seed)

    def drawn(count: int) -> tc.GaussianRegression:
        x = rng.uniform(-1, 1, size=count)
        y = target(x) + config.regression_noise * rng.normal(size=count)
        return tc.GaussianRegression(x[:, None], y, noise=config.regression_noise)

    return Data(drawn(config.num_observations), drawn(config.num_held_out), 1, None)


@made_once
def candidates_of(config: ModelChoiceConfig, problem: str) -> list[Candidate]:
    """The base model once in each sweep that has its value, and the hierarchical one."""
    data = data_of(config, problem)

    def network(**changed: Any) -> tc.TraceClassNetwork:
        settings = _base(config) | changed
        return tc.TraceClassNetwork(
            num_inputs=data.num_inputs,
            widths=(int(settings["width"]),) * config.depth,
            alpha=settings["alpha"],
            weight_variance=settings["variance"],
            bias_variance=settings["variance"],
            inputs=data.inputs,
        )

    values = {"alpha": config.alphas, "variance": config.variances, "width": config.widths}
    swept = [Candidate(s, value, network(**{s: value})) for s in SWEEPS for value in values[s]]
    return [*swept, Candidate(HIERARCHICAL, None, _hierarchical(config, data, network()))]


def _hierarchical(config: ModelChoiceConfig, data: Data, network: tc.TraceClassNetwork) -> tc.Hyper:
    """Alpha, both variances and the noise of an observation inferred; not the noise of a choice.

    A choice depends on v / noise alone, so its noise would be a second variance of the last layer.
    """
    variance = tc.LogNormal(median=config.variance, sigma=_SIGMA_VARIANCE)
    is_regression = isinstance(data.likelihood, tc.GaussianRegression)
    noise = tc.LogNormal(median=config.regression_noise, sigma=_SIGMA_NOISE)
    return tc.Hyper(
        network,
        alpha=tc.ShiftedLogNormal(low=1.0, median=config.alpha, sigma=_SIGMA_ALPHA),
        weight_variance=variance,
        bias_variance=variance,
        noise=noise if is_regression else None,
    )


def _base(config: ModelChoiceConfig) -> dict[str, float]:
    return {sweep: getattr(config, sweep) for sweep in SWEEPS}


def _key(candidate: Candidate, config: ModelChoiceConfig) -> str:
    """The name of a candidate's cell; the base model, which is in every sweep, has one."""
    if candidate.value is not None and candidate.value == getattr(config, candidate.sweep):
        return "base"
    return candidate.name


def cells(config: ModelChoiceConfig) -> dict[str, tuple[str, Candidate]]:
    """The first candidate of each name stands for all."""
    table: dict[str, tuple[str, Candidate]] = {}
    for problem in config.problems:
        for candidate in candidates_of(config, problem):
            table.setdefault(f"{problem}-{_key(candidate, config)}", (problem, candidate))
    return table


def cell(config: ModelChoiceConfig, name: str, _: Earlier) -> Cell:
    """A tempered run of one candidate."""
    problem, (sweep, value, prior) = cells(config)[name]
    data = data_of(config, problem)
    points = np.asarray(data.held_out.points)
    few = points[:: max(1, len(points) // _NUM_VALUES)]
    record: dict[str, Any] = {"values": Values(prior.at(few))}
    if isinstance(prior, tc.Hyper):
        record |= {each: Inferred(prior, each) for each in prior.names}
    fewer: dict[str, Any] = {}
    if sweep == "width" and (value or 0) > config.widest_in_full:
        fewer = {"num_warmup": MIN_WARMUP, "num_samples": -(-config.num_samples // 4)}
    return Cell(
        name=name,
        labels={},
        posterior=tc.Posterior(prior, data.likelihood),
        kernel=tc.tempered(tc.hmc, num_temperatures=config.num_temperatures),
        record=record,
        sampling=config.sampling | fewer,
    )


def measure(config: ModelChoiceConfig, cell: Cell, run: tc.Run) -> Measured:
    """Evidence, held-out score and leave-one-out score; the draws of hyperparameters are kept."""
    problem, candidate = cells(config)[cell.name]
    judged = data_of(config, problem).held_out
    scores = tc.compare({_key(candidate, config): run}, held_out=judged).models[0]
    tempering, evidence = run.tempering, run.evidence
    rhat = max(worst_of(values)[1] for values in run.draws.values())
    numbers = {
        "num_coordinates": run.last_positions.shape[1],
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
        "warnings": list(run.summary().warnings),
        "is_converged": bool(rhat < USUAL.largest),
        "seconds": run.compile_seconds + run.warmup_seconds + run.sampling_seconds,
    }
    names = candidate.prior.names if isinstance(candidate.prior, tc.Hyper) else ()
    return Measured(numbers, {name: run.draws[name].ravel() for name in names})


def finish(config: ModelChoiceConfig, done: Mapping[str, Done]) -> Result:
    """The sweeps of each problem, and what its hierarchical model infers."""
    numbers: Results = {"problems": {}, "base": _base(config)}
    arrays = {}
    for problem in config.problems:
        *swept, (_, _, hyper) = candidates_of(config, problem)
        sweeps: dict[str, list[Any]] = {sweep: [] for sweep in SWEEPS}
        for candidate in swept:
            key = _key(candidate, config)
            row = {"value": candidate.value, "cell": key, **done[f"{problem}-{key}"].numbers}
            sweeps[candidate.sweep].append(row)
        inferred = done[f"{problem}-{HIERARCHICAL}"]
        assert isinstance(hyper, tc.Hyper)
        drawn = jax.vmap(hyper.hyperparameters)(hyper.sample(jax.random.key(0), (4_000,)))
        found = {"posterior": _quantiles(inferred.kept), "prior": _quantiles(drawn)}
        numbers["problems"][problem] = {"sweeps": sweeps, HIERARCHICAL: inferred.numbers | found}
        arrays |= {f"{problem} {n}": (("draw",), draws) for n, draws in inferred.kept.items()}
    return Result(dict(numbers), None, xr.Dataset(arrays))


def _quantiles(draws: Mapping[str, Any]) -> dict[str, list[float]]:
    """5, 50 and 95 % of every hyperparameter."""
    return {n: np.quantile(np.asarray(d), _PROBABILITIES).tolist() for n, d in draws.items()}
