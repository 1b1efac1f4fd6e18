"""Draws from the priors: the paper's two figures and galleries of our own."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import xarray as xr

from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.priors import FourierSeries, Prior, TraceClassNetwork

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


class Problem(NamedTuple):
    """The priors of the paper's figures, by panel."""

    kl: list[Prior]
    networks: list[Prior]


def build(config: PriorDrawsConfig) -> Problem:
    """The six priors of the paper's two figures."""
    kl: list[Prior] = [
        FourierSeries(
            num_inputs=2,
            max_frequency=config.max_frequency,
            alpha=2 * alpha,
            interaction="full",
        )
        for alpha in KL_ALPHAS
    ]
    networks: list[Prior] = [
        _network(config.width, num_inputs=2, alpha=alpha, variance=variance)
        for alpha, variance in NETWORKS
    ]
    return Problem(kl, networks)


def run(problem: Problem, config: PriorDrawsConfig, chains: Chains) -> Result:
    """One draw a panel, from the same random numbers, so that only the setting differs."""
    del chains
    key = jax.random.key(config.seed)
    side = np.linspace(0.0, 1.0, config.grid)
    square = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    surfaces = {
        "kl": np.stack([_surface(prior, key, square, config.grid) for prior in problem.kl]),
        "network": np.stack(
            [_surface(prior, key, square, config.grid) for prior in problem.networks]
        ),
        "gallery_2d": np.stack(
            [
                _surface(
                    _network(config.width, num_inputs=2, alpha=alpha, variance=variance),
                    key,
                    square,
                    config.grid,
                )
                for alpha in GALLERY_2D["alpha"]
                for variance in GALLERY_2D["variance"]
            ]
        ),
    }
    line = np.linspace(-2.0, 2.0, 4 * config.grid)
    curves = {
        f"curves_{name}": np.stack([_curves(name, value, config, key, line) for value in values])
        for name, values in GALLERY_1D.items()
    }
    data: dict[str, Any] = {
        name: ((f"{name}_panel", "x1", "x2"), values) for name, values in surfaces.items()
    }
    data |= {name: ((f"{name}_panel", "draw", "x"), values) for name, values in curves.items()}
    arrays = xr.Dataset(data, coords={"x1": side, "x2": side, "x": line})
    return Result({"panels": _panels(surfaces)}, None, arrays)


def _network(
    width: int,
    *,
    num_inputs: int,
    alpha: float = 1.5,
    depth: int = 3,
    variance: float = 3.0,
    activation: str = "tanh",
) -> TraceClassNetwork:
    return TraceClassNetwork(
        num_inputs=num_inputs,
        widths=(width,) * depth,
        alpha=alpha,
        weight_variance=variance,
        bias_variance=variance,
        activation=activation,
    )


def _surface(prior: Prior, key: jax.Array, square: np.ndarray, grid: int) -> np.ndarray:
    return np.asarray(prior.evaluate(prior.sample(key), square)).reshape(grid, grid)


def _curves(
    name: str, value: Any, config: PriorDrawsConfig, key: jax.Array, line: np.ndarray
) -> np.ndarray:
    prior = _network(config.width, num_inputs=1, **{name: value})
    draws = prior.sample(key, (config.num_draws,))
    return np.asarray(prior.evaluate(draws, jnp.asarray(line)[:, None]))


def _panels(surfaces: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Amplitude and roughness of the six panels: what the figures are to show in numbers."""
    names = [f"Fourier, alpha = {a:g}" for a in KL_ALPHAS]
    names += [f"network, alpha = {a:g}, variance = {v:g}" for a, v in NETWORKS]
    return [
        {"panel": name, "amplitude": float(np.ptp(v)), "roughness": _roughness(v)}
        for name, v in zip(names, [*surfaces["kl"], *surfaces["network"]], strict=True)
    ]


def _roughness(values: np.ndarray) -> float:
    """Root mean square slope over standard deviation: how often a function turns."""
    spacing = 1.0 / (len(values) - 1)
    slopes = np.gradient(values, spacing)
    return float(np.sqrt(np.mean([s**2 for s in slopes])) / values.std())


EXPERIMENT = Experiment(
    name="prior-draws",
    summary="draws from the Fourier and trace-class network priors, and galleries",
    presets={
        "quick": PriorDrawsConfig(width=20, max_frequency=8, grid=21, num_draws=3),
        "paper": PriorDrawsConfig(),
    },
    build=build,
    run=run,
)
