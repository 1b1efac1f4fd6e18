r"""The value function of a control problem in two dimensions, on a grid: the reference.

Every step costs one, so the optimal value is minus the number of steps to the goal:

    V(x) = 0 at the goal,   V(x) = -1 + max_a V(T(x, a)) elsewhere
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.control.policies import Successors
from traceclass.module import Module
from traceclass.validation import require_count


class GridValue(Module):
    """A function given by its values on a regular grid over a rectangle, linear in between."""

    values: Float[Array, "first second"]
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, points: Float[Array, "points 2"]) -> Float[Array, " points"]:
        counts = jnp.asarray(self.values.shape)
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        place = jnp.clip((points - low) / (high - low), 0.0, 1.0) * (counts - 1)
        corner = jnp.minimum(place.astype(jnp.int32), counts - 2)
        u, w = (place - corner).T
        i, j = corner.T
        v = self.values
        left = (1 - w) * v[i, j] + w * v[i, j + 1]
        right = (1 - w) * v[i + 1, j] + w * v[i + 1, j + 1]
        return (1 - u) * left + u * right


def grid_points(
    low: Sequence[float], high: Sequence[float], counts: Sequence[int]
) -> Float[Array, "nodes 2"]:
    """The nodes of a regular grid over the rectangle, first coordinate slowest."""
    sides = [jnp.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True)]
    return jnp.stack(jnp.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)


def value_iteration(
    successors: Successors,
    reached_goal: Callable[[Array], Array],
    low: Sequence[float],
    high: Sequence[float],
    *,
    num_nodes: int = 400,
    max_steps: int = 500,
) -> GridValue:
    """Minus the least number of steps to the goal, from each node of a regular grid.

    Starts at V = 0, the most optimistic guess, and falls from sweep to sweep. After `max_steps`
    sweeps states from which the goal is further than that stay at -max_steps. Between nodes V is
    interpolated, which smooths it where it jumps (a car that just fails to make the hill must swing
    once more); the error falls with the spacing of the grid.
    """
    num_nodes = require_count(num_nodes, "num_nodes", "It is the number of nodes per side.", 2)
    max_steps = require_count(max_steps, "max_steps", "It is a number of sweeps.")
    counts = (num_nodes, num_nodes)
    corners = tuple(map(float, low)), tuple(map(float, high))
    states = grid_points(low, high, counts)
    after = successors(states)
    num_actions = after.shape[1]
    arrived = reached_goal(after)

    @jax.jit
    def sweeps() -> Array:
        def sweep(_: Array, values: Array) -> Array:
            reached = GridValue(values, *corners)(after.reshape(-1, 2)).reshape(-1, num_actions)
            best = jnp.max(jnp.where(arrived, 0.0, reached), axis=1) - 1
            return jnp.where(reached_goal(states), 0.0, best).reshape(counts)

        return jax.lax.fori_loop(0, max_steps, sweep, jnp.zeros(counts))

    return GridValue(sweeps(), *corners)
