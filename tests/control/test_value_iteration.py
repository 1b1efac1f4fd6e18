"""Value iteration against exact step counts, and the optimal driver against the expert."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from traceclass import control
from traceclass.control import mountain_car as car
from traceclass.control.grid_value import GridValue, grid_points

value_iteration = eqx.filter_jit(control.value_iteration)


def test_a_plane_is_interpolated_exactly():
    low, high = (0.0, -1.0), (2.0, 1.0)

    def plane(points):
        return 3 * points[:, 0] - points[:, 1]

    @jax.jit
    def interpolated(points):
        return GridValue(plane(grid_points(low, high, (5, 4))).reshape(5, 4), low, high)(points)

    points = np.random.default_rng(0).uniform(low, high, (50, 2))
    np.testing.assert_allclose(interpolated(points), plane(points), atol=1e-5)
    corner = np.array([[2.0, 1.0], [9.0, 9.0]])
    np.testing.assert_allclose(interpolated(corner), [5.0, 5.0], atol=1e-5)


def test_a_walk_along_a_line_takes_as_many_steps_as_it_must():
    """One step right is 0.1; the goal is x >= 0.95; going left or staying never helps."""
    moves = np.array([[-0.1, 0.0], [0.0, 0.0], [0.1, 0.0]])

    def successors(states):
        return jnp.clip(states[:, None] + moves, 0.0, 1.0)

    value = value_iteration(
        successors, lambda s: s[..., 0] >= 0.95, (0.0, 0.0), (1.0, 1.0), num_nodes=11, max_steps=40
    )
    states = np.array([[0.0, 0.3], [0.5, 0.5], [0.9, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(jax.jit(value)(states), [-10.0, -5.0, -1.0, 0.0], atol=1e-4)


def test_a_goal_between_nodes_is_reached_when_it_is_crossed():
    """From 0.6 one step of 0.15 crosses 0.75; interpolation would count part of another step."""
    value = value_iteration(
        lambda s: (s + np.array([0.15, 0.0]))[:, None].repeat(2, axis=1),
        lambda s: s[..., 0] >= 0.745, (0.0, 0.0), (1.0, 1.0), num_nodes=6, max_steps=30,
    )  # fmt: skip
    (steps,) = np.asarray(jax.jit(value)(np.array([[0.6, 0.4]])))
    assert steps == pytest.approx(-1.0, abs=1e-4)


def test_what_cannot_arrive_stays_at_the_bound():
    value = value_iteration(
        lambda s: s[:, None].repeat(2, axis=1), lambda s: s[..., 0] > 2, (0.0, 0.0), (1.0, 1.0),
        num_nodes=3, max_steps=7,
    )  # fmt: skip
    np.testing.assert_allclose(value.values, -7.0)


@pytest.fixture(scope="module")
def truth():
    return value_iteration(
        car.successors, car.reached_goal, car.LOW, car.HIGH, num_nodes=150, max_steps=300
    )


def test_the_optimal_driver_takes_as_long_as_its_value_says_and_less_than_the_expert(truth):
    """The mean over 200 starts within 3 % of the value; the grid's error is of that order."""
    starts = car.initial_states(jax.random.key(0), 200)

    def mean_steps(policy):
        rollouts = control.rollout(
            policy, car.step, car.reached_goal, jax.random.key(1), starts, max_steps=250
        )
        assert rollouts.num_failures == 0
        return np.asarray(rollouts.num_steps).mean()

    optimal = mean_steps(control.argmax_policy(truth, car.successors))
    assert optimal == pytest.approx(-np.asarray(jax.jit(truth)(starts)).mean(), rel=0.03)
    assert optimal < mean_steps(lambda _, states: car.expert(states))
