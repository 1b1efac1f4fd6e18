"""Acceptance rates against the width of the network (Table 1), and beyond it.

An acceptance rate is a mean over the posterior, so chains are run to be in it rather than long:
those of the trace-class prior begin at the draws of the next narrower network, with nodes added
(`Prior.prolong`), and where pCN no longer gets about, on the standard prior of fixed variances, a
Hamiltonian move follows each of its steps. Neither changes the rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import jax
import numpy as np
import xarray as xr

import traceclass as tc
from traceclass.draws import carried
from traceclass.errors import UserValueError
from traceclass.experiments.car import likelihood_of, prior_of
from traceclass.experiments.cells import Cell, Done, Earlier, Measured
from traceclass.experiments.experiment import Result, check_table
from traceclass.experiments.width_sweep.settings import PAPER, WidthSweepConfig
from traceclass.sampling.diagnostics import worst_of

# Kicks of the Hamiltonian moves; few, because they are only to bring chains about.
_NUM_KICKS = 8
# What a cycle of them and pCNL costs beside a step of pCN: three for a gradient.
_GRADIENT_COST = 3 * (_NUM_KICKS + 1)
# Steps of the Hamiltonian move on standard priors: adapted, they are 0.088 at width 10, and 0.022
# at width 100 if the variances are fixed.
_MOVER, _MOVER_EXPONENT = 0.088, -0.6


class Results(TypedDict):
    """Acceptance rates in per cent, one entry for each row of the table and width."""

    cells: list[dict[str, Any]]


class Posed(NamedTuple):
    """What a table cell is made of; `rows` has the row of the table that each move is in."""

    prior: tc.Prior
    kernel: tc.Kernel
    rows: dict[str, str]
    sampling: dict[str, Any]


def check(config: WidthSweepConfig) -> None:
    """Step sizes, widths and numbers of chains that fit each other."""
    for size in (config.step_size, config.bnn_step_size):
        tc.pcn.check_step_size(size)
    tc.pcnl.check_step_size(config.pcnl_step_size)
    tc.hmc.check_step_size(config.hmc_step_size)
    if list(config.widths) != sorted(set(config.widths)) or not config.widths:
        raise UserValueError(
            f"widths must rise, got {config.widths}: chains of a wider network begin at the draws "
            "of the one before."
        )
    check_table(config, bnn_widths=config.bnn_widths, gradient_widths=config.gradient_widths)
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
    likelihood_of(config)


def cells(config: WidthSweepConfig) -> list[str]:
    """pCN and NodeSwap at every width, pCNL and HMC at some; then both standard priors."""
    names = []
    for width in config.widths:
        names += [f"tcnn-{width}"]
        names += [f"tcnn-gradient-{width}"] if width in config.gradient_widths else []
    for width in config.bnn_widths:
        names += [f"bnn-scaled-{width}", f"bnn-fixed-{width}"]
    return names


def cell(config: WidthSweepConfig, name: str, earlier: Earlier) -> Cell:
    """A trace-class network by two kernels at a time, or a standard one."""
    kind, _, width = name.rpartition("-")
    if kind.startswith("bnn"):
        posed = _standard(config, int(width), kind.removeprefix("bnn-"))
    elif kind == "tcnn-gradient":
        posed = _by_gradients(config, int(width), earlier)
    else:
        posed = _trace_class(config, int(width), earlier)
    return Cell(
        name=name,
        labels={"width": int(width), "rows": posed.rows},
        posterior=tc.Posterior(posed.prior, likelihood_of(config)),
        kernel=posed.kernel,
        sampling={**posed.sampling, "seed": config.seed, "store_positions": False},
    )


def _trace_class(config: WidthSweepConfig, width: int, earlier: Earlier) -> Posed:
    """pCN and NodeSwap, from where the chains of the next narrower network ended."""
    prior, index = prior_of("tcnn", widths=(width,) * 3), config.widths.index(width)
    wanted = config.num_moved // prior.num_coordinates
    steps = max(config.min_steps, min(config.max_steps, wanted))
    # The first chains begin at prior draws, and are fast.
    num_warmup, begin = steps, None
    if index:
        narrower = config.widths[index - 1]
        before = prior_of("tcnn", widths=(narrower,) * 3)
        key = jax.random.fold_in(jax.random.key(config.seed), prior.num_coordinates)
        begin = carried(key, earlier(f"tcnn-{narrower}").last_positions, before, prior)
        num_warmup = steps // 4
    sampling = {"num_warmup": num_warmup, "initial_positions": begin}
    sampling |= {"step_size": config.step_size, **_draws(config.num_chains, steps)}
    rows = {"tcnn_pcn": "pcn", "tcnn_node_swap": "node_swap"}
    return Posed(prior, tc.cycle(tc.pcn, tc.node_swap), rows, sampling)


def _by_gradients(config: WidthSweepConfig, width: int, earlier: Earlier) -> Posed:
    """HMC and pCNL, from where pCN's chains ended."""
    prior = prior_of("tcnn", widths=(width,) * 3)
    fewer = config.num_moved // (_GRADIENT_COST * prior.num_coordinates)
    steps = max(config.min_gradient_cycles, min(config.gradient_cycles, fewer))
    sampling = {
        "step_size": (config.hmc_step_size, config.pcnl_step_size),
        "num_warmup": steps // 4,
        "initial_positions": earlier(f"tcnn-{width}").last_positions[: config.gradient_chains],
        **_draws(config.gradient_chains, steps),
    }
    kernel = tc.cycle(tc.hmc.using(num_kicks=_NUM_KICKS), tc.pcnl)
    return Posed(prior, kernel, {"tcnn_hmc": "hmc", "tcnn_pcnl": "pcnl"}, sampling)


def _standard(config: WidthSweepConfig, width: int, reading: str) -> Posed:
    """One reading of the standard prior: variances 10 / (3 N_l), as the text has it, or 1/3.

    N_l is the width of layer l, so 1 for the output.
    """
    variance, kernel = tuple(10 / (3 * n) for n in (width, width, width, 1)), tc.pcn
    step_size, steps = config.bnn_step_size, config.bnn_steps
    if reading == "fixed":
        variance, kernel = 1 / 3, tc.cycle(tc.pcn, tc.hmc.using(num_kicks=_NUM_KICKS))
        step_size = (config.bnn_step_size, _MOVER * (width / 10) ** _MOVER_EXPONENT)
        steps = config.bnn_cycles
    prior = prior_of("bnn", widths=(width,) * 3, iid_variance=variance)
    draws = _draws(config.bnn_chains, steps)
    sampling = {"step_size": step_size, "num_warmup": steps, **draws}
    return Posed(prior, kernel, {f"bnn_{reading}_pcn": "pcn"}, sampling)


def _draws(num_chains: int, steps: int) -> dict[str, Any]:
    """About fifty draws of the log-likelihood; fewer if there are few steps, ten steps apart."""
    thin = max(1, steps // 50, min(10, steps // 4))
    return {"num_chains": num_chains, "num_samples": steps // thin, "thin": thin}


def measure(_: WidthSweepConfig, cell: Cell, run: tc.Run) -> Measured:
    """Acceptance rates of each move in per cent, with the standard error over chains."""
    rhat = worst_of(run.draws["log_likelihood"])[1]
    width, rows = cell.labels["width"], []
    for row, move in cell.labels["rows"].items():
        number = list(run.moves).index(move)
        tried = run.tally.tried[..., number].sum(axis=1)
        rates = run.tally.acceptance_rate[..., number].astype(np.float64)
        by_chain = rates.sum(axis=1) / tried
        rows.append(
            {
                "row": row,
                "width": width,
                "num_coordinates": cell.posterior.prior.num_coordinates,
                "acceptance": 100 * float(by_chain.mean()),
                "error": 100 * (tc.scores.standard_error(by_chain) or 0.0),
                **tc.scores.drift(rates / run.thin),
                "paper": PAPER.get(row, {}).get(width),
                "step_size": run.tuning[move].get("step_size"),
                "steps": run.num_chains * run.num_steps,
                "rhat_log_likelihood": rhat,
                "mean_log_likelihood": float(run.draws["log_likelihood"].mean()),
                "seconds": run.compile_seconds + run.warmup_seconds + run.sampling_seconds,
                "compile_seconds": run.compile_seconds,
            }
        )
    return Measured({"moves": rows})


def finish(config: WidthSweepConfig, done: Mapping[str, Done]) -> Result:
    """The moves of all table cells."""
    numbers: Results = {"cells": [row for each in done.values() for row in each.numbers["moves"]]}
    return Result(dict(numbers), None, xr.Dataset(coords={"width": list(config.widths)}))
