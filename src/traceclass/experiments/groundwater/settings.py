"""Settings of `groundwater`."""

from __future__ import annotations

from typing import Literal

import pydantic

from traceclass.experiments.experiment import Agreeing, Experiment

PriorName = Literal["kl", "tcnn", "deep"]
KernelName = Literal["pcn", "pcnl", "hmc", "laplace-pcn", "laplace-hmc"]
# Intervals of hydraulic heads hold this share.
COVERAGE = 0.9
# Draws of the posterior predictive distribution in a box, the paper's number.
NUM_PREDICTIVE = 100


class GroundwaterConfig(Agreeing):
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
    num_samples: pydantic.PositiveInt = 200
    max_samples: pydantic.PositiveInt = 1_800


EXPERIMENT = Experiment(
    name="groundwater",
    summary="permeability of an aquifer from 33 heads: both priors, five kernels",
    quick=GroundwaterConfig(
        priors=("kl", "tcnn"), kernels=("hmc", "laplace-pcn"), num_modes=5, width=10, cells=6,
        num_chains=4, num_warmup=400, num_samples=40, max_samples=40,
    ),
)  # fmt: skip
