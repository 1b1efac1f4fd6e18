"""Successors against Gymnasium's own steps, environments left as they were, and every refusal."""

from __future__ import annotations

import sys

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv
from gymnasium.wrappers import (
    ClipAction,
    DiscretizeAction,
    MaxAndSkipObservation,
    RescaleAction,
    StickyAction,
)

from traceclass.control import mountain_car
from traceclass.control.extras import MissingExtra, import_gymnasium, import_mujoco
from traceclass.control.transitions import mujoco_steps, mujoco_successors, successors

# States that lie where the environments do: corners of a box.
CLASSIC = {
    "CartPole-v1": [2.4, 2.0, 0.4, 2.0],  # many of them past the end of an episode
    "MountainCar-v0": [1.2, 0.07],
    "MountainCarContinuous-v0": [1.2, 0.07],
    "Acrobot-v1": [3.0, 3.0, 4.0, 9.0],
    "Pendulum-v1": [7.0, 8.0],
}
# Widths: without the positions that the observations leave out, and whole.
MUJOCO = {
    "HalfCheetah-v5": (17, 18),
    "Hopper-v5": (11, 12),
    "Ant-v5": (27, 29),
    "InvertedPendulum-v5": (4, 4),
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """MuJoCo writes MUJOCO_LOG.TXT where it warns, as of Gymnasium's cheetah."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cheetah():
    with gymnasium.make("HalfCheetah-v5") as env:
        yield env


def some_actions(space) -> list:
    space.seed(0)
    return [space.sample() for _ in range(3)]


def some_states(env, num_states: int) -> np.ndarray:
    """Whole states about the first pose, in the air and in the ground."""
    simulator, rng = env.unwrapped, np.random.default_rng(0)
    first = np.concatenate([simulator.init_qpos, simulator.init_qvel])
    return first + rng.normal(size=(num_states, len(first))) * 0.2


def mujoco_step(env, state: np.ndarray, action) -> np.ndarray:
    simulator = env.unwrapped
    simulator.set_state(*np.split(state, [simulator.model.nq]))
    env.step(action)
    return simulator.state_vector()


@pytest.mark.parametrize("name", MUJOCO)
def test_agrees_with_set_state_and_step(name):
    env = gymnasium.make(name)
    env.reset(seed=0)
    (short, whole), actions, states = (
        MUJOCO[name],
        some_actions(env.action_space),
        some_states(env, 6),
    )
    expected = np.array([[mujoco_step(env, s, a) for a in actions] for s in states])
    after = successors(env, states, actions)
    assert after.shape == (6, 3, whole)
    assert after.dtype == np.float64
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-10)
    left_out = whole - short
    states[:, :left_out] = 0
    expected = np.array([[mujoco_step(env, s, a) for a in actions] for s in states])
    after = successors(env, states[:, left_out:], actions)
    np.testing.assert_allclose(after, expected[..., left_out:], rtol=0, atol=1e-10)
    env.close()


def test_threads_do_not_matter(cheetah):
    states, actions = some_states(cheetah, 50), some_actions(cheetah.action_space)
    one, three = (successors(cheetah, states, actions, num_threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_successors_are_steps_of_every_pair(cheetah):
    simulator, rng = cheetah.unwrapped, np.random.default_rng(1)
    states, actions = some_states(cheetah, 4), rng.uniform(-2, 2, (3, 6))
    after = mujoco_successors(simulator.model, states, actions, frame_skip=5)
    pairs = mujoco_steps(
        simulator.model, states.repeat(3, axis=0), np.tile(actions, (4, 1)), frame_skip=5
    )
    np.testing.assert_array_equal(after, pairs.reshape(4, 3, 18))
    # MuJoCo clamps the controls.
    clamped = mujoco_successors(simulator.model, states, actions.clip(-1, 1), frame_skip=5)
    np.testing.assert_array_equal(after, clamped)


def test_two_short_steps_are_one_of_twice_the_length(cheetah):
    """T_10 = T_5 o T_5: the frame skip counts MuJoCo's steps."""
    model, states = cheetah.unwrapped.model, some_states(cheetah, 4)
    controls = np.random.default_rng(2).uniform(-1, 1, (4, 6))
    twice = mujoco_steps(
        model, mujoco_steps(model, states, controls, frame_skip=5), controls, frame_skip=5
    )
    once = mujoco_steps(model, states, controls, frame_skip=10)
    np.testing.assert_allclose(twice, once, rtol=0, atol=1e-9)


def test_mujoco_environment_does_not_move(cheetah):
    cheetah.reset(seed=0)
    cheetah.step(cheetah.action_space.sample())
    data = cheetah.unwrapped.data
    before = [part.copy() for part in (data.qpos, data.qvel, data.ctrl, data.qacc_warmstart)]
    time = data.time
    successors(cheetah, some_states(cheetah, 3), some_actions(cheetah.action_space))
    now = data.qpos, data.qvel, data.ctrl, data.qacc_warmstart
    assert all(np.array_equal(a, b) for a, b in zip(before, now, strict=True))
    assert data.time == time


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("was_reset", [True, False])
def test_agrees_with_setting_the_state(name, was_reset):
    high = np.array(CLASSIC[name])
    states = np.random.default_rng(0).uniform(-high, high, (40, len(high)))
    env, own = gymnasium.make(name), gymnasium.make(name).unwrapped
    if was_reset:
        env.reset(seed=0)
    actions = (
        None if isinstance(env.action_space, spaces.Discrete) else some_actions(env.action_space)
    )
    after = successors(env, states, actions)
    own.reset(seed=0)

    def step(state, action):
        own.state, own.steps_beyond_terminated = tuple(state), None
        own.step(action)
        return own.state

    listed = range(env.action_space.n) if actions is None else actions
    expected = np.array([[step(state, action) for action in listed] for state in states])
    assert after.dtype == np.float64
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-10)


def test_mountain_car_is_that_of_this_library():
    rng = np.random.default_rng(0)
    states = rng.uniform([-1.1, -0.05], mountain_car.HIGH, (200, 2))
    ours = mountain_car.successors(jnp.asarray(states))
    theirs = successors(gymnasium.make("MountainCar-v0"), states)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("name", ["Pendulum-v1", "InvertedPendulum-v5"])
def test_any_batch_of_states(name, batch):
    env = gymnasium.make(name)
    width = 2 if name == "Pendulum-v1" else 4
    states = np.random.default_rng(0).normal(size=(*batch, width)) * 0.1
    actions = some_actions(env.action_space)
    after = successors(env, states, actions)
    assert after.shape == (*batch, 3, width)
    rows = [successors(env, row, actions) for row in states.reshape(-1, width)]
    np.testing.assert_array_equal(after, np.array(rows).reshape(after.shape))


def test_jax_arrays_and_single_actions():
    env = gymnasium.make("CartPole-v1")
    after = successors(env, jnp.zeros((2, 4)), jnp.array([1]))
    np.testing.assert_array_equal(after, successors(env, np.zeros((2, 4)))[:, 1:])


@pytest.mark.parametrize("name", CLASSIC)
def test_environment_does_not_move(name):
    """The rest of an episode is as if nothing had been asked."""

    def episode(asked: bool):
        env = gymnasium.make(name)
        env.reset(seed=3)
        env.action_space.seed(3)
        for _ in range(5):
            if asked:
                states = np.full((2, len(CLASSIC[name])), 0.01)
                successors(env, states, [env.action_space.low] if box(env) else None)
            observation = env.step(env.action_space.sample())[0]
        return observation, np.array(env.unwrapped.state), env.unwrapped.np_random.random()

    def box(env):
        return isinstance(env.action_space, spaces.Box)

    for quiet, asked in zip(episode(False), episode(True), strict=True):
        np.testing.assert_array_equal(quiet, asked)


def test_environment_does_not_move_when_a_step_fails():
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    before = env.state.copy()
    env.step = lambda action: action / 0
    with pytest.raises(ZeroDivisionError):
        successors(env, np.zeros((1, 4)))
    np.testing.assert_array_equal(env.state, before)


def test_an_environment_that_was_not_reset_stays_so():
    env = gymnasium.make("CartPole-v1")
    successors(env, np.zeros((1, 4)))
    assert env.unwrapped.state is None


def test_nothing_is_shown(monkeypatch):
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    env.render_mode = "human"
    monkeypatch.setattr(type(env), "render", pytest.fail)
    successors(env, [[0.0, 0.0]], [[1.0]])


def test_action_wrappers_act_from_the_outside_in():
    """[0, 1] is rescaled to [-2, 2] inside of the clip to [0, 1]: 7 is 1 is 2."""
    plain = gymnasium.make("Pendulum-v1")
    wrapped = ClipAction(RescaleAction(plain, np.float32(0), np.float32(1)))
    states = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(
        successors(wrapped, states, [[7.0], [0.25], [-3.0]]),
        successors(plain, states, [[2.0], [-1.0], [-2.0]]),
        atol=1e-12,
    )


def test_mujoco_with_discretized_actions(cheetah):
    """Two bins a joint: 64 actions, of which the last pushes all joints by 1/2."""
    wrapped, states = DiscretizeAction(cheetah, bins=2), some_states(cheetah, 2)
    after = successors(wrapped, states)
    assert after.shape == (2, 64, 18)
    last = successors(cheetah, states, [[0.5] * 6])
    np.testing.assert_array_equal(after[:, -1:], last)


def test_discrete_actions_that_do_not_start_at_zero():
    class Shifted(Walk):
        action_space = spaces.Discrete(3, start=-1)

    np.testing.assert_array_equal(
        successors(Shifted(), [[5.0, 5.0]]), [[[4.0, 4.0], [5.0, 5.0], [6.0, 6.0]]]
    )


class Walk(gymnasium.Env):
    """The least environment with a state: whole numbers, which steps change in place."""

    action_space: spaces.Space = spaces.Discrete(2)
    observation_space = spaces.Box(-1, 1, (2,))

    def __init__(self):
        self.state = np.array([0, 0])

    def step(self, action):
        self.state += action
        return self.state, 0.0, False, False, {}


def test_a_state_that_changes_in_place_and_holds_whole_numbers():
    env = Walk()
    np.testing.assert_array_equal(successors(env, [[1, 2]]), [[[1, 2], [2, 3]]])
    assert env.state.tolist() == [0, 0]
    with pytest.raises(
        ValueError, match=r"states of Walk must be whole, as it keeps them; got 0\.5"
    ):
        successors(env, [[0.5, 2]])


class ReadOnly(Walk):
    def __init__(self):
        pass

    @property
    def state(self):
        return np.zeros(2)


class Image(Walk):
    def __init__(self):
        self.state = np.zeros((4, 4))


class Choices(Walk):
    action_space = spaces.MultiBinary(2)


class OwnSimulation(InvertedPendulumEnv):
    def do_simulation(self, ctrl, n_frames):
        super().do_simulation(2 * ctrl, n_frames)


def noisy_acrobot():
    env = gymnasium.make("Acrobot-v1")
    env.unwrapped.torque_noise_max = 0.1
    return env


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: gymnasium.make("FrozenLake-v1"), "FrozenLake-v1: it has no `state`"),
        (lambda: gymnasium.make("Blackjack-v1"), "Blackjack-v1: it has no `state`"),
        (ReadOnly, "ReadOnly: its `state` is a property without a setter"),
        (Image, "Image: its `state` is no row of numbers but ndarray"),
        (noisy_acrobot, r"Acrobot-v1: its step is random, by np_random\.uniform"),
        (OwnSimulation, r"OwnSimulation: it does not simulate by MujocoEnv\.do_simulation"),
        (
            lambda: StickyAction(gymnasium.make("CartPole-v1"), 0.5),
            "CartPole-v1: its wrapper StickyAction",
        ),
        (
            lambda: MaxAndSkipObservation(gymnasium.make("CartPole-v1")),
            "CartPole-v1: its wrapper MaxAndSkipObservation",
        ),
    ],
)
def test_refuses_what_cannot_be_set(make, why):
    env = make()
    width = 2 if isinstance(env, Walk) else 4
    actions = None if isinstance(env.action_space, spaces.Discrete) else [[0.0]]
    with pytest.raises(ValueError, match=f"successors needs an environment .* got {why}") as error:
        successors(env, np.zeros((1, width)), actions)
    assert "\n" not in str(error.value)
    env.close()


@pytest.mark.parametrize(
    ("name", "states", "actions", "message"),
    [
        ("CartPole-v1", 1.0, None, r"states must be \(n, d\), .* got shape \(\)"),
        ("CartPole-v1", np.zeros((2, 0)), None, r"got shape \(2, 0\)"),
        ("CartPole-v1", [[np.nan, 0, 0, 0]], None, "states must be finite, got nan"),
        ("Pendulum-v1", np.zeros((1, 3)), [[0.0]], "Pendulum-v1 must have width 2, .* got 3"),
        ("Ant-v5", np.zeros((1, 9)), np.zeros((1, 8)), r"width 29, .*, or 27 .*first 2.*; got 9"),
        ("InvertedPendulum-v5", np.zeros((1, 5)), [[0.0]], r"width 4, \(qpos, qvel\); got 5"),
        ("CartPole-v1", np.zeros((1, 4)), [], "actions must hold one action or more"),
        ("CartPole-v1", np.zeros((1, 4)), [0, 2], "actions must lie from 0 to 1, got 2"),
        ("CartPole-v1", np.zeros((1, 4)), [1.0], r"integers \(M,\), got float64 \(1,\)"),
        ("CartPole-v1", np.zeros((1, 4)), 1, r"integers \(M,\), got int64 \(\)"),
        ("Pendulum-v1", np.zeros((1, 2)), None, r"actions=None .* Pass an array \(M, 1\)"),
        ("Pendulum-v1", np.zeros((1, 2)), [0.0, 1.0], r"\(M, 1\) for Box.*, got shape \(2,\)"),
        ("Pendulum-v1", np.zeros((1, 2)), [[np.inf]], "actions must be finite, got inf"),
        ("Pendulum-v1", np.zeros((1, 2)), [[0.0], [2.5]], r"must lie in Box.*, got 2\.5.*Clip"),
    ],
)
def test_wrong_states_and_actions(name, states, actions, message):
    with gymnasium.make(name) as env, pytest.raises(ValueError, match=message) as error:
        successors(env, states, actions)
    assert "\n" not in str(error.value)


def test_other_action_spaces_are_refused():
    with pytest.raises(ValueError, match=r"Discrete or Box action space, got MultiBinary\(2\)"):
        successors(Choices(), [[0, 0]], [[0, 1]])


@pytest.mark.parametrize("env", ["CartPole-v1", None, gymnasium])
def test_refuses_what_is_no_environment(env):
    with pytest.raises(TypeError, match=r"env must be a gymnasium\.Env, got .*gymnasium\.make"):
        successors(env, np.zeros((1, 4)))


def test_wrong_rows_of_mujoco(cheetah):
    model, states, controls = cheetah.unwrapped.model, np.zeros((2, 18)), np.zeros((2, 6))
    with pytest.raises(
        ValueError, match=r"states must be \(n, nq \+ nv\) = \(n, 18\), got \(2, 17"
    ):
        mujoco_steps(model, states[:, 1:], controls, frame_skip=1)
    with pytest.raises(ValueError, match=r"controls must be \(n, nu\) = \(2, 6\), got \(1, 6\)"):
        mujoco_steps(model, states, controls[:1], frame_skip=1)
    with pytest.raises(ValueError, match="controls must be finite, got nan"):
        mujoco_steps(model, states, controls * np.nan, frame_skip=1)
    with pytest.raises(ValueError, match="frame_skip must be at least 1, got 0"):
        mujoco_steps(model, states, controls, frame_skip=0)
    with pytest.raises(ValueError, match="num_threads must be at least 1, got 0"):
        mujoco_steps(model, states, controls, frame_skip=1, num_threads=0)


@pytest.mark.parametrize("frame_skip", [1, 5])
def test_states_from_which_mujoco_restarts_are_refused(cheetah, frame_skip):
    """It would otherwise answer with its default pose."""
    states = np.zeros((3, 18))
    states[1, 9:] = 1e12
    with pytest.raises(ValueError, match=r"row 1 is unstable \(1 of 3 rows\)"):
        mujoco_steps(cheetah.unwrapped.model, states, np.zeros((3, 6)), frame_skip=frame_skip)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            '<worldbody><body><joint name="j"/><geom size="1"/></body></worldbody><actuator>'
            '<general joint="j" dyntype="integrator"/></actuator>',
            r"keeps 1 more numbers \(na = 1\) and 0 mocap bodies",
        ),
        (
            '<worldbody><body mocap="true"><geom size="1"/></body></worldbody>',
            "0 more numbers .* and 1 mocap bodies",
        ),
    ],
)
def test_models_of_which_qpos_and_qvel_are_not_all_are_refused(model, message):
    mujoco, _ = import_mujoco()
    model = mujoco.MjModel.from_xml_string(f"<mujoco>{model}</mujoco>")
    states, controls = np.zeros((1, model.nq + model.nv)), np.zeros((1, model.nu))
    with pytest.raises(ValueError, match=message):
        mujoco_steps(model, states, controls, frame_skip=1)


@pytest.mark.parametrize(
    ("package", "load"), [("mujoco", import_mujoco), ("gymnasium", import_gymnasium)]
)
def test_a_missing_package_is_told_in_one_line(monkeypatch, package, load):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as error:
        load()
    assert str(error.value) == (
        f"the half cheetah and Gymnasium's environments need the package {package}, which is not "
        "installed: pip install 'gymnasium[mujoco]'."
    )
    assert error.value.name == package


def test_successors_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match="pip install"):
        successors(None, np.zeros((1, 4)))


def test_another_missing_package_is_told_in_its_own_words(monkeypatch):
    def broken(name):
        raise ModuleNotFoundError("No module named 'etils'", name="etils")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="etils"):
        import_mujoco()
