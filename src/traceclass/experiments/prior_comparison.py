"""Three priors of some 20,000 parameters on one data set (Fig. prior_compare, top)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pydantic
import xarray as xr

from traceclass.control import mountain_car as car
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.experiments.car import (
    TEST_STATES,
    PriorName,
    choices,
    keys_of,
    prior_of,
    value_differences,
)
from traceclass.experiments.learned import RHAT_WANTED, diagnostics, mean_and_error
from traceclass.kernels import hmc
from traceclass.likelihoods import ActionChoice
from traceclass.posterior import Posterior
from traceclass.priors import Prior
from traceclass.sampling import Run
from traceclass.sampling.until import Until

# A posterior is decided about a state if one action is the best in this share of its draws.
DECIDED = 0.95
# What the paper says of all three posteriors at its five states.
PAPER = "undecided, undecided, undecided, left, left"


class PriorComparisonConfig(Config):
    """Settings of `prior-comparison`; the defaults are the paper's."""

    priors: tuple[PriorName, ...] = pydantic.Field(default=("tcnn", "kl", "bnn"), min_length=1)
    widths: tuple[int, ...] = (100, 100, 100)
    max_frequency: pydantic.PositiveInt = 70
    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    num_chains: pydantic.PositiveInt = 8
    num_warmup: int = pydantic.Field(default=600, ge=400)
    num_samples: pydantic.PositiveInt = 150
    max_samples: pydantic.PositiveInt = 1_000


class Problem(NamedTuple):
    """The priors and what the demonstrations say."""

    priors: dict[PriorName, Prior]
    likelihood: ActionChoice


def build(config: PriorComparisonConfig) -> Problem:
    """The three priors, large, and the paper's 50 demonstrations."""
    demonstrations = car.demonstrate(
        keys_of(config.seed).data, num_demonstrations=config.num_demonstrations
    )
    priors: dict[PriorName, Prior] = {
        name: prior_of(name, widths=config.widths, max_frequency=config.max_frequency)
        for name in config.priors
    }
    return Problem(priors, choices(demonstrations, noise=config.noise))


def run(problem: Problem, config: PriorComparisonConfig, chains: Chains) -> Result:
    """Posterior draws of the centred values at the test states, and who is decided about what."""
    began = time.perf_counter()
    numbers: dict[str, Any] = {"priors": {}}
    traces = {}
    for name, prior in problem.priors.items():
        sampled = chains.sample(
            name,
            Posterior(prior, problem.likelihood),
            hmc,
            record={"value_difference": value_differences(prior)},
            until=Until(
                rhat=RHAT_WANTED,
                of=("value_difference", "log_likelihood"),
                max_samples=max(config.num_samples, config.max_samples),
            ),
            num_chains=config.num_chains,
            num_warmup=config.num_warmup,
            num_samples=config.num_samples,
            seed=config.seed,
            store_positions=False,
        )
        numbers["priors"][name] = {
            "num_coordinates": prior.num_coordinates,
            **diagnostics(sampled),
            "states": _states(sampled),
        }
        traces[name] = sampled.to_arviz()
    numbers["seconds"] = {"total": time.perf_counter() - began}
    states = jnp.array(TEST_STATES)
    arrays = xr.Dataset(
        {
            "test_states": (("test", "state"), np.array(TEST_STATES)),
            "test_expert": ("test", np.asarray(car.expert(states))),
        }
    )
    nested = {f"{name}/posterior": tree["posterior"].to_dataset() for name, tree in traces.items()}
    return Result(numbers, xr.DataTree.from_dict(nested), arrays)


def _states(sampled: Run) -> list[dict[str, Any]]:
    """At each test state: mean differences, and the share of draws in which each action is best."""
    differences = sampled.draws["value_difference"]
    best = differences.argmax(axis=-1)
    states = []
    for number in range(len(TEST_STATES)):
        shares = [
            mean_and_error((best[:, :, number] == action).astype(float))
            for action in range(car.NUM_ACTIONS)
        ]
        leader = int(np.argmax([share["mean"] for share in shares]))
        states.append(
            {
                "difference": [
                    mean_and_error(differences[:, :, number, action])
                    for action in range(car.NUM_ACTIONS)
                ],
                "share_best": shares,
                "decided": leader if shares[leader]["mean"] >= DECIDED else None,
            }
        )
    return states


EXPERIMENT = Experiment(
    name="prior-comparison",
    summary="boxplots of centred values at five states under three large priors",
    presets={
        "quick": PriorComparisonConfig(
            priors=("tcnn", "kl"),
            widths=(8, 8),
            max_frequency=4,
            num_chains=4,
            num_warmup=400,
            num_samples=40,
            max_samples=40,
        ),
        "paper": PriorComparisonConfig(),
    },
    build=build,
    run=run,
    has_chains=True,
)
