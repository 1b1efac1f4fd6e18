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
    states = np.random.default_rng(0).uniform(-0.06, 0.06, (50, 2)).astype(np.float32)
    actions = jax.jit(control.argmax_policy(energy, car.successors))(jax.random.key(1), states)
    value_after = jax.jit(lambda state, action: energy(car.step(state, action)[None])[0])
    for state, action in zip(states, np.asarray(actions), strict=True):
        values = [float(value_after(state, np.array(a))) for a in range(3)]
        assert action == np.argmax(values)


def test_noisy_argmax_has_the_choice_probabilities():
    """40,000 choices in one state against the likelihood's own probability, 5 standard errors."""
    state = jnp.asarray(np.array([[-0.5, 0.01]]))
    noise = 1e-4
    policy = jax.jit(control.noisy_argmax_policy(energy, car.successors, noise=noise))
    n = 40_000
    actions = np.asarray(policy(jax.random.key(0), np.repeat(np.asarray(state), n, axis=0)))
    for action in range(3):
        like = tc.ActionChoice(car.successors(state), np.array([action]), noise=noise)
        probability = np.exp(float(like.log_prob(energy(like.points))))
        error = np.sqrt(probability * (1 - probability) / n)
        assert np.mean(actions == action) == pytest.approx(probability, abs=5 * error)


def test_noisy_argmax_needs_noise():
    with pytest.raises(ValueError, match="Without noise use argmax_policy"):
        control.noisy_argmax_policy(energy, car.successors, noise=0.0)


def test_thompson_uses_one_draw_an_episode():
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(4,))
    positions = prior.sample(jax.random.key(0), (30,))
    states = car.initial_states(jax.random.key(1), 30)
    policy = jax.jit(control.thompson_policy(prior, positions, car.successors))
    actions = np.asarray(policy(jax.random.key(2), states))
    values_of = jax.jit(lambda z, state: prior.evaluate(z, car.successors(state)))
    each = zip(np.asarray(positions), np.asarray(states), actions, strict=True)
    for z, state, action in each:
        assert action == np.argmax(values_of(z, state))


def test_rollouts_are_the_loop_they_replace():
    policy = jax.jit(control.argmax_policy(energy, car.successors))
    starts = car.initial_states(jax.random.key(0), 5)
    rollouts = control.rollout(
        policy, car.step, car.reached_goal, jax.random.key(1), starts, max_steps=120
    )
    assert rollouts.states.shape == (121, 5, 2)
    states, reached_each, num_steps = map(
        np.asarray, (rollouts.states, rollouts.reached, rollouts.num_steps)
    )

    @jax.jit
    def step(state):
        state = car.step(state, policy(jax.random.key(0), state[None])[0])
        return state, car.reached_goal(state)

    for episode, state in enumerate(np.asarray(starts)):
        steps, reached = 120, False
        for t in range(1, 121):
            state, is_there = step(state)
            if bool(is_there):
                steps, reached = t, True
                break
        assert reached_each[episode] == reached
        assert num_steps[episode] == steps
        np.testing.assert_allclose(states[-1, episode], state, atol=1e-5)
    assert rollouts.num_failures == (~reached_each).sum()


def test_an_episode_that_starts_at_the_flag_takes_no_steps():
    starts = jnp.asarray(np.array([[0.55, 0.01], [-0.5, 0.0]]))
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
    states = np.random.default_rng(1).uniform(-1.2, 1.2, (30, 2)).astype(np.float32)
    steps = np.array([[0.8, 0.0], [-0.8, 0.3], [0.0, -0.9]], np.float32)

    def successors(states):
        return states[:, None] + steps

    after = successors(states).reshape(-1, 2)
    values = np.asarray(jax.jit(prior.evaluate)(positions, after)).reshape(21, 30, 3)
    votes = [np.bincount(best, minlength=3).argmax() for best in values.argmax(-1).T]
    majority = jax.jit(control.majority_policy(prior, positions, successors))
    np.testing.assert_array_equal(majority(jax.random.key(2), states), votes)
    mean = jax.jit(control.argmax_policy(control.MeanValue(prior, positions), successors))
    wanted = values.mean(axis=0).argmax(axis=-1)
    np.testing.assert_array_equal(mean(jax.random.key(2), states), wanted)
    # They are not the same policy: draws with large values count for more in a mean.
    assert (np.array(votes) != wanted).any()
