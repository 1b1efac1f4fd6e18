"""Settings of `half-cheetah`, those that it shares with its curves, and the paper's Table 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from traceclass.experiments.experiment import Experiment, Repeated

# Table 2 of the paper: per cent of 100 test states, by samples and by means.
PAPER = {"kl-10": (20.1, 25.0), "bnn-100": (18.1, 20.0), "tcnn-100": (32.1, 42.0)}
# A kind and a size: networks have three layers of that width, series that many frequencies.
PriorName = Annotated[str, pydantic.StringConstraints(pattern=r"^(tcnn|bnn|kl)-[1-9][0-9]{0,3}$")]
# States of the test set whose value differences decide about convergence.
WATCHED = 10
# Schemes whose coverage is compared: episode length, every n-th kept, whose states.
_FIFTHS = {"episode_length": 100, "keep_every": 5}
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "first 4 states": {"episode_length": 4},
    "25 steps, restarts": {"episode_length": 25},
    "50 steps, restarts": {"episode_length": 50},
    "every 5th of 100 steps": _FIFTHS,
    "every 20th of 100 steps": {"episode_length": 100, "keep_every": 20},
    "every 5th of 100 steps, continuous expert": {**_FIFTHS, "states_from": "continuous"},
    "every 5th of 100 steps, exploration 0.2": {**_FIFTHS, "exploration": 0.2},
}


class CheetahConfig(Repeated):
    """Settings that the half-cheetah experiments share; the defaults are the paper's."""

    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=100, ge=1, le=100_000)
    episode_length: int = pydantic.Field(default=100, ge=1, le=10_000)
    keep_every: pydantic.PositiveInt = 5
    states_from: Literal["discretised", "continuous"] = "discretised"
    exploration: float = pydantic.Field(default=0.2, ge=0, le=1)
    num_data_sets: int = pydantic.Field(default=5, ge=1, le=1_000)
    num_tests: int = pydantic.Field(default=1_000, ge=WATCHED, le=100_000)
    # Kicks per trajectory: about a quarter turn at the steps that warm-up finds. If warm-up found
    # them too, they would vary from one data set to the next more than the posteriors do.
    num_kicks: pydantic.PositiveInt = 100
    num_chains: pydantic.PositiveInt = 4
    num_warmup: int = pydantic.Field(default=400, ge=400)
    max_samples: pydantic.PositiveInt = 400
    num_wide_chains: pydantic.PositiveInt = 2
    num_refined_warmup: pydantic.PositiveInt = 50
    num_wide_samples: pydantic.PositiveInt = 100
    max_wide_samples: pydantic.PositiveInt = 200
    num_kept: pydantic.PositiveInt = 100
    num_episodes: int = pydantic.Field(default=10, ge=1, le=10_000)
    num_steps: int = pydantic.Field(default=100, ge=1, le=10_000)


class HalfCheetahConfig(CheetahConfig):
    """Settings of `half-cheetah`; the defaults are the paper's, with more data sets and tests."""

    priors: tuple[PriorName, ...] = pydantic.Field(
        default=("tcnn-100", "tcnn-10", "bnn-100", "bnn-10", "kl-10", "kl-5"), min_length=1
    )


EXPERIMENT = Experiment(
    name="half-cheetah",
    summary="a value function on 17 inputs from 100 choices: accuracy, distance, and cloning",
    quick=HalfCheetahConfig(
        priors=("tcnn-10", "kl-2"), num_data_sets=1, num_demonstrations=40, num_tests=200,
        num_kicks=10, num_samples=40, max_samples=40, num_kept=20, num_episodes=3, num_steps=40,
    ),
    takes_until=False,
)  # fmt: skip
