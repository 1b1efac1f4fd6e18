"""Settings of `half-cheetah-curves`."""

from __future__ import annotations

import pydantic

from traceclass.errors import UserValueError
from traceclass.experiments.experiment import Experiment
from traceclass.experiments.half_cheetah.settings import CheetahConfig, PriorName

# The inputs of the half cheetah itself.
_DIM = 17


class CheetahCurvesConfig(CheetahConfig):
    """Settings of `half-cheetah-curves`; all but the lists are those of `half-cheetah`."""

    sizes: tuple[pydantic.PositiveInt, ...] = (25, 50, 100, 250, 1_000)
    size_priors: tuple[PriorName, ...] = ("tcnn-10", "bnn-10", "kl-5")
    # Beyond this a series is not sampled: 1,000 demonstrations of 8 actions are 8,000 points, each
    # of which sees all of its coefficients.
    max_series_size: pydantic.PositiveInt = 250
    dims: tuple[int, ...] = (17, 34, 68, 136)
    dim_priors: tuple[PriorName, ...] = ("tcnn-10", "bnn-10", "kl-2")
    widths: tuple[pydantic.PositiveInt, ...] = (10, 30, 100, 300)
    num_data_sets: int = pydantic.Field(default=3, ge=1, le=1_000)
    max_samples: pydantic.PositiveInt = 100
    num_wide_samples: pydantic.PositiveInt = 20
    max_wide_samples: pydantic.PositiveInt = 20
    num_refined_warmup: pydantic.PositiveInt = 20
    num_kept: pydantic.PositiveInt = 40

    @pydantic.field_validator("dims")
    @classmethod
    def _no_smaller_than_the_cheetah(cls, dims: tuple[int, ...]) -> tuple[int, ...]:
        if any(dim < _DIM for dim in dims):
            raise UserValueError(f"inputs are appended to the cheetah's {_DIM}; got {dims}")
        return dims


EXPERIMENT = Experiment(
    name="half-cheetah-curves",
    summary="accuracy and distance over demonstrations, irrelevant inputs and width",
    quick=CheetahCurvesConfig(
        sizes=(20, 40), size_priors=("tcnn-5",), dims=(17, 34), dim_priors=("tcnn-5",),
        widths=(4, 8), num_data_sets=1, num_demonstrations=30, num_tests=100, num_kicks=10,
        num_samples=10, max_samples=10, num_chains=2, num_kept=20, num_episodes=2, num_steps=20,
    ),
    takes_until=False,
)  # fmt: skip
