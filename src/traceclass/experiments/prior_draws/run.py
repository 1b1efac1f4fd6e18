"""One draw per panel, from the same random numbers, so that only the setting differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from traceclass.experiments.experiment import Result
from traceclass.experiments.prior_draws import settings
from traceclass.experiments.prior_draws.settings import KL_ALPHAS, PriorDrawsConfig
from traceclass.priors import FourierSeries, Prior, TraceClassNetwork


class Results(TypedDict):
    """Amplitude and roughness of the paper's six panels: what its figures are to show."""

    panels: list[dict[str, Any]]


def check(config: PriorDrawsConfig) -> None:
    """The priors of the paper's figures can be made."""
    _series(config)
    _networks(config, settings.NETWORKS)


def finish(config: PriorDrawsConfig, _: object) -> Result:
    """Surfaces of the paper's panels, curves and surfaces of the galleries."""
    key = jax.random.key(config.seed)
    side = np.linspace(0.0, 1.0, config.grid)
    square = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)

    def surfaces(priors: Sequence[Prior]) -> np.ndarray:
        drawn = [np.asarray(prior.evaluate(prior.sample(key), square)) for prior in priors]
        return np.stack(drawn).reshape(-1, config.grid, config.grid)

    panels = {
        "kl": surfaces(_series(config)),
        "network": surfaces(_networks(config, settings.NETWORKS)),
        "gallery_2d": surfaces(_networks(config, product(*settings.GALLERY_2D.values()))),
    }
    line, curves = np.linspace(-2.0, 2.0, 4 * config.grid), {}
    points = jnp.asarray(line)[:, None]
    for name, values in settings.GALLERY_1D.items():
        priors = [_network(config.width, 1, **{name: value}) for value in values]
        drawn = [p.evaluate(p.sample(key, (config.num_draws,)), points) for p in priors]
        curves[f"curves_{name}"] = np.stack([np.asarray(each) for each in drawn])
    data: dict[str, Any] = {n: ((f"{n}_panel", "x1", "x2"), v) for n, v in panels.items()}
    data |= {n: ((f"{n}_panel", "draw", "x"), v) for n, v in curves.items()}
    arrays = xr.Dataset(data, coords={"x1": side, "x2": side, "x": line})
    return Result({"panels": _numbers(panels)}, None, arrays)


def _series(config: PriorDrawsConfig) -> list[FourierSeries]:
    return [
        FourierSeries(
            num_inputs=2, max_frequency=config.max_frequency, alpha=2 * alpha, interaction="full"
        )
        for alpha in KL_ALPHAS
    ]


def _networks(config: PriorDrawsConfig, pairs: Iterable[tuple[float, ...]]) -> list[Prior]:
    return [_network(config.width, 2, alpha=alpha, variance=v) for alpha, v in pairs]


def _network(width: int, num_inputs: int, **changed: Any) -> TraceClassNetwork:
    """A network in which one setting or two are changed."""
    chosen = {"alpha": 1.5, "depth": 3, "variance": 3.0, "activation": "tanh"} | changed
    return TraceClassNetwork(
        num_inputs=num_inputs,
        widths=(width,) * chosen["depth"],
        alpha=chosen["alpha"],
        weight_variance=chosen["variance"],
        bias_variance=chosen["variance"],
        activation=chosen["activation"],
    )


def _numbers(panels: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    names = [f"Fourier, alpha = {a:g}" for a in KL_ALPHAS]
    names += [f"network, alpha = {a:g}, variance = {v:g}" for a, v in settings.NETWORKS]
    return [
        {"panel": name, "amplitude": float(np.ptp(v)), "roughness": _roughness(v)}
        for name, v in zip(names, [*panels["kl"], *panels["network"]], strict=True)
    ]


def _roughness(values: np.ndarray) -> float:
    """Root mean square slope over standard deviation: how often a function turns."""
    spacing = 1.0 / (len(values) - 1)
    slopes = np.gradient(values, spacing)
    return float(np.sqrt(np.mean([s**2 for s in slopes])) / values.std())
