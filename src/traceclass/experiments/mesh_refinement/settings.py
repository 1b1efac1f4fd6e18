"""Settings of `mesh-refinement`."""

from __future__ import annotations

from typing import Literal

import pydantic

from traceclass.experiments.experiment import Experiment, Sampled

KernelName = Literal["pcn", "pcnl", "hmc", "random_walk"]


class MeshRefinementConfig(Sampled):
    """Settings of `mesh-refinement`.

    Step sizes are found on the first of `modes` and of `cells`, and kept for all others: `modes`
    per side at the first grid, and grids of `cells` per side at the first number of modes.
    """

    kernels: tuple[KernelName, ...] = pydantic.Field(
        default=("pcn", "pcnl", "hmc", "random_walk"), min_length=1
    )
    modes: tuple[int, ...] = pydantic.Field(default=(25, 5, 10, 50), min_length=1)
    cells: tuple[int, ...] = pydantic.Field(default=(20, 10, 40, 80), min_length=1)
    noise: float = pydantic.Field(default=0.01, gt=0)
    num_chains: pydantic.PositiveInt = 16
    num_warmup: int = pydantic.Field(default=2_000, ge=400)
    # On the first grid; a grid of twice the cells costs ten times as much, and gets fewer.
    num_samples: int = pydantic.Field(default=240, ge=8)
    min_samples: int = pydantic.Field(default=30, ge=8)


EXPERIMENT = Experiment(
    name="mesh-refinement",
    summary="acceptance and ESS from 25 to 2,500 terms and from 10 to 80 cells, four kernels",
    quick=MeshRefinementConfig(
        kernels=("pcn", "random_walk"), modes=(4, 8), cells=(4, 6), num_chains=4,
        num_warmup=400, num_samples=20, min_samples=20,
    ),
    takes_until=False,
)  # fmt: skip
