"""Table cells: posteriors whose chains are stored runs of their own, made from plain data."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

from traceclass.experiments import EXPERIMENTS
from traceclass.experiments.experiment import Config, Experiment, Result
from traceclass.kernels.base import KernelFactory
from traceclass.posterior import Posterior
from traceclass.sampling import Run, open_run, sample
from traceclass.sampling.diagnostics import STRICT, RhatLimit, worst_of
from traceclass.sampling.functionals import Functional
from traceclass.sampling.store import MANIFEST
from traceclass.sampling.until import Until
from traceclass.scores import standard_error

# The runs of table cells that were sampled before, by name.
Earlier = Callable[[str], Run]
# What is done with the numbers so far, after each table cell.
Keep = Callable[[Mapping[str, Any]], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One posterior of an experiment's table, and how its chains run.

    It is made from the experiment's name, its settings and the cell's own name alone (`make_cell`),
    so that any process can make it, and go on with its run, to the same draws.

    Attributes
    ----------
    name
        Its name in the run directory.
    labels
        What the table says about it: its prior, its kernel, its data set.
    posterior, kernel, record
        The arguments of `tc.sample`.
    sampling
        The other arguments of `tc.sample` that change its draws.
    until
        When the experiment wants its chains to stop; a user's wish comes first.
    """

    name: str
    labels: Mapping[str, Any]
    posterior: Posterior
    kernel: KernelFactory
    record: Mapping[str, Functional] = dataclasses.field(default_factory=dict)
    sampling: Mapping[str, Any]
    until: Until | None = None


class Chains(NamedTuple):
    """How an experiment is to run its chains: arguments of `tc.sample` that change no draw."""

    progress: bool = True
    store: Path | None = None
    resume: bool = False
    force: bool = False
    until: Until | None = None

    def sample(self, cell: Cell) -> Run:
        """Sample one cell. A cell that was not begun cannot be resumed: it begins."""
        store = None if self.store is None else self.store / cell.name
        is_begun = store is not None and (store / MANIFEST).exists()
        return sample(
            cell.posterior,
            cell.kernel,
            record=cell.record,
            **cell.sampling,
            progress=cell.name if self.progress else False,
            store=store,
            resume=self.resume and is_begun,
            force=self.force and is_begun,
            until=self.until or cell.until,
        )


def make_cell(experiment: str, settings: Mapping[str, Any], name: str, store: Path) -> Cell:
    """The table cell of that name, from plain data; cells that it begins from are in `store`."""
    found = EXPERIMENTS[experiment]
    # As JSON, where a list may stand for a tuple, as in a run directory's config.json.
    config = type(found.presets["quick"]).model_validate_json(json.dumps(dict(settings)))
    return found.program.cell(config, name, lambda before: open_run(store / before))


class Measured(NamedTuple):
    """The numbers of a table cell, as `results.json` has them, and what else `finish` needs."""

    numbers: dict[str, Any]
    kept: Any = None


class Done(NamedTuple):
    """A table cell that was sampled and measured."""

    cell: Cell
    run: Run
    numbers: dict[str, Any]
    kept: Any


def run_experiment(
    experiment: Experiment, config: Config, chains: Chains, keep: Keep = lambda _: None
) -> Result:
    """Run all table cells, then the rest. `keep` is given the numbers so far after each cell."""
    began = time.perf_counter()
    done = run_cells(experiment, config, chains, keep)
    result = experiment.program.finish(config, done)
    if experiment.has_chains:
        result.numbers["seconds"] = {"total": time.perf_counter() - began}
    return result


def run_cells(
    experiment: Experiment, config: Config, chains: Chains, keep: Keep = lambda _: None
) -> dict[str, Done]:
    """Sample and measure every table cell, in order."""
    done: dict[str, Done] = {}
    if not experiment.has_chains:
        return done
    for name in experiment.program.cells(config):
        cell = experiment.program.cell(config, name, lambda before: done[before].run)
        run = chains.sample(cell)
        numbers, kept = experiment.program.measure(config, cell, run)
        done[name] = Done(cell, run, {**cell.labels, **numbers}, kept)
        keep({"cells": {name: each.numbers for name, each in done.items()}})
    return done


def diagnostics(run: Run, limit: RhatLimit = STRICT) -> dict[str, Any]:
    """How the chains of a run went: the worst of all that is recorded and of the log-likelihood."""
    worst = [worst_of(values) for values in run.draws.values()]
    ess, rhat = min(e for e, _ in worst), max(r for _, r in worst)
    return {
        "acceptance_rate": run.acceptance_rate,
        "acceptance_error": standard_error(run.chain_acceptance_rates),
        "tuning": {k: float(v) for t in run.tuning.values() for k, v in t.items()},
        "rhat": rhat,
        "ess": ess,
        "is_converged": rhat < limit.largest,
        "draws": run.num_chains * run.num_samples,
        "steps": run.num_chains * run.num_steps,
        "ess_per_second": ess / run.sampling_seconds,
        "seconds": run.compile_seconds + run.warmup_seconds + run.sampling_seconds,
    }


def agreed(config: Any, *names: str, limit: RhatLimit = STRICT, most: int | None = None) -> Until:
    """Go on until the chains agree about what is named and about the log-likelihood."""
    of, enough = (*names, "log_likelihood"), max(config.num_samples, config.max_samples)
    return Until(rhat=limit.wanted, of=of, max_samples=most or enough)


def traces(runs: Mapping[str, Run], *groups: str) -> xr.DataTree:
    """The groups of ArviZ's tree of each run, under the run's name."""
    trees = {name: run.to_arviz() for name, run in runs.items()}
    return xr.DataTree.from_dict(
        {f"{n}/{group}": tree[group].to_dataset() for n, tree in trees.items() for group in groups}
    )
