"""Settings of `learning-curve`."""

from __future__ import annotations

import pydantic

from traceclass.experiments.experiment import Experiment, PriorName
from traceclass.experiments.mountain_car.settings import CarConfig


class LearningCurveConfig(CarConfig):
    """Settings of `learning-curve`; all but the sizes and noises are the paper's."""

    sizes: tuple[pydantic.PositiveInt, ...] = (5, 10, 20, 50, 100, 200, 400)
    noises: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    priors: tuple[PriorName, ...] = ("tcnn", "kl", "bnn")
    noise_prior: PriorName = "tcnn"
    num_warmup: int = pydantic.Field(default=600, ge=400)
    num_samples: pydantic.PositiveInt = 125
    max_samples: pydantic.PositiveInt = 400


EXPERIMENT = Experiment(
    name="learning-curve",
    summary="failures and held-out scores from 5 to 400 demonstrations, and over noise levels",
    quick=LearningCurveConfig(
        sizes=(5, 20), noises=(0.1,), priors=("kl",), noise_prior="kl", num_demonstrations=20,
        num_data_sets=1, num_chains=4, num_warmup=400, num_samples=50, max_samples=50,
        num_kept=100, num_episodes=10, num_held_out=50, reference_grid=60,
    ),
)  # fmt: skip
