"""Weights for chains that do not mix, by how well each of them predicts."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from traceclass.errors import UserValueError
from traceclass.likelihoods.base import gives_each
from traceclass.model_choice.comparison import LARGEST_PARETO_K, elpd_of, log_prob_of_each
from traceclass.posterior import Posterior

# Draws of a chain that are looked at, spread evenly.
_MOST_DRAWS = 1_000


@dataclasses.dataclass(frozen=True)
class Stacking:
    """Weights of the chains of a run; see `Run.stack`.

    Parameters
    ----------
    weights : array (chains,)
        Non-negative numbers that sum to one.
    elpd : array (chains,)
        The leave-one-out log-score of each chain by itself.
    num_influential : int
        Pairs of a chain and an observation whose Pareto k is above 0.7, or has no finite fit, for
        which the leave-one-out score is not to be relied upon.
    """

    weights: np.ndarray
    elpd: np.ndarray
    num_influential: int

    def __str__(self) -> str:
        lines = [
            f"chain {number}: weight {weight:.3f}, leave-one-out log-score {elpd:.1f}"
            for number, (weight, elpd) in enumerate(zip(self.weights, self.elpd, strict=True))
        ]
        if self.num_influential:
            lines.append(
                f"warning: Pareto k is above {LARGEST_PARETO_K} {self.num_influential} times, so "
                "that these scores are not to be relied upon."
            )
        return "\n".join(lines)


def stacking_of(posterior: Posterior, positions: np.ndarray) -> Stacking:
    r"""Stacking of the predictive distributions of chains (Yao, Vehtari & Gelman 2022).

        w = argmax over the simplex of sum_t log sum_c w_c p_c(y_t | y_-t)

    p_c(y_t | y_-t) is the leave-one-out predictive density of chain c, by Pareto-smoothed
    importance sampling, or by plain importance sampling where a few draws weigh so much that their
    tail has no finite fit; ArviZ finds the weights. Chains that found a better place get more
    weight, and one that is far off gets none; it is not the weight of the place under the
    posterior.
    """
    from arviz_stats.loo.compare import compare

    if not gives_each(posterior.likelihood):
        raise UserValueError(
            f"stack needs the log-probability of each observation, and "
            f"{type(posterior.likelihood).__name__} has no log_prob_each. Give it one."
        )
    every = -(-positions.shape[1] // _MOST_DRAWS)
    few = jnp.asarray(positions[:, ::every])
    found: list[Any] = [_elpd_of_chain(posterior, chain) for chain in few]
    elpd = np.array([float(one.elpd) for one in found])
    if not np.isfinite(elpd).all():
        raise UserValueError(
            "the chains cannot be weighed: single draws decide about some observations. Keep more "
            "draws."
        )
    influential = sum(int((np.asarray(one.pareto_k) > LARGEST_PARETO_K).sum()) for one in found)
    weights = np.ones(1)
    if len(found) > 1:
        with warnings.catch_warnings():
            # ArviZ warns of many models, and of influential observations, which are counted.
            warnings.simplefilter("ignore")
            table = compare({str(c): one for c, one in enumerate(found)}, method="stacking")
        weights = np.array([float(table.loc[str(c), "weight"]) for c in range(len(found))])
    weights = np.maximum(weights, 0.0)
    return Stacking(weights / weights.sum(), elpd, influential)


def _elpd_of_chain(posterior: Posterior, draws: Array) -> Any:
    r"""The leave-one-out scores of one chain, by observation.

    By plain importance sampling p(y_t | y_-t) = S / sum_s 1 / p(y_t | z_s), of S draws.
    """
    found = elpd_of(posterior, draws[None])
    scores = np.asarray(found.elpd_i)
    if np.isfinite(scores).all():
        return found
    each = log_prob_of_each(posterior, draws)
    plain = np.log(len(each)) - logsumexp(-each, axis=0)
    found.elpd_i = found.elpd_i.copy(data=np.where(np.isfinite(scores), scores, plain))
    # ArviZ gives these a harmless k; they are the least reliable of all.
    k = np.asarray(found.pareto_k)
    found.pareto_k = found.pareto_k.copy(data=np.where(np.isfinite(scores), k, np.inf))
    found.elpd = float(found.elpd_i.sum())
    return found
