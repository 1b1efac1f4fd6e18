"""Mountain car against Gymnasium, the expert against the paper, demonstrations and starts."""

from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceclass.control import mountain_car as car


@pytest.fixture(scope="module")
def environment():
    environment = gymnasium.make("MountainCar-v0").unwrapped
    environment.reset(seed=0)
    yield environment
    environment.close()


def gym_step(environment, state, action) -> tuple[np.ndarray, bool]:
    environment.state = tuple(map(float, state))
    after, _, arrived, _, _ = environment.step(int(action))
    return np.asarray(after, dtype=float), bool(arrived)


STATES = st.tuples(
    st.floats(car.LOW[0], car.HIGH[0]),
    st.floats(car.LOW[1], car.HIGH[1]),
)


@settings(max_examples=500, deadline=None)
@given(state=STATES, action=st.integers(0, 2))
def test_one_step_agrees_with_gymnasium(environment, state, action):
    expected, arrived = gym_step(environment, state, action)
    with jax.enable_x64(True):
        after = car.step(jnp.array(state, dtype=float), jnp.array(action))
        assert bool(car.reached_goal(after)) == arrived
    np.testing.assert_allclose(after, expected, atol=1e-6)


def test_random_steps_agree_with_gymnasium_in_single_precision(environment):
    """10,000 random states. Within 1e-6 of the wall, where the velocity jumps to zero, the two
    precisions may fall on different sides, so these are left to the test above."""
    rng = np.random.default_rng(0)
    states = rng.uniform(car.LOW, car.HIGH, (10_000, 2)).astype(np.float32)
    actions = rng.integers(0, 3, 10_000)
    after = np.asarray(car.step(jnp.asarray(states), jnp.asarray(actions)))
    expected = np.array(
        [gym_step(environment, s, a)[0] for s, a in zip(states, actions, strict=True)]
    )
    clear = np.abs(expected[:, 0] + 1.2) > 1e-6
    stopped = expected[:, 0] == np.float32(-1.2)
    assert stopped.sum() > 50
    np.testing.assert_allclose(after[clear | stopped], expected[clear | stopped], atol=1e-6)


def test_an_episode_agrees_with_gymnasium(environment):
    """The expert's whole drive, each side keeping its own state."""
    state = jnp.array([-0.52, 0.0])
    environment.state = (float(state[0]), 0.0)
    for _ in range(200):
        action = int(car.expert(state))
        state = car.step(state, jnp.array(action))
        expected, _, arrived, _, _ = environment.step(action)
        np.testing.assert_allclose(state, expected, atol=1e-5)
        if arrived:
            break
    assert arrived
    assert bool(car.reached_goal(state))


def test_successors_are_the_three_steps():
    states = jax.random.uniform(jax.random.key(0), (4, 2), minval=-0.05, maxval=0.05)
    after = car.successors(states)
    assert after.shape == (4, 3, 2)
    for action in range(3):
        np.testing.assert_array_equal(after[:, action], car.step(states, jnp.full(4, action)))


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ((-0.5, 0.0), 2),  # bounds at x = -0.5: low = -0.0003, high = 0.069
        ((-0.5, -0.01), 0),
        ((-0.25, 0.04), 2),  # low = 0.03
        ((-0.25, 0.02), 0),
        ((-0.9, -0.005), 2),  # low = -0.008
        ((-0.9, 0.06), 0),  # high = 0.0511
    ],
)
def test_expert_follows_the_papers_bounds(state, action):
    assert int(car.expert(jnp.array(state))) == action


def test_the_expert_always_arrives():
    """It is not quite optimal: about 2 of 1,000 starts take it more than 200 steps."""
    states = car.initial_states(jax.random.key(1), 500)
    assert float(states[:, 0].min()) >= -0.6
    assert float(states[:, 0].max()) <= -0.4
    assert not states[:, 1].any()
    arrived = jnp.zeros(500, bool)
    for _ in range(240):
        states = jnp.where(arrived[:, None], states, car.step(states, car.expert(states)))
        arrived |= car.reached_goal(states)
    assert bool(arrived.all())


def test_demonstrations_are_every_fifth_state_of_the_experts_drives():
    key = jax.random.key(4)
    kept = car.demonstrate(key)
    every = car.demonstrate(key, num_demonstrations=250, keep_every=1)
    assert kept.states.shape == (50, 2)
    np.testing.assert_array_equal(kept.states, every.states[4::5])
    np.testing.assert_array_equal(kept.actions, car.expert(kept.states))
    following = car.step(every.states, every.actions)[:-1]
    continues = jnp.all(jnp.isclose(following, every.states[1:], atol=1e-6), axis=1)
    restarts = every.states[1:][~continues]
    assert 1 <= len(restarts) <= 4
    np.testing.assert_array_equal(restarts[:, 1], 0.0)
    assert bool(car.reached_goal(following[~continues]).all())


def test_demonstrations_need_a_count():
    with pytest.raises(ValueError, match="num_demonstrations must be at least 1, got 0"):
        car.demonstrate(jax.random.key(0), num_demonstrations=0)
