r"""Mountain car: Gymnasium's `MountainCar-v0` as pure JAX, its expert, and demonstrations.

A state is (position, velocity); actions are 0 (left), 1 (coast), 2 (right). Every function takes
any batch of states.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from traceclass.validation import require_count

LOW = (-1.2, -0.07)
HIGH = (0.6, 0.07)
NUM_ACTIONS = 3
GOAL = 0.5
_FORCE = 0.001
_GRAVITY = 0.0025
# An episode starts at rest in the valley.
_START_LOW, _START_HIGH = -0.6, -0.4


class Demonstrations(NamedTuple):
    """States an expert was seen in, and the action taken there."""

    states: Float[Array, "demonstrations 2"]
    actions: Int[Array, " demonstrations"]


@jax.jit
def step(
    states: Float[Array, "*batch 2"], actions: Int[Array, "*batch"]
) -> Float[Array, "*batch 2"]:
    r"""One step of the dynamics.

        w' = clip(w + 0.001 (a - 1) - 0.0025 cos(3 x)),   x' = clip(x + w')

    and the car stops at the left wall. It does not stop at the flag: see `reached_goal`.
    """
    x, w = states[..., 0], states[..., 1]
    w = jnp.clip(w + (actions - 1) * _FORCE - _GRAVITY * jnp.cos(3 * x), LOW[1], HIGH[1])
    x = jnp.clip(x + w, LOW[0], HIGH[0])
    w = jnp.where((x <= LOW[0]) & (w < 0), 0.0, w)
    return jnp.stack([x, w], axis=-1)


@jax.jit
def successors(states: Float[Array, "*batch 2"]) -> Float[Array, "*batch actions 2"]:
    """The state that each of the three actions leads to."""
    actions = jnp.arange(NUM_ACTIONS)
    shape = (*states.shape[:-1], NUM_ACTIONS)
    repeated = jnp.broadcast_to(states[..., None, :], (*shape, 2))
    return step(repeated, jnp.broadcast_to(actions, shape))


def reached_goal(states: Float[Array, "*batch 2"]) -> Bool[Array, "*batch"]:
    """Whether the car is at the flag and not rolling back."""
    return (states[..., 0] >= GOAL) & (states[..., 1] >= 0)


def initial_states(key: Key[Array, ""], num_episodes: int) -> Float[Array, "episodes 2"]:
    """Starts in the valley: position uniform in [-0.6, -0.4], velocity zero."""
    x = jax.random.uniform(key, (num_episodes,), minval=_START_LOW, maxval=_START_HIGH)
    return jnp.stack([x, jnp.zeros_like(x)], axis=-1)


@jax.jit
def expert(states: Float[Array, "*batch 2"]) -> Int[Array, "*batch"]:
    r"""The paper's closed-form expert: push right (2) if low <= w <= high, else left (0), with

    low = min(-0.09 (x + 0.25)^2 + 0.03,  0.3 (x + 0.9)^4 - 0.008)
    high = -0.07 (x + 0.38)^2 + 0.07
    """
    x, w = states[..., 0], states[..., 1]
    low = jnp.minimum(-0.09 * (x + 0.25) ** 2 + 0.03, 0.3 * (x + 0.9) ** 4 - 0.008)
    high = -0.07 * (x + 0.38) ** 2 + 0.07
    return jnp.where((low <= w) & (w <= high), 2, 0)


def demonstrate(
    key: Key[Array, ""], *, num_demonstrations: int = 50, keep_every: int = 5
) -> Demonstrations:
    """The expert's states and actions, every fifth kept, with a new start whenever it arrives.

    Fifty of 250 steps are the paper's data set; thinning spreads them over the state space.
    """
    count = require_count(num_demonstrations, "num_demonstrations", "Learning needs data.")
    every = require_count(keep_every, "keep_every", "1 keeps every state.")

    def one_step(state: Array, key: Array) -> tuple[Array, Demonstrations]:
        action = expert(state)
        after = step(state, action)
        fresh = initial_states(key, 1)[0]
        return jnp.where(reached_goal(after), fresh, after), Demonstrations(state, action)

    @jax.jit
    def episodes(key: Array) -> Demonstrations:
        key_first, key_restarts = jax.random.split(key)
        first = initial_states(key_first, 1)[0]
        keys = jax.random.split(key_restarts, count * every)
        return jax.lax.scan(one_step, first, keys)[1]

    return Demonstrations(*(part[every - 1 :: every] for part in episodes(key)))
