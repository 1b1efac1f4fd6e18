"""Settings of `mountain-car`, and the paper's numbers."""

from __future__ import annotations

from typing import Literal

import pydantic

from traceclass.experiments.experiment import Experiment, KernelName, PriorName, Repeated

# Failures of 100 episodes with the noisy argmax of the posterior mean.
PAPER_FAILURES = {
    "tcnn": {"pcn": 23, "pcnl": 25},
    "kl": {"pcn": 34, "pcnl": 24},
    "bnn": {"pcn": 81, "pcnl": 80},
}


class CarConfig(Repeated):
    """Settings of the experiments that drive by what they learned; the defaults are the paper's."""

    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    num_kept: pydantic.PositiveInt = 1_000
    num_episodes: int = pydantic.Field(default=100, ge=1, le=100_000)
    max_steps: int = pydantic.Field(default=200, ge=1, le=100_000)
    num_held_out: int = pydantic.Field(default=200, ge=2, le=100_000)
    reference_grid: int = pydantic.Field(default=300, ge=10, le=2000)


class MountainCarConfig(CarConfig):
    """Settings of `mountain-car`; the defaults are the paper's models and data."""

    priors: tuple[PriorName, ...] = pydantic.Field(default=("tcnn", "kl", "bnn"), min_length=1)
    kernels: tuple[KernelName, ...] = pydantic.Field(default=("pcn", "pcnl", "hmc"), min_length=1)
    widths: tuple[int, ...] = (10, 10, 10)
    alpha: float = 1.5
    weight_variance: float = 2.0
    bias_variance: float = 2.0
    activation: str = "tanh"
    iid_variance: float = 1 / 3
    max_frequency: pydantic.PositiveInt = 7
    step_size: float | Literal["adapt"] = "adapt"
    # For pCN and pCNL; a tenth of it for HMC. At least 400 steps where step sizes are adapted.
    num_warmup: pydantic.NonNegativeInt = 10_000
    num_samples: pydantic.PositiveInt = 250
    max_samples: pydantic.PositiveInt = 4_000
    thin: pydantic.PositiveInt = 100
    grid: int = pydantic.Field(default=61, ge=2, le=1001)


EXPERIMENT = Experiment(
    name="mountain-car",
    summary="learn value functions from demonstrations, three priors by three kernels, and drive",
    quick=MountainCarConfig(
        priors=("tcnn", "kl"), kernels=("hmc",), num_data_sets=1, num_chains=4,
        num_warmup=4_000, num_samples=50, max_samples=50, num_kept=200, num_episodes=20,
        num_held_out=50, grid=21, reference_grid=60,
    ),
)  # fmt: skip
