"""Settings of `model-choice`."""

from __future__ import annotations

from typing import Literal

import pydantic

from traceclass.experiments.experiment import Experiment, Sampled

ProblemName = Literal["mountain-car", "regression"]
# What the sweeps go over, each with the others at their base values.
SWEEPS = ("alpha", "variance", "width")
HIERARCHICAL = "inferred"


class ModelChoiceConfig(Sampled):
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
    # Networks wider than this get a quarter of the draws and the shortest warm-up.
    widest_in_full: pydantic.PositiveInt = 50


EXPERIMENT = Experiment(
    name="model-choice",
    summary="evidence and held-out score over alpha, variance and width, and all inferred",
    quick=ModelChoiceConfig(
        problems=("regression",), alphas=(1.1, 3.0), variances=(), widths=(5,), width=5,
        depth=1, num_observations=20, num_held_out=40, num_temperatures=5, num_warmup=400,
        num_samples=200,
    ),
)  # fmt: skip
