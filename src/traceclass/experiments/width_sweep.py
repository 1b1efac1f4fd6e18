"""Acceptance rates against the width of the network (Table 1), and beyond it.

An acceptance rate is a mean over the posterior, so chains are run to be in it rather than long:
those of the trace-class prior begin at the draws of the next narrower network, with nodes added
(`Prior.prolong`), and where pCN no longer gets about, on the standard prior of fixed variances, a
Hamiltonian move follows each of its steps. Neither changes the rates.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pydantic
import xarray as xr
from jaxtyping import Array
from scipy.stats import t as student

from traceclass.control import mountain_car as car
from traceclass.errors import UserValueError
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.car import check_table, choices, keys_of, prior_of, standard_error
from traceclass.kernels import cycle, hmc, node_swap, pcn, pcnl
from traceclass.likelihoods import ActionChoice
from traceclass.posterior import Posterior
from traceclass.priors import Prior
from traceclass.sampling import Run
from traceclass.sampling.until import worst_of

_TENS = tuple(range(10, 101, 10))
# Table 1, in per cent; NodeSwap's two figures are from the appendix.
PAPER: dict[str, dict[int, float]] = {
    "tcnn_pcn": dict(
        zip(_TENS, (22.8, 24.0, 23.5, 22.1, 22.2, 23.1, 23.9, 23.4, 23.0, 23.9), strict=True)
    ),
    "bnn_fixed_pcn": dict(
        zip(_TENS, (21.2, 15.0, 10.9, 8.52, 6.81, 5.47, 4.25, 3.91, 2.97, 2.23), strict=True)
    ),
    "tcnn_node_swap": {10: 30.0, 100: 1.0},
}
# The text gives one BNN row; its variances are read in two ways.
PAPER["bnn_scaled_pcn"] = PAPER["bnn_fixed_pcn"]
# Kicks of the Hamiltonian moves; short ones, because they are only to bring chains about.
_NUM_KICKS = 8
# What a cycle of them and pCNL costs beside a step of pCN: three for a gradient.
_GRADIENT_COST = 3 * (_NUM_KICKS + 1)
# Steps of the Hamiltonian move on standard priors: adapted, they are 0.088 at width 10, and 0.022
# at width 100 if the variances are fixed.
_MOVER, _MOVER_EXPONENT = 0.088, -0.6


class WidthSweepConfig(Config):
    """Settings of `width-sweep`; the defaults are the paper's, and wider."""

    widths: tuple[pydantic.PositiveInt, ...] = (*_TENS, 200, 500, 1000)
    bnn_widths: tuple[pydantic.PositiveInt, ...] = _TENS
    gradient_widths: tuple[pydantic.PositiveInt, ...] = (10, 30, 100, 200, 500)
    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    step_size: float = 0.1
    bnn_step_size: float = 1 / 7
    pcnl_step_size: float = 0.003
    hmc_step_size: float = 0.035
    # Many short chains rather than few long ones: their starts are draws of the posterior already.
    num_chains: int = pydantic.Field(default=32, ge=2, le=10_000)
    # Steps of a chain: so many that it moves this many coordinates, within bounds.
    num_moved: pydantic.PositiveInt = 30_000_000
    min_steps: pydantic.PositiveInt = 60
    max_steps: pydantic.PositiveInt = 8_000
    # Cycles of HMC and pCNL, from the same starts: so many, or fewer at great widths.
    gradient_chains: int = pydantic.Field(default=16, ge=2, le=10_000)
    gradient_cycles: pydantic.PositiveInt = 200
    min_gradient_cycles: pydantic.PositiveInt = 20
    # Chains on standard priors begin at prior draws. With scaled variances they are of pCN alone;
    # with fixed ones a cycle is a step of pCN and a Hamiltonian move.
    bnn_chains: int = pydantic.Field(default=16, ge=2, le=10_000)
    bnn_steps: pydantic.PositiveInt = 2_000
    bnn_cycles: pydantic.PositiveInt = 200


class Problem(NamedTuple):
    """The demonstrations' likelihood, for networks of any width."""

    likelihood: ActionChoice


def build(config: WidthSweepConfig) -> Problem:
    """Demonstrations of the expert, and a check of steps and widths."""
    for kernel, size in (
        (pcn, config.step_size),
        (pcn, config.bnn_step_size),
        (pcnl, config.pcnl_step_size),
        (hmc, config.hmc_step_size),
    ):
        kernel.check_step_size(size)
    if list(config.widths) != sorted(set(config.widths)) or not config.widths:
        raise UserValueError(
            f"widths must rise, got {config.widths}: chains of a wider network begin at the draws "
            "of the one before."
        )
    check_table(
        config.seed, 1, bnn_widths=config.bnn_widths, gradient_widths=config.gradient_widths
    )
    if config.gradient_chains > config.num_chains:
        raise UserValueError(
            f"gradient_chains ({config.gradient_chains}) must not exceed num_chains "
            f"({config.num_chains}), at whose ends they begin."
        )
    missing = set(config.gradient_widths) - set(config.widths)
    if missing:
        raise UserValueError(
            f"gradient_widths must be among widths, got {min(missing)}: their chains begin at the "
            "draws of pCN."
        )
    demonstrations = car.demonstrate(
        keys_of(config.seed).data, num_demonstrations=config.num_demonstrations
    )
    return Problem(choices(demonstrations, noise=config.noise))


def run(problem: Problem, config: WidthSweepConfig, chains: Chains) -> Result:
    """All cells, and their acceptance rates in per cent."""
    began = time.perf_counter()
    cells = _trace_class_cells(problem, config, chains)
    for width in config.bnn_widths:
        cells += _standard_cells(problem, config, chains, width)
    numbers = {"cells": cells, "seconds": {"total": time.perf_counter() - began}}
    return Result(numbers, None, xr.Dataset(coords={"width": list(config.widths)}))


def _trace_class_cells(
    problem: Problem, config: WidthSweepConfig, chains: Chains
) -> list[dict[str, Any]]:
    """pCN and NodeSwap at every width, pCNL and HMC from the same starts at some."""
    cells, before, positions = [], None, None
    for width in config.widths:
        prior = prior_of("tcnn", widths=(width,) * 3)
        steps = _num_steps(prior, config)
        if before is not None:
            positions = _prolonged(config.seed, before, positions, prior)
        swapped = chains.sample(
            f"tcnn-{width}",
            Posterior(prior, problem.likelihood),
            cycle(pcn, node_swap),
            step_size=config.step_size,
            # The first chains begin at prior draws, and are fast.
            num_warmup=steps if before is None else steps // 4,
            initial_positions=positions,
            **_draws(config.seed, config.num_chains, steps),
        )
        positions, before = swapped.last_positions, prior
        cells += _rates(swapped, width, prior, tcnn_pcn="pcn", tcnn_node_swap="node_swap")
        if width in config.gradient_widths:
            fewer = config.num_moved // (_GRADIENT_COST * prior.num_coordinates)
            steps = max(config.min_gradient_cycles, min(config.gradient_cycles, fewer))
            moved = chains.sample(
                f"tcnn-gradient-{width}",
                Posterior(prior, problem.likelihood),
                cycle(hmc.using(num_kicks=_NUM_KICKS), pcnl),
                step_size=(config.hmc_step_size, config.pcnl_step_size),
                num_warmup=steps // 4,
                initial_positions=positions[: config.gradient_chains],
                **_draws(config.seed, config.gradient_chains, steps),
            )
            cells += _rates(moved, width, prior, tcnn_hmc="hmc", tcnn_pcnl="pcnl")
    return cells


def _standard_cells(
    problem: Problem, config: WidthSweepConfig, chains: Chains, width: int
) -> list[dict[str, Any]]:
    """Both readings of the standard prior: variances 10 / (3 N_l), as the text has it, and 1/3.

    N_l is the width of layer l, so 1 for the output.
    """
    mover = hmc.using(num_kicks=_NUM_KICKS)
    mover_step = _MOVER * (width / 10) ** _MOVER_EXPONENT
    readings = {
        "scaled": (
            tuple(10 / (3 * n) for n in (width, width, width, 1)),
            pcn,
            config.bnn_step_size,
            config.bnn_steps,
        ),
        "fixed": (
            1 / 3,
            cycle(pcn, mover),
            (config.bnn_step_size, mover_step),
            config.bnn_cycles,
        ),
    }
    cells = []
    for reading, (variance, kernel, step_size, steps) in readings.items():
        prior = prior_of("bnn", widths=(width,) * 3, iid_variance=variance)
        sampled = chains.sample(
            f"bnn-{reading}-{width}",
            Posterior(prior, problem.likelihood),
            kernel,
            step_size=step_size,
            num_warmup=steps,
            **_draws(config.seed, config.bnn_chains, steps),
        )
        cells += _rates(sampled, width, prior, **{f"bnn_{reading}_pcn": "pcn"})
    return cells


def _num_steps(prior: Prior, config: WidthSweepConfig) -> int:
    """Steps of a chain of pCN."""
    wanted = config.num_moved // prior.num_coordinates
    return max(config.min_steps, min(config.max_steps, wanted))


def _draws(seed: int, num_chains: int, steps: int) -> dict[str, Any]:
    """Fifty draws or so of the log-likelihood; of few steps some less, ten steps apart."""
    thin = max(1, steps // 50, min(10, steps // 4))
    return {
        "num_chains": num_chains,
        "num_samples": steps // thin,
        "thin": thin,
        "seed": seed,
        "store_positions": False,
    }


def _prolonged(seed: int, before: Prior, positions: Any, prior: Prior) -> Array:
    """The same networks with nodes added, drawn from the prior."""
    keys = jax.random.split(
        jax.random.fold_in(jax.random.key(seed), prior.num_coordinates), len(positions)
    )
    return jax.vmap(lambda key, z: before.prolong(key, z, prior))(keys, positions)


def _rates(run: Run, width: int, prior: Prior, **moves: str) -> list[dict[str, Any]]:
    """Acceptance rates in per cent, with the standard error over chains."""
    _, rhat = worst_of(run.draws["log_likelihood"])
    cells = []
    for row, move in moves.items():
        number = list(run.moves).index(move)
        tried = run.tally.tried[..., number].sum(axis=1)
        rates = run.tally.acceptance_rate[..., number].astype(np.float64)
        by_chain = rates.sum(axis=1) / tried
        cells.append(
            {
                "row": row,
                "width": width,
                "num_coordinates": prior.num_coordinates,
                "acceptance": 100 * float(by_chain.mean()),
                "error": 100 * (standard_error(by_chain) or 0.0),
                **_drift(rates / run.thin),
                "paper": PAPER.get(row, {}).get(width),
                "step_size": run.tuning[move].get("step_size"),
                "steps": run.num_chains * run.num_steps,
                "rhat_log_likelihood": rhat,
                "mean_log_likelihood": float(run.draws["log_likelihood"].mean()),
                "seconds": run.compile_seconds + run.warmup_seconds + run.sampling_seconds,
                "compile_seconds": run.compile_seconds,
            }
        )
    return cells


def _drift(rates: np.ndarray) -> dict[str, Any]:
    """How far the rates (chains, draws) change from the first half of the draws to the second.

    Chains that are in the posterior do not drift, however slowly they move about in it. A cell is
    called drifting if Student's test over chains gives it less than one chance in a thousand.
    """
    half = rates.shape[1] // 2
    change = rates[:, half:].mean(axis=1) - rates[:, :half].mean(axis=1)
    drift, error = float(change.mean()), standard_error(change) or 0.0
    return {
        "drift": 100 * drift,
        "drift_error": 100 * error,
        "is_drifting": abs(drift) > error * float(student.ppf(1 - 0.0005, len(change) - 1)),
    }


def row_of(cells: Sequence[dict[str, Any]], row: str) -> list[dict[str, Any]]:
    """The cells of a row, by width."""
    return sorted((cell for cell in cells if cell["row"] == row), key=lambda cell: cell["width"])


EXPERIMENT = Experiment(
    name="width-sweep",
    summary="acceptance rates from width 10 to 1,000 beside Table 1, all kernels",
    presets={
        "quick": WidthSweepConfig(
            widths=(4, 8),
            bnn_widths=(8,),
            gradient_widths=(8,),
            num_chains=4,
            num_moved=100_000,
            max_steps=1_000,
            gradient_chains=4,
            bnn_chains=4,
            bnn_steps=500,
            bnn_cycles=50,
        ),
        "paper": WidthSweepConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
    takes_until=False,
)
