"""Settings of `prior-draws`."""

from __future__ import annotations

from typing import Any

import pydantic

from traceclass.experiments.experiment import Config, Experiment

# Fig. KL_prior: variances (k1^2 + k2^2)^-alpha; FourierSeries writes the exponent as alpha/2.
KL_ALPHAS = (1.001, 1.5, 2.0)
# Fig. NN_prior: (alpha, variance of weights and biases), three hidden layers.
NETWORKS = ((1.5, 3.0), (1.5, 30.0), (1.0001, 30.0))
GALLERY_1D: dict[str, tuple[Any, ...]] = {
    "alpha": (1.01, 1.5, 2.0, 3.0),
    "depth": (1, 2, 3, 5),
    "variance": (1.0, 3.0, 10.0, 30.0),
    "activation": ("tanh", "erf", "relu", "hardtanh", "identity"),
}
GALLERY_2D = {"alpha": (1.01, 1.5, 3.0), "variance": (1.0, 5.0, 25.0)}


class PriorDrawsConfig(Config):
    """Settings of `prior-draws`."""

    width: pydantic.PositiveInt = 100
    max_frequency: pydantic.PositiveInt = 50
    grid: int = pydantic.Field(default=81, ge=3, le=1001)
    num_draws: pydantic.PositiveInt = 6


EXPERIMENT = Experiment(
    name="prior-draws",
    summary="draws from the Fourier and trace-class network priors, and galleries",
    quick=PriorDrawsConfig(width=20, max_frequency=8, grid=21, num_draws=3),
    has_chains=False,
)
