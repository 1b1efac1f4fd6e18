"""Settings of `prior-comparison`, and what the paper says."""

from __future__ import annotations

import pydantic

from traceclass.experiments.experiment import Agreeing, Experiment, PriorName

# A posterior is decided about a state if one action is the best in this share of its draws.
DECIDED = 0.95
# What the paper says of all three posteriors at its five states.
PAPER = "undecided, undecided, undecided, left, left"


class PriorComparisonConfig(Agreeing):
    """Settings of `prior-comparison`; the defaults are the paper's."""

    priors: tuple[PriorName, ...] = pydantic.Field(default=("tcnn", "kl", "bnn"), min_length=1)
    widths: tuple[int, ...] = (100, 100, 100)
    max_frequency: pydantic.PositiveInt = 70
    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    num_warmup: int = pydantic.Field(default=600, ge=400)
    num_samples: pydantic.PositiveInt = 150


EXPERIMENT = Experiment(
    name="prior-comparison",
    summary="boxplots of centred values at five states under three large priors",
    quick=PriorComparisonConfig(
        priors=("tcnn", "kl"), widths=(8, 8), max_frequency=4, num_chains=4, num_warmup=400,
        num_samples=40, max_samples=40,
    ),
)  # fmt: skip
