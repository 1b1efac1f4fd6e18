"""Numbers to record of a learned value function: functions of a position z.

They are modules, so that runs of one shape compile once.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from traceclass.likelihoods import ActionChoice
from traceclass.likelihoods.action_choice import log_choice_probabilities
from traceclass.module import Module


class ValueDifferences(Module):
    """z -> v_a - v_expert, (states, actions): values centred at the expert's (eq. normalise_v).

    `values_of` gives the values of all successors, `expert` (states, 1) the expert's actions.
    """

    values_of: Callable[[Array], Array]
    expert: Array

    def __call__(self, z: Array) -> Array:
        values = self.values_of(z).reshape(len(self.expert), -1)
        return values - jnp.take_along_axis(values, self.expert, axis=1)


class ActionLogProbabilities(Module):
    """z -> the log-probability of each action in each state, (states, actions)."""

    values_of: Callable[[Array], Array]
    num_actions: int = eqx.field(static=True)
    noise: float = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        values = self.values_of(z).reshape(-1, self.num_actions)
        return log_choice_probabilities(values, noise=self.noise)


class RankCorrelation(Module):
    r"""z -> Spearman's correlation of v with a reference, whose `standardised_ranks` are `wanted`.

    It is the same for every increasing function of either, which is as much as choices can tell: a
    likelihood of noisy choices sees v through differences between neighbouring states.
    """

    values_of: Callable[[Array], Array]
    wanted: Array

    def __call__(self, z: Array) -> Array:
        return jnp.mean(standardised_ranks(self.values_of(z)) * self.wanted)


class ChoiceProbability(Module):
    """z -> the mean probability of choices that were made."""

    taken: ActionChoice
    values_of: Callable[[Array], Array]

    def __call__(self, z: Array) -> Array:
        return jnp.mean(jnp.exp(self.taken.log_prob_each(self.values_of(z))))


def standardised_ranks(values: Array) -> Array:
    """Ranks with mean 0 and standard deviation 1."""
    ranks = jnp.argsort(jnp.argsort(values)).astype(float)
    return (ranks - ranks.mean()) / ranks.std()
