"""A value function of the half cheetah: where its chains begin, and how good it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from traceclass.experiments.base import Chains
from traceclass.experiments.car import ValueDifferences
from traceclass.experiments.cheetah import (
    WATCHED,
    CheetahConfig,
    DataSet,
    posterior_of,
    prior_of,
)
from traceclass.experiments.cheetah_scores import scores
from traceclass.experiments.learned import diagnostics, evenly_spaced
from traceclass.kernels import hmc
from traceclass.posterior import Posterior
from traceclass.priors import FourierSeries, Prior, Reduced
from traceclass.sampling import Run
from traceclass.sampling.until import Until

# Above this R-hat a cell is marked; chains go on until they are below the second.
LARGEST_RHAT, RHAT_WANTED = 1.05, 1.04
# Shrinkage of prior draws among which each chain's start is found.
_SHRINKAGE = tuple(2.0**-k for k in range(8))
# Keys of a data set's chains beyond those of their steps.
_STREAMS = ("starts", "lift")
# More coordinates than this make a draw so dear that fewer are asked for.
_WIDE = 5_000


class Learned(NamedTuple):
    """A sampled posterior: its run, some positions (draws, z), and figures."""

    prior: Prior
    run: Run
    positions: Array
    numbers: dict[str, Any]


def learn(
    chains: Chains,
    cell: str,
    name: str,
    data: DataSet,
    config: CheetahConfig,
    *,
    coarse: Learned | None = None,
) -> Learned:
    """Sample the posterior of one prior and data set until its chains agree, and score it.

    With `coarse`, a run of a narrower trace-class network, or on fewer of the demonstrations,
    chains begin where its chains ended, with new nodes silent. They keep its step, which
    does not depend on width, and is shortened by the square root of the number of demonstrations.
    """
    prior = prior_of(name, dim=data.successors.shape[-1])
    watched = _points(data.test_successors[:WATCHED])
    sampled = _seen(prior, data, watched)
    posterior = posterior_of(sampled, data, noise=config.noise)
    values_of = sampled.at(watched)
    expert = jnp.asarray(data.tests.actions[:WATCHED])[:, None]
    begun = (
        _begun(posterior, data, config) if coarse is None else _refined(prior, coarse, data, config)
    )
    run = chains.sample(
        cell,
        posterior,
        hmc.using(num_kicks=_num_kicks(name, coarse, data, config)),
        record={"value_difference": ValueDifferences(values_of, expert)},
        until=Until(
            rhat=RHAT_WANTED,
            of=("value_difference", "log_likelihood"),
            max_samples=max(begun["num_samples"], begun.pop("max_samples")),
        ),
        num_chains=len(begun["initial_positions"]),
        seed=data.seed,
        **begun,
    )
    assert run.positions is not None
    kept = evenly_spaced(run.positions, config.num_kept)
    positions = jnp.asarray(kept.reshape(-1, kept.shape[-1]))
    if isinstance(sampled, Reduced):
        positions = sampled.lift(_key(data, "lift"), positions)
    figures = diagnostics(run)
    figures["is_converged"] = figures["rhat"] < LARGEST_RHAT
    numbers = {
        "cell": cell,
        "num_demonstrations": len(data.successors),
        "num_kicks": _num_kicks(name, coarse, data, config),
        "num_coordinates": prior.num_coordinates,
        **figures,
        **scores(prior, positions, data, noise=config.noise),
    }
    return Learned(prior, run, positions, numbers)


def _points(successors: np.ndarray) -> np.ndarray:
    return successors.reshape(-1, successors.shape[-1])


def _seen(prior: Prior, data: DataSet, watched: np.ndarray) -> Prior:
    """A series in the coordinates that demonstrations and watched states see: exact at both."""
    if not isinstance(prior, FourierSeries):
        return prior
    return Reduced(prior, np.concatenate([_points(data.successors), watched]))


def _num_kicks(name: str, coarse: Learned | None, data: DataSet, config: CheetahConfig) -> int:
    """As many as make about a quarter turn; steps of standard networks are twice as long."""
    kicks = config.num_kicks / 2 if name.startswith("bnn") else config.num_kicks
    if coarse is not None:
        kicks = coarse.numbers["num_kicks"] * np.sqrt(_more(coarse, data))
    return max(1, round(kicks))


def _more(coarse: Learned, data: DataSet) -> float:
    """How many times the demonstrations of another run there are."""
    return len(data.successors) / coarse.numbers["num_demonstrations"]


def _key(data: DataSet, use: str) -> Array:
    """A key of a data set for one use."""
    return jax.random.fold_in(jax.random.key(data.seed), _STREAMS.index(use))


def starts_of(posterior: Posterior, seed: int, num_chains: int) -> Array:
    r"""A start for each chain: the best point on the way from zero to a draw of the prior.

        c z,   z ~ N(0, I),   c = argmax over 1, 1/2, 1/4, ... of l(c z)

    Prior draws themselves may be thousands below chance, which is l(0), and chains from there are
    long on their way; zero itself is a saddle.
    """
    key = jax.random.fold_in(jax.random.key(seed), _STREAMS.index("starts"))
    draws = jax.vmap(posterior.prior.sample)(jax.random.split(key, num_chains))
    shrunk = jnp.asarray(_SHRINKAGE)[:, None, None] * draws
    flat = shrunk.reshape(-1, draws.shape[-1])
    log_likelihoods = jax.jit(lambda z: jax.lax.map(posterior.log_likelihood, z))(flat)
    best = jnp.argmax(log_likelihoods.reshape(len(_SHRINKAGE), num_chains), axis=0)
    return shrunk[best, jnp.arange(num_chains)]


def _begun(posterior: Posterior, data: DataSet, config: CheetahConfig) -> dict[str, Any]:
    """How a run begins: near zero, with a warm-up that finds its step."""
    is_wide = posterior.prior.num_coordinates > _WIDE
    num_chains = config.num_wide_chains if is_wide else config.num_chains
    return {
        "initial_positions": starts_of(posterior, data.seed, num_chains),
        "num_warmup": config.num_warmup,
        "num_samples": config.num_wide_samples if is_wide else config.num_samples,
        "max_samples": config.max_wide_samples if is_wide else config.max_samples,
    }


def _refined(prior: Prior, coarse: Learned, data: DataSet, config: CheetahConfig) -> dict[str, Any]:
    """How a run begins at the ends of the chains of another."""
    assert coarse.run.positions is not None
    is_wide = prior.num_coordinates > _WIDE
    num_chains = config.num_wide_chains if is_wide else config.num_chains
    ends = jnp.asarray(coarse.run.positions[:num_chains, -1])
    return {
        "step_size": coarse.run.step_size / np.sqrt(_more(coarse, data)),
        "initial_positions": jax.vmap(lambda z: _silent(coarse.prior, z, prior))(ends),
        "num_warmup": config.num_refined_warmup,
        "num_samples": config.num_wide_samples if is_wide else config.num_samples,
        "max_samples": config.max_wide_samples if is_wide else config.max_samples,
    }


def _silent(coarse: Prior, z: Array, finer: Prior) -> Array:
    """The position of `finer` that keeps z, with zeros for its new coordinates.

    The function stays, and the first trajectory draws the new coordinates. Nodes drawn from the
    prior may change it by many times the noise, to where a step found elsewhere is stuck.
    """
    key = jax.random.key(0)  # of draws that cancel
    return coarse.prolong(key, z, finer) - coarse.prolong(key, jnp.zeros_like(z), finer)
