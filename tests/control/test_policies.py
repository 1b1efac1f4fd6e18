"""Policies and rollouts against plain loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc
from traceclass import control
from traceclass.control import mountain_car as car


def energy(states):
    """A value function that knows the way: mechanical energy of the car."""
    return 0.5 * states[:, 1] ** 2 + 0.0025 / 3 * jnp.sin(3 * states[:, 0])


def test_argmax_takes_the_best_successor():
    states = jax.random.uniform(jax.random.key(0), (50, 2), minval=-0.06, maxval=0.06)
    policy = control.argmax_policy(energy, car.successors)
    actions = policy(jax.random.key(1), states)
    for state, action in zip(states, actions, strict=True):
        values = [energy(car.step(state, jnp.array(a))[None])[0] for a in range(3)]
        assert int(action) == int(np.argmax(values))


def test_noisy_argmax_has_the_choice_probabilities():
    """40,000 choices in one state against the likelihood's own probability, 5 standard errors."""
    state = jnp.array([[-0.5, 0.01]])
    noise = 1e-4
    policy = control.noisy_argmax_policy(energy, car.successors, noise=noise)
    n = 40_000
    actions = np.asarray(policy(jax.random.key(0), jnp.repeat(state, n, axis=0)))
    for action in range(3):
        like = tc.ActionChoice(car.successors(state), np.array([action]), noise=noise)
        probability = float(jnp.exp(like.log_prob(energy(like.points))))
        error = np.sqrt(probability * (1 - probability) / n)
        assert np.mean(actions == action) == pytest.approx(probability, abs=5 * error)


def test_noisy_argmax_needs_noise():
    with pytest.raises(ValueError, match="Without noise use argmax_policy"):
        control.noisy_argmax_policy(energy, car.successors, noise=0.0)


def test_thompson_uses_one_draw_an_episode():
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(4,))
    positions = prior.sample(jax.random.key(0), (30,))
    states = car.initial_states(jax.random.key(1), 30)
    actions = control.thompson_policy(prior, positions, car.successors)(jax.random.key(2), states)
    for z, state, action in zip(positions, states, actions, strict=True):
        values = prior.evaluate(z, car.successors(state))
        assert int(action) == int(jnp.argmax(values))


def test_rollouts_are_the_loop_they_replace():
    policy = control.argmax_policy(energy, car.successors)
    starts = car.initial_states(jax.random.key(0), 5)
    rollouts = control.rollout(
        policy, car.step, car.reached_goal, jax.random.key(1), starts, max_steps=120
    )
    assert rollouts.states.shape == (121, 5, 2)
    for episode in range(5):
        state, steps, reached = starts[episode], 120, False
        for t in range(1, 121):
            action = policy(jax.random.key(0), state[None])[0]
            state = car.step(state, action)
            if bool(car.reached_goal(state)):
                steps, reached = t, True
                break
        assert bool(rollouts.reached[episode]) == reached
        assert int(rollouts.num_steps[episode]) == steps
        np.testing.assert_allclose(rollouts.states[-1, episode], state, atol=1e-5)
    assert rollouts.num_failures == int((~np.asarray(rollouts.reached)).sum())


def test_an_episode_that_starts_at_the_flag_takes_no_steps():
    starts = jnp.array([[0.55, 0.01], [-0.5, 0.0]])
    policy = control.argmax_policy(energy, car.successors)
    rollouts = control.rollout(
        policy, car.step, car.reached_goal, jax.random.key(1), starts, max_steps=5
    )
    assert rollouts.num_steps.tolist() == [0, 5]
    assert rollouts.reached.tolist() == [True, False]
    with pytest.raises(ValueError, match="max_steps must be at least 1"):
        control.rollout(policy, car.step, car.reached_goal, jax.random.key(1), starts, max_steps=0)


def test_failures_count_as_the_longest_episode():

    def stay(key, states):
        return jnp.ones(len(states), int)

    starts = car.initial_states(jax.random.key(0), 3)
    rollouts = control.rollout(
        stay, car.step, car.reached_goal, jax.random.key(1), starts, max_steps=10
    )
    assert rollouts.num_failures == 3
    assert rollouts.num_steps.tolist() == [10, 10, 10]


def test_majority_takes_what_most_draws_deem_best_and_the_mean_what_they_do_on_average():
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(6, 6))
    positions = prior.sample(jax.random.key(0), (21,))
    states = jax.random.uniform(jax.random.key(1), (30, 2), minval=-0.06, maxval=0.06)
    steps = jnp.array([[0.8, 0.0], [-0.8, 0.3], [0.0, -0.9]])

    def successors(states):
        return states[:, None] + steps

    after = successors(20 * states)
    values = np.asarray(prior.evaluate(positions, after.reshape(-1, 2))).reshape(21, 30, 3)
    votes = [np.bincount(best, minlength=3).argmax() for best in values.argmax(-1).T]
    majority = control.majority_policy(prior, positions, successors)
    np.testing.assert_array_equal(majority(jax.random.key(2), 20 * states), votes)
    mean = control.argmax_policy(control.MeanValue(prior, positions), successors)
    wanted = values.mean(axis=0).argmax(axis=-1)
    np.testing.assert_array_equal(mean(jax.random.key(2), 20 * states), wanted)
    # They are not the same policy: draws with large values count for more in a mean.
    assert (np.array(votes) != wanted).any()
