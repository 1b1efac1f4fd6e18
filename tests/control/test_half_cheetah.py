"""The cheetah against Gymnasium, its older inertia against closed forms, experts and episodes."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import traceclass as tc
from traceclass.control import half_cheetah as cheetah
from traceclass.control.cheetah_model import LIMBS, RADIUS, TOTAL_MASS, TRUNK
from traceclass.control.linear_expert import LinearExpert

ACTIONS = np.random.default_rng(8).uniform(-1, 1, (8, 6))


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """MuJoCo writes MUJOCO_LOG.TXT where it warns, as of Gymnasium's cheetah."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["theirs", "ours"])
def env(request):
    """Gymnasium's environment with its own model file, and with our model."""
    made = gymnasium.make("HalfCheetah-v5") if request.param == "theirs" else cheetah.environment()
    with made as env:
        env.reset(seed=0)
        yield env


@pytest.fixture
def expert() -> LinearExpert:
    """No good one: it moves about, and uses all its actions."""
    rng = np.random.default_rng(5)
    return LinearExpert(rng.normal(size=(6, 17)), np.zeros(17), np.ones(17), ACTIONS)


def set_and_step(env, state, control) -> np.ndarray:
    """(qpos, qvel) after a step of the environment from a state of ours, with x = 0."""
    simulator = env.unwrapped
    simulator.set_state(*np.split(np.insert(state, 0, 0.0), [9]))
    simulator.step(control)
    return simulator.state_vector()


def visited(num_episodes: int, num_steps: int) -> np.ndarray:
    """States at the start, in motion, and on the back."""
    rng = np.random.default_rng(1)
    states = [cheetah.initial_states(rng, num_episodes)]
    for _ in range(num_steps):
        states.append(cheetah.step(states[-1], rng.uniform(-1, 1, (num_episodes, 6))))
    return np.concatenate(states)


# --- the model


def test_steps_are_those_of_gymnasium(env):
    states = visited(10, 30)
    controls = np.random.default_rng(2).uniform(-1, 1, (len(states), 6))
    after, way = cheetah.advance(states, controls)
    expected = np.array([set_and_step(env, s, u) for s, u in zip(states, controls, strict=True)])
    np.testing.assert_allclose(after, expected[:, 1:], rtol=0, atol=1e-10)
    np.testing.assert_allclose(way, expected[:, 0], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(cheetah.step(states, controls), after)


def test_episodes_are_those_of_gymnasium(env):
    """From Gymnasium's own reset, without ever setting its state again.

    Its solver then starts from the forces of the step before, so each step of ours starts from
    Gymnasium's state: two trajectories would part by chaos.
    """
    rng, simulator = np.random.default_rng(3), env.unwrapped
    for seed in range(5):
        env.reset(seed=seed)
        for _ in range(40):
            before, control = simulator.state_vector(), rng.uniform(-1, 1, 6)
            observation = env.step(control)[0]
            after, way = cheetah.advance(before[1:], control)
            np.testing.assert_allclose(after, observation, rtol=0, atol=1e-10)
            np.testing.assert_allclose(before[0] + way, simulator.data.qpos[0], atol=1e-10)


def test_successors_are_steps_of_gymnasium(env):
    states = visited(4, 9)
    after = cheetah.successors(states, ACTIONS)
    assert after.shape == (40, 8, 17)
    assert after.dtype == np.float64
    expected = np.array([[set_and_step(env, s, a)[1:] for a in ACTIONS] for s in states])
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(tc.control.successors(env, states, ACTIONS), after, atol=1e-10)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
def test_any_batch_of_states(batch):
    states = visited(6, 0)[: int(np.prod(batch))].reshape(*batch, 17)
    after = cheetah.successors(states, ACTIONS, num_threads=2)
    assert after.shape == (*batch, 8, 17)
    rows = [cheetah.successors(row, ACTIONS, num_threads=1) for row in states.reshape(-1, 17)]
    np.testing.assert_array_equal(after, np.array(rows).reshape(after.shape))
    mapped = cheetah.successors_by(ACTIONS)(jnp.asarray(states))
    # From states in single precision, which a stiff step multiplies.
    np.testing.assert_allclose(mapped, after, atol=1e-3)


def test_how_far_it_has_come_does_not_matter():
    """A whole state, moved along by 30 m: the same step."""
    model, state = cheetah.model(), visited(1, 20)[-1]
    controls = ACTIONS[:1]
    here, there = (
        tc.control.transitions.mujoco_steps(model, [[x, *state]], controls, frame_skip=5)[0]
        for x in (0.0, 30.0)
    )
    np.testing.assert_allclose(here[1:], there[1:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(here[0], there[0] - 30, atol=1e-9)
    np.testing.assert_allclose(here[1:], cheetah.step(state, ACTIONS[0]), rtol=0, atol=1e-12)


def test_wrong_widths():
    with pytest.raises(
        ValueError, match=r"states of the half cheetah have 17 numbers, got \(2, 18"
    ):
        cheetah.step(np.zeros((2, 18)), np.zeros((2, 6)))
    with pytest.raises(ValueError, match=r"controls of .* have 6 numbers, got \(2, 5\)"):
        cheetah.step(np.zeros((2, 17)), np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"actions of .* have 6 numbers, got \(8, 5\)"):
        cheetah.successors(np.zeros((2, 17)), np.zeros((8, 5)))


# --- the older inertia


def test_older_masses_are_those_of_lengthened_cylinders():
    model = cheetah.model(older_inertia=True)
    shapes = {name: shape[2] for name, shape in TRUNK.items()}
    shapes |= {limb.name: limb.half_length for limb in LIMBS}
    lengths = {name: 2 * half + RADIUS for name, half in shapes.items()}
    density = TOTAL_MASS / sum(lengths.values())
    np.testing.assert_allclose(model.body_mass.sum(), 14, rtol=1e-12)
    for limb in LIMBS:
        mass = model.body(limb.name).mass
        np.testing.assert_allclose(mass, density * lengths[limb.name], rtol=1e-9)
    trunk = density * (lengths["torso"] + lengths["head"])
    np.testing.assert_allclose(model.body("torso").mass, trunk, rtol=1e-9)


def test_older_inertia_is_that_of_lengthened_cylinders():
    """Each limb one cylinder; the torso two, with Huygens's and Steiner's term for each."""
    model = cheetah.model(older_inertia=True)
    total = sum(2 * s[2] + RADIUS for s in TRUNK.values())
    total += sum(2 * limb.half_length + RADIUS for limb in LIMBS)

    def cylinder(half_length: float) -> tuple[float, float]:
        """Mass, and moment across the axis: m (3 r^2 + l^2) / 12."""
        length = 2 * half_length + RADIUS
        mass = TOTAL_MASS * length / total
        return mass, mass * (3 * RADIUS**2 + length**2) / 12

    for limb in LIMBS:
        mass, across = cylinder(limb.half_length)
        moments = np.sort(model.body(limb.name).inertia)
        expected = np.sort([mass * RADIUS**2 / 2, across, across])
        np.testing.assert_allclose(moments, expected, rtol=1e-6)
    masses, moments = np.array([cylinder(shape[2]) for shape in TRUNK.values()]).T
    centres = np.array([shape[0] for shape in TRUNK.values()])
    middle = masses @ centres / masses.sum()
    about_y = (moments + masses * np.sum((centres - middle) ** 2, axis=1)).sum()
    # The body moves in the plane y = 0: its axis y is a principal one, whichever place it has.
    torso = model.body("torso").inertia
    assert np.isclose(torso, about_y, rtol=1e-6).any()
    np.testing.assert_allclose(model.body("torso").ipos, [middle[0], 0, middle[1]], atol=1e-9)


def test_older_inertia_is_another():
    new, old = cheetah.model(), cheetah.model(older_inertia=True)
    np.testing.assert_allclose(new.body_mass.sum(), 14, rtol=1e-12)
    with gymnasium.make("HalfCheetah-v5") as env:
        stock = env.unwrapped.model
        np.testing.assert_allclose(new.body_mass, stock.body_mass, rtol=1e-9)
        np.testing.assert_allclose(new.body_inertia, stock.body_inertia, rtol=1e-6)
    # Of the bodies; the world itself has none.
    assert np.abs(old.body_inertia[1:] / new.body_inertia[1:] - 1).max() > 0.01
    states = visited(3, 10)
    controls = np.resize(ACTIONS, (len(states), 6))
    plain, older = (cheetah.step(states, controls, older_inertia=older) for older in (False, True))
    assert np.abs(plain - older).max() > 1e-3
    with cheetah.environment(older_inertia=True) as env:
        env.reset(seed=0)
        expected = np.array(
            [set_and_step(env, *pair) for pair in zip(states, controls, strict=True)]
        )
    np.testing.assert_allclose(older, expected[:, 1:], rtol=0, atol=1e-10)


# --- starts, falls


def test_starts_are_spread_as_gymnasium_resets():
    """4,000 starts; means and deviations within 5 standard errors (false alarms: 34 in 1e7)."""
    starts = cheetah.initial_states(np.random.default_rng(0), 4000)
    assert starts.shape == (4000, 17)
    assert np.abs(starts[:, :8]).max() <= 0.1
    deviations = np.where(np.arange(17) < 8, 0.1 / np.sqrt(3), 0.1)
    error = 5 * deviations / np.sqrt(4000)
    assert (np.abs(starts.mean(axis=0)) < error).all()
    assert (np.abs(starts.std(axis=0) - deviations) < error).all()
    assert np.abs(starts[:, 8:]).max() > 0.3
    with gymnasium.make("HalfCheetah-v5") as env:
        theirs = np.array([env.reset(seed=seed)[0] for seed in range(400)])
    assert np.abs(theirs[:, :8]).max() <= 0.1
    assert np.abs(theirs[:, 8:]).max() > 0.3


def test_on_its_back_past_a_quarter_turn():
    states = np.zeros((6, 17))
    states[:, 1] = [0, 1.5, -1.5, 1.6, np.pi, 2 * np.pi]
    assert cheetah.on_back(states).tolist() == [False, False, False, True, True, False]
    assert cheetah.on_back(states.reshape(2, 3, 17)).shape == (2, 3)


# --- episodes


def test_distance_is_how_far_gymnasium_has_it(env):
    """A random policy in ours; its actions in Gymnasium, step by step from our states."""
    table = np.random.default_rng(1).integers(0, 8, (15, 3))
    steps = iter(table)
    starts = cheetah.initial_states(np.random.default_rng(0), 3)
    runs = cheetah.rollout(lambda *_: next(steps), ACTIONS, starts, num_steps=15)
    assert runs.states.shape == (16, 3, 17)
    assert runs.distance.shape == (16, 3)
    np.testing.assert_array_equal(runs.actions, table)
    np.testing.assert_array_equal(runs.states[0], starts)
    for episode in range(3):
        simulator, way = env.unwrapped, [0.0]
        for state, action in zip(runs.states[:-1, episode], table[:, episode], strict=True):
            before = way[-1]
            simulator.set_state(*np.split(np.insert(state, 0, before), [9]))
            info = simulator.step(ACTIONS[action])[-1]
            way.append(before + (info["x_position"] - before))
        np.testing.assert_allclose(runs.distance[:, episode], way, rtol=0, atol=1e-8)
    assert runs.fell.shape == (3,)


def test_a_policy_has_a_key_of_its_own_at_each_step():
    def policy(key, states):
        return jax.random.randint(key, (len(states),), 0, 8)

    starts = cheetah.initial_states(np.random.default_rng(0), 4)
    first, again, other = (
        cheetah.rollout(policy, ACTIONS, starts, num_steps=6, seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.actions, again.actions)
    np.testing.assert_array_equal(first.states, again.states)
    assert (first.actions != other.actions).any()
    assert len(np.unique(first.actions, axis=0)) > 1
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        cheetah.rollout(policy, ACTIONS, starts, num_steps=0)


# --- demonstrations


def test_demonstrations_are_those_of_their_seed(expert):
    first, again, other = (cheetah.demonstrate(s, demonstrator=expert) for s in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (first.states != other.states).any()
    from_generator = cheetah.demonstrate(np.random.default_rng(0), demonstrator=expert)
    np.testing.assert_array_equal(from_generator.states, first.states)
    assert first.states.shape == (100, 17)
    np.testing.assert_array_equal(first.episodes, np.repeat([0, 1], 50))
    np.testing.assert_array_equal(first.actions, expert.nearest(first.states))


@pytest.mark.parametrize("states_from", ["discretised", "continuous"])
def test_demonstrations_follow_the_expert(states_from, expert):
    """Within an episode, the next state is where the expert's own control leads."""
    data = cheetah.demonstrate(
        0, num_demonstrations=30, episode_length=15, states_from=states_from, demonstrator=expert
    )
    controls = (
        ACTIONS[data.actions] if states_from == "discretised" else expert.controls(data.states)
    )
    after = cheetah.step(data.states, controls)
    within = np.diff(data.episodes) == 0
    np.testing.assert_array_equal(after[:-1][within], data.states[1:][within])
    assert within.sum() == 28
    np.testing.assert_array_equal(data.actions, expert.nearest(data.states))


def test_skipping_and_keeping_thin_out_the_same_episodes(expert):
    """7 of each episode of 25 steps: those at 5, 8, ..., 23."""
    full = cheetah.demonstrate(4, num_demonstrations=75, episode_length=25, demonstrator=expert)
    # As many episodes: the starts are drawn together.
    thin = cheetah.demonstrate(
        4, num_demonstrations=21, episode_length=25, keep_every=3, skip=5, demonstrator=expert
    )
    kept = full.states.reshape(3, 25, 17)[:, 5::3].reshape(-1, 17)
    np.testing.assert_allclose(thin.states, kept, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(thin.episodes, np.repeat([0, 1, 2], 7))


def test_the_last_episode_may_be_cut_off(expert):
    data = cheetah.demonstrate(
        0, num_demonstrations=10, episode_length=4, skip=1, demonstrator=expert
    )
    assert data.episodes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert data.states.shape == (10, 17)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_demonstrations": 0}, "num_demonstrations must be at least 1, got 0"),
        ({"episode_length": 0}, "episode_length must be at least 1, got 0"),
        ({"keep_every": 0}, "keep_every must be at least 1, got 0"),
        ({"skip": -1}, "skip must be at least 0, got -1"),
        ({"skip": 50}, "skip=50 leaves nothing of episodes of 50 steps"),
    ],
)
def test_wrong_demonstrations(settings, message, expert):
    with pytest.raises(ValueError, match=message) as error:
        cheetah.demonstrate(0, demonstrator=expert, **settings)
    assert "\n" not in str(error.value)


def test_states_come_from_one_of_two_experts(expert, monkeypatch):
    """As users have it: without the types checked at run time, which would speak first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"states_from must be 'discretised' or .* got 'both'"):
        cheetah.demonstrate(0, demonstrator=expert, states_from="both")


# --- the expert that comes with the package


def test_the_expert_has_eight_actions_and_a_provenance():
    expert = cheetah.expert()
    assert expert.actions.shape == (8, 6)
    assert np.abs(expert.actions).max() <= 1
    assert {"num_iterations", "num_directions", "step_size", "noise", "seed"} <= set(
        expert.provenance["settings"]
    )
    assert {"traceclass", "mujoco", "numpy"} <= set(expert.provenance["versions"])
    assert str(Path.home()) not in str(expert.provenance)


def test_the_discretised_expert_runs_and_does_not_fall():
    """50 starts that neither the search nor its final trial has seen."""
    expert = cheetah.expert()
    starts = cheetah.initial_states(np.random.default_rng([2026, 50]), 50)
    states, way, fell = starts, np.zeros(50), np.zeros(50, bool)
    for _ in range(100):
        states, moved = cheetah.advance(states, expert.actions[expert.nearest(states)])
        way += moved
        fell |= cheetah.on_back(states)
    assert way.mean() >= 8
    assert fell.mean() <= 0.05
