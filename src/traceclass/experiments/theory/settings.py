"""Settings of `theory`."""

from __future__ import annotations

import pydantic

from traceclass.experiments.experiment import Config, Experiment


class TheoryConfig(Config):
    """Settings of `theory`."""

    alpha: float = 1.5
    variance: float = 2.0
    iid_variance: float = 1 / 3
    noise: float = 0.1
    saturation: float = 1.0
    widths: tuple[pydantic.PositiveInt, ...] = (16, 64, 256, 1024, 4096)
    num_draws: int = pydantic.Field(default=200, ge=2)
    refinement_sizes: tuple[pydantic.PositiveInt, ...] = (4, 8, 16, 32, 64, 128)
    reference_size: pydantic.PositiveInt = 1024


EXPERIMENT = Experiment(
    name="theory",
    summary="bounds and sums of the paper's theorems against the width",
    quick=TheoryConfig(
        widths=(8, 32), num_draws=20, refinement_sizes=(4, 8, 16), reference_size=64
    ),
    has_chains=False,
)
