"""Many episodes of a policy at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from traceclass.control.policies import Policy
from traceclass.validation import require_count


class Rollouts(NamedTuple):
    """Whether each episode reached the goal, after how many steps, and where it went."""

    reached: Bool[Array, " episodes"]
    num_steps: Int[Array, " episodes"]
    states: Float[Array, "steps_plus_one episodes dim"]

    @property
    def num_failures(self) -> int:
        """Episodes that did not reach the goal in time."""
        return int(jnp.sum(~self.reached))


def rollout(
    policy: Policy,
    step: Callable[[Array, Array], Array],
    reached_goal: Callable[[Array], Array],
    key: Key[Array, ""],
    initial_states: Float[Array, "episodes dim"],
    *,
    max_steps: int,
) -> Rollouts:
    """Follow `policy` from each initial state until the goal, for at most `max_steps` steps.

    An episode that has arrived stays where it is. `num_steps` is `max_steps` for a failure.
    """
    max_steps = require_count(max_steps, "max_steps", "An episode needs time.")
    return _rollout(policy, step, reached_goal, key, initial_states, max_steps)


@eqx.filter_jit
def _rollout(
    policy: Policy,
    step: Callable[[Array, Array], Array],
    reached_goal: Callable[[Array], Array],
    key: Array,
    initial_states: Array,
    max_steps: int,
) -> Rollouts:
    def one_step(carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], tuple]:
        states, arrived = carry
        after = step(states, policy(key, states))
        states = jnp.where(arrived[:, None], states, after)
        arrived = arrived | reached_goal(states)
        return (states, arrived), (states, arrived)

    first = (initial_states, reached_goal(initial_states))
    _, (states, arrived) = jax.lax.scan(one_step, first, jax.random.split(key, max_steps))
    driving = ~jnp.concatenate([first[1][None], arrived[:-1]])
    return Rollouts(
        arrived[-1], jnp.sum(driving, axis=0), jnp.concatenate([initial_states[None], states])
    )
