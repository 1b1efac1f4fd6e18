"""Episodes of the half cheetah: posteriors, experts and chance on the same starts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from traceclass import control
from traceclass.control import half_cheetah as cheetah
from traceclass.control.policies import Policy
from traceclass.experiments.cheetah import STARTS, CheetahConfig, stream
from traceclass.experiments.cheetah_learned import Learned


def policies_of(learned: Learned, config: CheetahConfig) -> dict[str, Policy]:
    """By the mean, by one draw an episode, and by majority."""
    after = cheetah.successors_by(cheetah.expert().actions)
    prior, positions = learned.prior, learned.positions
    each = np.arange(config.num_episodes) * len(positions) // config.num_episodes % len(positions)
    return {
        "mean": control.argmax_policy(control.MeanValue(prior, positions), after),
        "sample": control.thompson_policy(prior, positions[each], after),
        "vote": control.majority_policy(prior, positions, after),
    }


def reference_policies(seed: int) -> dict[str, Policy]:
    """The discretised expert, and actions at random."""
    expert = cheetah.expert()

    def discretised(key: Array, states: Array) -> Array:
        del key
        return jnp.asarray(expert.nearest(np.asarray(states, np.float64)))

    def at_random(key: Array, states: Array) -> Array:
        return jax.random.randint(
            jax.random.fold_in(key, seed), (len(states),), 0, expert.num_actions
        )

    return {"discretised expert": discretised, "random": at_random}


def ride(policy: Policy, seed: int, config: CheetahConfig) -> cheetah.Runs:
    """Episodes of a policy from the starts of a data set, the same for every policy."""
    starts = cheetah.initial_states(stream(seed, STARTS), config.num_episodes)
    actions = cheetah.expert().actions
    return cheetah.rollout(policy, actions, starts, num_steps=config.num_steps, seed=seed)


def ride_continuously(seed: int, config: CheetahConfig) -> cheetah.Runs:
    """Episodes of the continuous expert; its actions have no numbers, and are said to be -1."""
    states = cheetah.initial_states(stream(seed, STARTS), config.num_episodes)
    path, ways = [states], [np.zeros(len(states))]
    for _ in range(config.num_steps):
        states, way = cheetah.advance(states, cheetah.expert().controls(states))
        path.append(states)
        ways.append(way)
    none = np.full((config.num_steps, config.num_episodes), -1)
    return cheetah.Runs(np.array(path), none, np.cumsum(ways, axis=0))


def distances(runs: cheetah.Runs) -> dict[str, float]:
    """How far the episodes came on average, and the share that fell."""
    return {"distance": float(runs.distance[-1].mean()), "falls": float(runs.fell.mean())}
