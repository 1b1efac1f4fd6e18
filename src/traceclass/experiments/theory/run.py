"""The paper's theorems, seen over the width of the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.errors import UserValueError
from traceclass.experiments.car import choices, prior_of
from traceclass.experiments.experiment import Result
from traceclass.experiments.theory.settings import TheoryConfig

# Points where |x_j| = 1, at which the first layer's bound is attained, and one inside.
POINTS = ((1.0, 1.0), (-1.0, 1.0), (0.3, -0.6))
TAIL_ALPHAS = (1.1, 1.5, 2.0, 3.0)


class Results(TypedDict):
    """Every sum of the theory over the widths, with Monte Carlo beside its bound."""

    bounds: list[dict[str, Any]]
    cameron_martin: dict[str, Any]
    swap: dict[str, Any]
    refinement: dict[str, dict[str, Any]]
    tail_share: dict[str, list[float]]


def check(config: TheoryConfig) -> None:
    """The priors can be made, and errors of refinement have something to be measured against."""
    _trace_class(config, 4)
    _iid(config, 4)
    if max(config.refinement_sizes) >= config.reference_size:
        raise UserValueError(
            f"reference_size must exceed refinement_sizes, got {config.reference_size} and "
            f"{max(config.refinement_sizes)}: errors are measured against it."
        )
    _likelihood(config)


def _likelihood(config: TheoryConfig) -> tc.ActionChoice:
    """The likelihood of Theorem 3: mountain-car choices of saturated values."""
    seen = car.demonstrate(jax.random.key(config.seed))
    return choices(seen, noise=config.noise, saturation=config.saturation)


def finish(config: TheoryConfig, _: object) -> Result:
    """All sums of the theory."""
    key, likelihood = jax.random.key(config.seed), _likelihood(config)
    low, high = np.array(car.LOW), np.array(car.HIGH)
    points = low + (np.array(POINTS) + 1) / 2 * (high - low)
    bounds = [
        tc.theory.moments_and_bounds(_trace_class(config, n), POINTS, points, key, config.num_draws)
        for n in config.widths
    ]
    # The gradient holds a second copy of the position, so the widest network is left to the bounds.
    gradient_widths = [n for n in config.widths if n <= 1024]
    norms = {
        make.__name__.strip("_"): [
            tc.theory.mean_norm(tc.Posterior(make(config, n), likelihood), key, config.num_draws)
            for n in gradient_widths
        ]
        for make in (_trace_class, _iid)
    }
    swaps = [tc.theory.swap_sum(_trace_class(config, n), layer=2, node=1) for n in config.widths]
    sizes = config.refinement_sizes
    shares = {str(alpha): [tc.theory.tail_share(alpha, n) for n in sizes] for alpha in TAIL_ALPHAS}
    numbers = {
        "bounds": bounds,
        "cameron_martin": {"widths": gradient_widths, **norms},
        "swap": {"widths": list(config.widths), "sum": swaps},
        "refinement": _refinement(config, key),
        "tail_share": shares,
    }
    return Result(numbers, None, xr.Dataset(coords={"refinement_size": list(sizes)}))


def _trace_class(config: TheoryConfig, width: int) -> Any:
    variances: Any = {f"{of}_variance": config.variance for of in ("weight", "bias")}
    return prior_of("tcnn", widths=(width,) * 2, alpha=config.alpha, **variances)


def _iid(config: TheoryConfig, width: int) -> tc.Prior:
    return prior_of("bnn", widths=(width,) * 2, iid_variance=config.iid_variance)


def _refinement(config: TheoryConfig, key: Array) -> dict[str, dict[str, Any]]:
    """How far each prior's functions move when refined, and the exponent the theory gives."""
    side = np.linspace(-1.0, 1.0, 9)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    line = np.linspace(0.0, 1.0, 257)[:, None]
    alpha, draws = 3.0, config.num_draws

    def changes(make: Callable[[int], tc.Prior], points: np.ndarray) -> dict[str, Any]:
        sizes, finest = config.refinement_sizes, make(config.reference_size)
        return tc.theory.refinement([make(n) for n in sizes], finest, sizes, points, key, draws)

    def network(n: int) -> tc.Prior:
        return tc.TraceClassNetwork(num_inputs=2, widths=(n,), alpha=config.alpha)

    def iid(n: int) -> tc.Prior:
        return tc.IidNetwork(num_inputs=2, widths=(n,), weight_variance=config.iid_variance)

    def series(n: int) -> tc.Prior:
        return tc.FourierSeries(num_inputs=1, max_frequency=n, alpha=alpha, interaction=1)

    return {
        "trace-class network": changes(network, square) | {"theory": 0.5 - config.alpha},
        "Fourier series, alpha = 3": changes(series, line) | {"theory": (1 - alpha) / 2},
        "iid network": changes(iid, square) | {"theory": None},
    }
