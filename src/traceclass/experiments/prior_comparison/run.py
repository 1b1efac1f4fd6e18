"""Three priors with about 20,000 parameters on one data set (Fig. prior_compare, top)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import jax.numpy as jnp
import numpy as np
import xarray as xr

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.experiments.car import TEST_STATES, likelihood_of, prior_of, value_differences
from traceclass.experiments.cells import Cell, Done, Earlier, Measured, agreed, diagnostics, traces
from traceclass.experiments.experiment import Result
from traceclass.experiments.prior_comparison.settings import DECIDED, PriorComparisonConfig
from traceclass.sampling.diagnostics import mean_and_error


class Results(TypedDict):
    """For each prior its chains, and what its posterior says at the test states."""

    priors: dict[str, dict[str, Any]]


def check(config: PriorComparisonConfig) -> None:
    """The priors can be made, and the noise can be used."""
    for name in config.priors:
        _prior(config, name)
    likelihood_of(config)


def _prior(config: PriorComparisonConfig, name: Any) -> tc.Prior:
    return prior_of(name, widths=config.widths, max_frequency=config.max_frequency)


def cells(config: PriorComparisonConfig) -> list[str]:
    """One per prior."""
    return list(dict.fromkeys(config.priors))


def cell(config: PriorComparisonConfig, name: str, _: Earlier) -> Cell:
    """The posterior of one prior, by HMC."""
    prior = _prior(config, name)
    return Cell(
        name=name,
        labels={"num_coordinates": prior.num_coordinates},
        posterior=tc.Posterior(prior, likelihood_of(config)),
        kernel=tc.hmc,
        record={"value_difference": value_differences(prior)},
        sampling=config.sampling | {"store_positions": False},
        until=agreed(config, "value_difference"),
    )


def measure(_config: PriorComparisonConfig, _cell: Cell, run: tc.Run) -> Measured:
    """At each test state: mean differences, and the share of draws in which each action is best."""
    differences = run.draws["value_difference"]
    best = differences.argmax(axis=-1)
    actions = range(car.NUM_ACTIONS)
    states = []
    for n in range(len(TEST_STATES)):
        shares = [mean_and_error((best[:, :, n] == action).astype(float)) for action in actions]
        leader = int(np.argmax([share["mean"] for share in shares]))
        states.append(
            {
                "difference": [mean_and_error(differences[:, :, n, action]) for action in actions],
                "share_best": shares,
                "decided": leader if shares[leader]["mean"] >= DECIDED else None,
            }
        )
    return Measured({**diagnostics(run), "states": states})


def finish(_: PriorComparisonConfig, done: Mapping[str, Done]) -> Result:
    """All posteriors, with their draws at the test states."""
    numbers: Results = {"priors": {name: each.numbers for name, each in done.items()}}
    arrays = xr.Dataset(
        {
            "test_states": (("test", "state"), np.array(TEST_STATES)),
            "test_expert": ("test", np.asarray(car.expert(jnp.array(TEST_STATES)))),
        }
    )
    runs = {name: each.run for name, each in done.items()}
    return Result(dict(numbers), traces(runs, "posterior"), arrays)
