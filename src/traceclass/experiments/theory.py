"""The paper's theorems, seen over the width of the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import xarray as xr
from jaxtyping import Array

from traceclass import theory
from traceclass.control import mountain_car as car
from traceclass.errors import UserValueError
from traceclass.experiments.base import Chains, Config, Experiment, Result
from traceclass.likelihoods import ActionChoice, GaussianRegression
from traceclass.posterior import Posterior
from traceclass.priors import FourierSeries, IidNetwork, Prior, TraceClassNetwork, scale_to_box
from traceclass.priors.network import NetworkPrior

# Points where |x_j| = 1, at which the first layer's bound is attained, and one inside.
POINTS = ((1.0, 1.0), (-1.0, 1.0), (0.3, -0.6))
TAIL_ALPHAS = (1.1, 1.5, 2.0, 3.0)


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


class Problem(NamedTuple):
    """The likelihood of Theorem 3: mountain-car choices of saturated values."""

    likelihood: ActionChoice


def build(config: TheoryConfig) -> Problem:
    """Demonstrations, and a check that the priors can be made."""
    _trace_class(config, 4)
    _iid(config, 4)
    if max(config.refinement_sizes) >= config.reference_size:
        raise UserValueError(
            f"reference_size must exceed refinement_sizes, got {config.reference_size} and "
            f"{max(config.refinement_sizes)}: errors are measured against it."
        )
    seen = car.demonstrate(jax.random.key(config.seed))
    likelihood = ActionChoice(
        car.successors(seen.states),
        seen.actions,
        noise=config.noise,
        saturation=config.saturation,
    )
    return Problem(likelihood)


def run(problem: Problem, config: TheoryConfig, chains: Chains) -> Result:
    """Every sum of the theory over the widths, with Monte Carlo beside its bound."""
    del chains
    key = jax.random.key(config.seed)
    bounds = [_bounds(_trace_class(config, n), key, config.num_draws) for n in config.widths]
    # The gradient holds a second copy of the position, so the widest network is left to the bounds.
    gradient_widths = [n for n in config.widths if n <= 1024]
    norms = {
        make.__name__.strip("_"): [
            _mean_norm(Posterior(make(config, n), problem.likelihood), key, config.num_draws)
            for n in gradient_widths
        ]
        for make in (_trace_class, _iid)
    }
    refinement = _refinement(config, key)
    swaps = [theory.swap_sum(_trace_class(config, n), layer=2, node=1) for n in config.widths]
    shares = {
        alpha: [_tail_share(alpha, n) for n in config.refinement_sizes] for alpha in TAIL_ALPHAS
    }
    numbers = {
        "bounds": bounds,
        "cameron_martin": {"widths": gradient_widths, **norms},
        "swap": {"widths": list(config.widths), "sum": swaps},
        "refinement": refinement,
        "tail_share": {str(alpha): share for alpha, share in shares.items()},
    }
    arrays = xr.Dataset(coords={"refinement_size": list(config.refinement_sizes)})
    return Result(numbers, None, arrays)


def _trace_class(config: TheoryConfig, width: int) -> TraceClassNetwork:
    return TraceClassNetwork(
        num_inputs=2,
        widths=(width,) * 2,
        alpha=config.alpha,
        weight_variance=config.variance,
        bias_variance=config.variance,
        inputs=scale_to_box(car.LOW, car.HIGH),
    )


def _iid(config: TheoryConfig, width: int) -> IidNetwork:
    return IidNetwork(
        num_inputs=2,
        widths=(width,) * 2,
        weight_variance=config.iid_variance,
        bias_variance=config.iid_variance,
        inputs=scale_to_box(car.LOW, car.HIGH),
    )


def _bounds(prior: NetworkPrior, key: Array, num_draws: int) -> dict[str, Any]:
    """Theorem 1 at the output: E v(x)^2 <= sigma^2 and E (v(x) - v(y))^2 <= c |x - y|^2."""
    low, high = np.array(car.LOW), np.array(car.HIGH)
    points = jnp.asarray(low + (np.array(POINTS) + 1) / 2 * (high - low), dtype=float)
    values = _over_draws(
        lambda z: theory.layer_values(prior, z, points)[-1][0], prior, key, num_draws
    )
    squares = values**2
    worst = int(np.argmax(squares.mean(axis=0)))
    distance = float(np.sum((np.array(POINTS[0]) - np.array(POINTS[2])) ** 2))
    steps = (values[:, 0] - values[:, 2]) ** 2 / distance
    limits = theory.layer_bounds(prior)
    return {
        "width": prior.widths[0],
        "variance": float(squares.mean(axis=0)[worst]),
        "variance_error": float(squares.std(axis=0)[worst] / np.sqrt(num_draws)),
        "variance_bound": limits.variance[-1],
        "lipschitz": float(steps.mean()),
        "lipschitz_error": float(steps.std() / np.sqrt(num_draws)),
        "lipschitz_bound": limits.lipschitz[-1],
    }


def _mean_norm(posterior: Posterior, key: Array, num_draws: int) -> float:
    norms = _over_draws(
        lambda z: theory.cameron_martin_norm(posterior, z), posterior.prior, key, num_draws
    )
    return float(norms.mean())


def _over_draws(
    function: Callable[[Array], Array], prior: Prior, key: Array, num_draws: int
) -> np.ndarray:
    """A function of prior draws, one draw in memory at a time."""
    keys = jax.random.split(key, num_draws)
    over = jax.jit(lambda keys: jax.lax.map(lambda key: function(prior.sample(key)), keys))
    return np.asarray(over(keys), dtype=np.float64)


def _refinement(config: TheoryConfig, key: Array) -> dict[str, dict[str, Any]]:
    """How far each prior's functions move when refined, and the exponent the theory gives."""
    side = np.linspace(-1.0, 1.0, 9)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    line = np.linspace(0.0, 1.0, 257)[:, None]
    alpha = 3.0

    def network(n: int) -> Prior:
        return TraceClassNetwork(num_inputs=2, widths=(n,), alpha=config.alpha)

    def iid(n: int) -> Prior:
        return IidNetwork(num_inputs=2, widths=(n,), weight_variance=config.iid_variance)

    def series(n: int) -> Prior:
        return FourierSeries(num_inputs=1, max_frequency=n, alpha=alpha, interaction=1)

    return {
        "trace-class network": _changes(network, config, key, square, 0.5 - config.alpha),
        "Fourier series, alpha = 3": _changes(series, config, key, line, (1 - alpha) / 2),
        "iid network": _changes(iid, config, key, square, None),
    }


def _changes(
    make: Callable[[int], Prior],
    config: TheoryConfig,
    key: Array,
    points: np.ndarray,
    exponent: float | None,
) -> dict[str, Any]:
    """Mean of sup |v_fine - v_N| over the points, and median of |l(v_fine) - l(v_N)|.

    l is the log-likelihood of zeros observed with noise 1 at 16 of the points, picked at random:
    on a regular grid the terms of a series are orthogonal, and l would change to second order only.
    """
    fine = make(config.reference_size)
    at_fine = fine.at(points)
    seen = np.random.default_rng(0).choice(len(points), 16, replace=False)
    likelihood = GaussianRegression(points[seen], np.zeros(16), noise=1.0)
    sups, levels = [], []
    for size in config.refinement_sizes:
        coarse = make(size)
        at_coarse = coarse.at(points)

        def change(z: Array, coarse: Prior = coarse, at_coarse: Any = at_coarse) -> Array:
            before, after = at_coarse(fine.restrict(z, coarse)), at_fine(z)
            level = likelihood.log_prob(after[seen]) - likelihood.log_prob(before[seen])
            return jnp.stack([jnp.max(jnp.abs(after - before)), jnp.abs(level)])

        changes = _over_draws(change, fine, key, config.num_draws)
        sups.append(float(changes[:, 0].mean()))
        levels.append(float(np.median(changes[:, 1])))
    sizes = np.log(config.refinement_sizes)
    return {
        "errors": sups,
        "log_likelihood_changes": levels,
        "slope": float(np.polyfit(sizes, np.log(sups), 1)[0]),
        "log_likelihood_slope": float(np.polyfit(sizes, np.log(levels), 1)[0]),
        "theory": exponent,
    }


def _tail_share(alpha: float, width: int) -> float:
    prior = TraceClassNetwork(num_inputs=2, widths=(1, 1, 1), alpha=alpha)
    return prior.tail_variance(width) / prior.total_variance()


EXPERIMENT = Experiment(
    name="theory",
    summary="bounds and sums of the paper's theorems against the width",
    presets={
        "quick": TheoryConfig(
            widths=(8, 32), num_draws=20, refinement_sizes=(4, 8, 16), reference_size=64
        ),
        "paper": TheoryConfig(),
    },
    build=build,
    run=run,
)
