"""A value function of the half cheetah: where its chains begin, and how good it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import traceclass as tc
from traceclass.control import half_cheetah as cheetah
from traceclass.control.choice_scores import choice_scores, values_of_successors
from traceclass.control.functionals import ValueDifferences
from traceclass.control.policies import Policy
from traceclass.draws import evenly_spaced
from traceclass.experiments.cells import Cell, agreed, diagnostics
from traceclass.experiments.cheetah import DataSet, posterior_of, prior_of
from traceclass.experiments.half_cheetah.settings import WATCHED, CheetahConfig
from traceclass.sampling.diagnostics import USUAL
from traceclass.sampling.start import shrunken_draws

# Keys of a data set's chains beyond those of their steps.
_STARTS, _LIFT = range(2)
# With more coordinates than this a draw is so expensive that fewer are asked for.
_WIDE = 5_000


class Coarse(NamedTuple):
    """A run on a narrower network, or on fewer of the demonstrations, that a cell begins from."""

    run: tc.Run
    prior: tc.Prior
    num_demonstrations: int


class Learned(NamedTuple):
    """A sampled posterior: its prior, some positions (draws, z), and numbers."""

    prior: tc.Prior
    positions: Array
    numbers: dict[str, Any]


def cell_of(
    name: str,
    prior_name: str,
    data: DataSet,
    config: CheetahConfig,
    *,
    labels: dict[str, Any],
    num_kicks: int,
    coarse: Coarse | None = None,
) -> Cell:
    """The posterior of one prior and data set, sampled until its chains agree.

    With `coarse` chains begin where its chains ended, with new nodes silent. They keep its step,
    which does not depend on the width, and shorten it by the square root of the number of
    demonstrations.
    """
    prior = prior_of(prior_name, dim=data.successors.shape[-1])
    watched = _points(data.test_successors[:WATCHED])
    # A series in the coordinates that demonstrations and watched states see: exact at both.
    seen = np.concatenate([_points(data.successors), watched])
    sampled = tc.Reduced(prior, seen) if isinstance(prior, tc.FourierSeries) else prior
    posterior = posterior_of(sampled, data, noise=config.noise)
    is_wide = sampled.num_coordinates > _WIDE
    num_chains = config.num_wide_chains if is_wide else config.num_chains
    num_samples = config.num_wide_samples if is_wide else config.num_samples
    most = config.max_wide_samples if is_wide else config.max_samples
    begin: dict[str, Any] = {"num_warmup": config.num_warmup}
    key = jax.random.fold_in(jax.random.key(data.seed), _STARTS)
    if coarse is None:
        begin["initial_positions"] = shrunken_draws(posterior, key, num_chains)
    else:
        begin = _refined(prior, coarse, data, num_chains, config.num_refined_warmup)
    expert = jnp.asarray(data.tests.actions[:WATCHED])[:, None]
    counts = {"num_chains": len(begin["initial_positions"]), "num_samples": num_samples}
    return Cell(
        name=name,
        labels=labels | {"num_demonstrations": len(data.successors), "num_kicks": num_kicks},
        posterior=posterior,
        kernel=tc.hmc.using(num_kicks=num_kicks),
        record={"value_difference": ValueDifferences(sampled.at(watched), expert)},
        sampling=begin | counts | {"seed": data.seed},
        until=agreed(config, "value_difference", limit=USUAL, most=max(num_samples, most)),
    )


def learned_from(
    run: tc.Run, cell: Cell, prior_name: str, data: DataSet, config: CheetahConfig
) -> Learned:
    """Some of the draws as functions on all inputs, and how often they choose as the expert did."""
    assert run.positions is not None
    kept = evenly_spaced(run.positions, config.num_kept)
    positions = jnp.asarray(kept.reshape(-1, kept.shape[-1]))
    if isinstance(cell.posterior.prior, tc.Reduced):
        key = jax.random.fold_in(jax.random.key(data.seed), _LIFT)
        positions = cell.posterior.prior.lift(key, positions)
    prior = prior_of(prior_name, dim=data.successors.shape[-1])
    values = values_of_successors(prior, positions, data.test_successors)
    numbers = {
        "cell": cell.name,
        "num_coordinates": prior.num_coordinates,
        **diagnostics(run, USUAL),
        **choice_scores(values, data.tests.actions, noise=config.noise),
    }
    return Learned(prior, positions, numbers)


def kicks_of(prior_name: str, config: CheetahConfig) -> int:
    """About a quarter turn; steps of standard networks are twice as long."""
    is_standard = prior_name.startswith("bnn")
    return max(1, round(config.num_kicks / 2 if is_standard else config.num_kicks))


def _points(successors: np.ndarray) -> np.ndarray:
    return successors.reshape(-1, successors.shape[-1])


def _refined(
    prior: tc.Prior, coarse: Coarse, data: DataSet, num_chains: int, num_warmup: int
) -> dict[str, Any]:
    """How a run begins at the ends of the chains of another, with new coordinates at zero.

    The function stays, and the first trajectory draws the new coordinates. Nodes drawn from the
    prior may change it by many times the noise, to where a step found elsewhere is stuck.
    """
    assert coarse.run.positions is not None
    more = len(data.successors) / coarse.num_demonstrations
    ends = jnp.asarray(coarse.run.positions[:num_chains, -1])
    return {
        "step_size": coarse.run.step_size / np.sqrt(more),
        "initial_positions": jax.vmap(lambda z: coarse.prior.prolong(None, z, prior))(ends),
        "num_warmup": num_warmup,
    }


def policies_of(learned: Learned, config: CheetahConfig) -> dict[str, Policy]:
    """Policies by the mean, by one draw per episode, and by majority."""
    after = cheetah.successors_by(cheetah.expert().actions)
    prior, positions = learned.prior, learned.positions
    each = np.arange(config.num_episodes) * len(positions) // config.num_episodes % len(positions)
    return {
        "mean": tc.control.argmax_policy(tc.control.MeanValue(prior, positions), after),
        "sample": tc.control.thompson_policy(prior, positions[each], after),
        "vote": tc.control.majority_policy(prior, positions, after),
    }
