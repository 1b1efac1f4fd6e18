"""A value function learned from choices: its chains, its mean, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from traceclass.control import mountain_car as car
from traceclass.control.box_polynomial import BoxPolynomial, box_nodes, interpolant, largest_error
from traceclass.control.value_iteration import GridValue, grid_points
from traceclass.experiments.base import Chains
from traceclass.experiments.car import (
    action_log_probabilities,
    choices,
    rank_correlation,
    standard_error,
    value_differences,
)
from traceclass.kernels.base import KernelFactory
from traceclass.likelihoods import ActionChoice
from traceclass.module import Module
from traceclass.posterior import Posterior
from traceclass.priors import Prior
from traceclass.sampling import Run
from traceclass.sampling.until import Until, worst_of

# Above this R-hat a cell is not a result; chains go on until they are clearly below.
LARGEST_RHAT, RHAT_WANTED = 1.02, 1.015
# Nodes a side of the table of a posterior mean: its error is a thousandth of the noise, see
# `interpolation_error` in the results, and a warning where it is more than a twentieth.
_NODES = 96
_LARGEST_ERROR = 0.05
# States a side of a coarse grid over the box, where values are compared with the true ones.
_BOX_STATES = 20
_BINS = 10


class ChoiceProbability(Module):
    """z -> the mean probability of choices that were made; a module, see `ValueDifferences`."""

    taken: ActionChoice
    values_of: Callable[[Array], Array]

    def __call__(self, z: Array) -> Array:
        return jnp.mean(jnp.exp(self.taken.log_prob_each(self.values_of(z))))


class Asked(NamedTuple):
    """What is asked of every posterior of one prior; made once, so that chains compile once."""

    prior: Prior
    noise: float
    tests: car.Demonstrations
    record: dict[str, Callable[[Array], Array]]
    log_probabilities: Callable[[Array], Array]
    at_nodes: Callable[[Array], Array]

    @property
    def scalars(self) -> list[str]:
        """Names of the recorded functionals that are numbers."""
        return [name for name in self.record if name != "value_difference"]


class Learned(NamedTuple):
    """A sampled posterior: kept positions (chains, draws, z), means as functions, and figures."""

    prior: Prior
    run: Run
    kept: np.ndarray
    mean: BoxPolynomial
    chain_means: list[BoxPolynomial]
    numbers: dict[str, Any]


def ask(prior: Prior, tests: car.Demonstrations, truth: GridValue, *, noise: float) -> Asked:
    """Value differences, rank correlations with the true value, and probabilities of choices."""
    box = grid_points(car.LOW, car.HIGH, (_BOX_STATES, _BOX_STATES))
    taken = choices(tests, noise=noise)
    return Asked(
        prior,
        noise,
        tests,
        {
            "value_difference": value_differences(prior),
            "rank_correlation_visited": rank_correlation(prior, tests.states, truth(tests.states)),
            "rank_correlation_box": rank_correlation(prior, box, truth(box)),
            # A choice that a draw deems impossible would make the mean of its logarithm useless.
            "held_out_probability": ChoiceProbability(taken, prior.at(taken.points)),
        },
        action_log_probabilities(prior, tests.states, noise=noise),
        prior.at(box_nodes(car.LOW, car.HIGH, _NODES)),
    )


def learn(
    chains: Chains,
    cell: str,
    posterior: Posterior,
    kernel: KernelFactory,
    asked: Asked,
    *,
    num_kept: int,
    max_samples: int,
    **arguments: Any,
) -> Learned:
    """Sample a posterior until its chains agree, or until `max_samples` draws of each.

    Means of functions are those of `num_kept` draws, evenly spaced.
    """
    until = Until(rhat=RHAT_WANTED, of=(*asked.record, "log_likelihood"), max_samples=max_samples)
    run = chains.sample(cell, posterior, kernel, record=asked.record, until=until, **arguments)
    positions = run.positions
    assert positions is not None
    kept = evenly_spaced(positions, num_kept)
    values = _chain_means(asked.at_nodes, jnp.asarray(kept))
    chain_means = [interpolant(v, car.LOW, car.HIGH) for v in values]
    mean = interpolant(values.mean(axis=0), car.LOW, car.HIGH)
    log_probabilities = _chain_log_means(asked.log_probabilities, jnp.asarray(kept))
    error = largest_error(mean, exact_mean(asked.prior, kept), jax.random.key(0))
    warnings = list(run.summary().warnings)
    if error > _LARGEST_ERROR * asked.noise:
        warnings.append(
            f"the table by which the mean is driven errs by {error:.1e}, which is much beside the "
            f"noise of {asked.noise:g}: the prior is too rough for it."
        )
    actions = np.asarray(asked.tests.actions)
    numbers = {
        **diagnostics(run),
        **{name: mean_and_error(run.draws[name]) for name in asked.scalars},
        **score(logsumexp(log_probabilities, axis=0) - np.log(len(kept)), actions),
        # Of each chain by itself; its own mean over fewer draws is a little less good.
        "log_score_error": standard_error(
            [score(of_chain, actions)["log_score"] for of_chain in log_probabilities]
        ),
        "interpolation_error": error,
        "warnings": warnings,
    }
    return Learned(asked.prior, run, kept, mean, chain_means, numbers)


def score(log_probabilities: np.ndarray, actions: np.ndarray) -> dict[str, Any]:
    """Of predictive log-probabilities (states, actions) on held-out choices.

    `log_score` is the mean of log p(action taken), minus infinity if one was deemed impossible.
    `calibration` has, for bins of predicted probability over all states and actions, the mean
    prediction, the share of those actions that were taken, and the number; `calibration_error` is
    the mean distance of the two.
    """
    taken = np.eye(log_probabilities.shape[1], dtype=bool)[actions]
    predicted, happened = np.exp(log_probabilities).ravel(), taken.ravel()
    bins = np.minimum((predicted * _BINS).astype(int), _BINS - 1)
    calibration = [
        {
            "predicted": float(predicted[bins == b].mean()),
            "observed": float(happened[bins == b].mean()),
            "count": int((bins == b).sum()),
        }
        for b in range(_BINS)
        if (bins == b).any()
    ]
    return {
        "log_score": float(log_probabilities[taken].mean()),
        "accuracy": float((log_probabilities.argmax(axis=1) == actions).mean()),
        "calibration_error": sum(
            b["count"] * abs(b["predicted"] - b["observed"]) for b in calibration
        )
        / predicted.size,
        "calibration": calibration,
    }


def exact_mean(prior: Prior, kept: np.ndarray) -> Callable[[Array], Array]:
    """The mean of the functions of all kept positions, without interpolation."""
    positions = jnp.asarray(kept.reshape(-1, kept.shape[-1]))

    def mean(points: Array) -> Array:
        return jnp.mean(jax.lax.map(prior.at(points), positions, batch_size=32), axis=0)

    return mean


def evenly_spaced(draws: np.ndarray, count: int) -> np.ndarray:
    """About `count` of the draws (chains, draws, ...), as many of each chain, the last included."""
    each = min(max(1, count // len(draws)), draws.shape[1])
    chosen = np.linspace(0, draws.shape[1], each + 1)[1:].astype(int) - 1
    return draws[:, chosen]


@eqx.filter_jit
def _folded(
    function: Callable[[Array], Array], join: Callable[[Array, Array], Array], positions: Array
) -> Array:
    """f(z_1) joined with f(z_2), ... over the draws of each chain, a draw at a time in memory."""

    def of_chain(chain: Array) -> Array:
        return jax.lax.scan(
            lambda total, z: (join(total, function(z)), None), function(chain[0]), chain[1:]
        )[0]

    return jax.lax.map(of_chain, positions)


def _chain_means(function: Callable[[Array], Array], kept: Array) -> np.ndarray:
    """Means over the draws of each chain, (chains, ...)."""
    return np.asarray(_folded(function, jnp.add, kept), dtype=np.float64) / kept.shape[1]


def _chain_log_means(function: Callable[[Array], Array], kept: Array) -> np.ndarray:
    """Logarithms of the means of exp(f), which are right where exp(f) is too small a number."""
    total = np.asarray(_folded(function, jnp.logaddexp, kept), dtype=np.float64)
    return total - np.log(kept.shape[1])


def diagnostics(run: Run) -> dict[str, Any]:
    """Worst figures over everything recorded, and over the log-likelihood."""
    worst = [worst_of(values) for values in run.draws.values()]
    ess, rhat = min(e for e, _ in worst), max(r for _, r in worst)
    return {
        "acceptance_rate": run.acceptance_rate,
        "acceptance_error": standard_error(run.chain_acceptance_rates),
        "tuning": {k: float(v) for t in run.tuning.values() for k, v in t.items()},
        "rhat": rhat,
        "ess": ess,
        "is_converged": rhat < LARGEST_RHAT,
        "draws": run.num_chains * run.num_samples,
        "steps": run.num_chains * run.num_steps,
        "ess_per_second": ess / run.sampling_seconds,
        "seconds": run.compile_seconds + run.warmup_seconds + run.sampling_seconds,
    }


def mean_and_error(draws: np.ndarray) -> dict[str, float]:
    """The mean of a scalar functional and its Monte Carlo standard error."""
    from arviz_stats.base.array import array_stats

    values = np.asarray(draws, dtype=np.float64)
    error = math.nan
    if values.shape[1] >= 4 and np.ptp(values) > 0:
        error = float(np.asarray(array_stats.mcse(values, method="mean")))
    return {"mean": float(values.mean()), "error": error}
