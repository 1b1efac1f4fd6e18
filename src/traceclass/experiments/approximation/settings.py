"""Settings of `approximation`."""

from __future__ import annotations

import pydantic

from traceclass.experiments.experiment import Experiment, Sampled


class ApproximationConfig(Sampled):
    """Settings of `approximation`; observations are at every k-th node, k of `strides`.

    Strides are run at the first of `widths`, widths at the first of `strides`: the paper's.
    """

    strides: tuple[int, ...] = pydantic.Field(default=(1, 2, 4, 5), min_length=1)
    widths: tuple[int, ...] = pydantic.Field(default=(100, 10, 30, 300), min_length=1)
    noise: float = pydantic.Field(default=0.01, gt=0)
    num_samples: int = pydantic.Field(default=100, ge=4)


EXPERIMENT = Experiment(
    name="approximation",
    summary="a network's posterior mean of a function seen at 25 to 441 nodes, four widths",
    quick=ApproximationConfig(
        strides=(5, 10), widths=(8, 4), num_chains=4, num_warmup=400, num_samples=20
    ),
)
