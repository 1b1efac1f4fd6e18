r"""The half cheetah: Gymnasium's `HalfCheetah-v5` by MuJoCo, with an expert of our own.

A state is (qpos[1:], qvel), 17 numbers: everything but how far it has come, on which nothing
depends. A control is six torques in [-1, 1], held for five of MuJoCo's steps, 0.05 s.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from traceclass.arrays import as_doubles
from traceclass.control.cheetah_model import cheetah_xml
from traceclass.control.extras import import_gymnasium, import_mujoco
from traceclass.control.linear_expert import LinearExpert, load_expert
from traceclass.control.policies import Policy
from traceclass.control.transitions import mujoco_steps
from traceclass.errors import UserValueError
from traceclass.validation import require_count

DIM = 17
NUM_CONTROLS = 6
FRAME_SKIP = 5
# The box that the paper's authors scale states to [-1, 1]^17 by.
LOW = (
    *(-0.25, -0.8, -0.7, -0.7, -0.65, -0.75, -0.95, -0.6),
    *(-1.5, -3.1, -7.1, -20.0, -24.0, -27.0, -27.0, -30.0, -20.0),
)
HIGH = (
    *(0.4, 1.65, 0.95, 0.9, 0.95, 0.95, 1.1, 0.75),
    *(8.0, 3.4, 7.0, 19.0, 25.0, 22.0, 25.0, 32.0, 26.0),
)
# Gymnasium's reset: positions uniform within, velocities normal with this standard deviation.
_RESET = 0.1
_POSITIONS = 8
_PITCH = 1

StatesFrom = Literal["discretised", "continuous"]


class Demonstrations(NamedTuple):
    """States an expert was seen in, the number of its action there, and of the episode."""

    states: Float[np.ndarray, "demonstrations dim"]
    actions: Int[np.ndarray, " demonstrations"]
    episodes: Int[np.ndarray, " demonstrations"]


class Runs(NamedTuple):
    """Episodes: states before each step and after the last, actions, and distances covered."""

    states: Float[np.ndarray, "steps_plus_one episodes dim"]
    actions: Int[np.ndarray, "steps episodes"]
    distance: Float[np.ndarray, "steps_plus_one episodes"]

    @property
    def fell(self) -> Bool[np.ndarray, " episodes"]:
        """Episodes in which the cheetah was on its back at some time."""
        return np.any(on_back(self.states), axis=0)


@functools.cache
def model(*, older_inertia: bool = False) -> Any:
    """MuJoCo's compiled model; `older_inertia` is that of the paper's data (see `cheetah_xml`)."""
    mujoco, _ = import_mujoco()
    return mujoco.MjModel.from_xml_string(cheetah_xml(older_inertia=older_inertia))


def environment(*, older_inertia: bool = False, **options: Any) -> Any:
    """Gymnasium's `HalfCheetah-v5` with our model; `options` go to `gymnasium.make`."""
    gymnasium = import_gymnasium()
    import_mujoco()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "half_cheetah.xml"
        file.write_text(cheetah_xml(older_inertia=older_inertia), encoding="utf-8")
        return gymnasium.make("HalfCheetah-v5", xml_file=str(file), **options)


def advance(
    states: Any, controls: Any, *, older_inertia: bool = False, num_threads: int | None = None
) -> tuple[Float[np.ndarray, "*batch dim"], Float[np.ndarray, "*batch"]]:
    """The states after one step with a control each, and how far it went."""
    states, controls = as_doubles(states, "states"), as_doubles(controls, "controls")
    _require_width(states, DIM, "states")
    _require_width(controls, NUM_CONTROLS, "controls")
    after = mujoco_steps(
        model(older_inertia=older_inertia),
        np.pad(states.reshape(-1, DIM), ((0, 0), (1, 0))),
        controls.reshape(-1, NUM_CONTROLS),
        frame_skip=FRAME_SKIP,
        num_threads=num_threads,
    )
    return after[:, 1:].reshape(states.shape), after[:, 0].reshape(states.shape[:-1])


def step(states: Any, controls: Any, **options: Any) -> Float[np.ndarray, "*batch dim"]:
    """The states after one step with a control each; options as `advance`."""
    return advance(states, controls, **options)[0]


def successors(
    states: Any, actions: Any, **options: Any
) -> Float[np.ndarray, "*batch actions dim"]:
    """The state that each of `actions` (M, 6) leads to from each of `states`, all in one call."""
    states, actions = as_doubles(states, "states"), as_doubles(actions, "actions")
    _require_width(actions, NUM_CONTROLS, "actions")
    shape = (*states.shape[:-1], len(actions))
    repeated = np.broadcast_to(states[..., None, :], (*shape, states.shape[-1]))
    return step(repeated, np.broadcast_to(actions, (*shape, NUM_CONTROLS)), **options)


def successors_by(actions: Any) -> Callable[[Any], Float[Array, "*batch actions dim"]]:
    """`successors` by these actions, for policies of a value function."""

    def successors_of(states: Any) -> Array:
        return jnp.asarray(successors(states, actions))

    return successors_of


def initial_states(generator: np.random.Generator, count: int) -> Float[np.ndarray, "count dim"]:
    """Starts as Gymnasium's reset: near rest, upright."""
    positions = generator.uniform(-_RESET, _RESET, (count, _POSITIONS))
    velocities = _RESET * generator.standard_normal((count, DIM - _POSITIONS))
    return np.concatenate([positions, velocities], axis=1)


def on_back(states: Float[np.ndarray, "*batch dim"]) -> Bool[np.ndarray, "*batch"]:
    """Whether the torso is turned by more than a quarter from upright."""
    return np.asarray(np.cos(states[..., _PITCH]) < 0)


@functools.cache
def expert() -> LinearExpert:
    """The expert of `traceclass train-expert half-cheetah` that comes with the package."""
    return load_expert(Path(__file__).parent / "experts" / "half_cheetah")


def rollout(
    policy: Policy, actions: Any, starts: Float[np.ndarray, "episodes dim"], *, num_steps: int,
    seed: int = 0,
) -> Runs:  # fmt: skip
    """Follow a policy, which maps (key, states) to numbers of `actions`, from each start."""
    count = require_count(num_steps, "num_steps", "An episode needs time.")
    table = np.asarray(actions, np.float64)
    keys = jax.random.split(jax.random.key(seed), count)
    states, taken, steps = [np.asarray(starts, np.float64)], [], []
    for key in keys:
        chosen = np.asarray(policy(key, jnp.asarray(states[-1])))
        after, way = advance(states[-1], table[chosen])
        states.append(after)
        taken.append(chosen)
        steps.append(way)
    distance = np.cumsum([np.zeros(len(starts)), *steps], axis=0)
    return Runs(np.array(states), np.array(taken), distance)


def follow(
    demonstrator: LinearExpert, starts: Float[np.ndarray, "episodes dim"], *, num_steps: int
) -> Runs:
    """Episodes of an expert's own continuous controls, which have no numbers: actions are -1."""
    states, ways = [np.asarray(starts, np.float64)], [np.zeros(len(starts))]
    for _ in range(num_steps):
        after, way = advance(states[-1], demonstrator.controls(states[-1]))
        states.append(after)
        ways.append(way)
    none = np.full((num_steps, len(starts)), -1)
    return Runs(np.array(states), none, np.cumsum(ways, axis=0))


def demonstrate(
    seed: int | np.random.Generator,
    *,
    num_demonstrations: int = 100,
    episode_length: int = 50,
    keep_every: int = 1,
    skip: int = 0,
    states_from: StatesFrom = "discretised",
    exploration: float = 0.0,
    demonstrator: LinearExpert | None = None,
) -> Demonstrations:
    """The expert's states and nearest actions, episode after episode.

    An episode is `episode_length` steps from a new start; its first `skip` states are left out,
    and then every `keep_every`-th is kept. The way is that of the "discretised" expert, which can
    only use its actions, or of the "continuous" one, which is seen to do better than they allow.
    The first states of episodes alone are too alike to learn from, and so, nearly, are those of
    an expert that runs in circles: with `exploration` > 0 a random action is taken in its place
    in that share of the steps, which leads it elsewhere. The action demonstrated is always its own.
    """
    count = require_count(num_demonstrations, "num_demonstrations", "Learning needs data.")
    length = require_count(episode_length, "episode_length", "An episode needs time.")
    every = require_count(keep_every, "keep_every", "1 keeps every state.")
    first = require_count(skip, "skip", "0 leaves out nothing.", 0)
    kept = range(first, length, every)
    if not kept:
        raise UserValueError(
            f"skip={first} leaves nothing of episodes of {length} steps. Skip fewer states."
        )
    if not 0 <= exploration <= 1:
        raise UserValueError(f"exploration is a share of steps, from 0 to 1; got {exploration}.")
    if states_from not in ("discretised", "continuous"):
        raise UserValueError(
            f"states_from must be 'discretised' or 'continuous', got {states_from!r}."
        )
    demonstrator = demonstrator or expert()
    if demonstrator.weights.shape != (NUM_CONTROLS, DIM):
        raise UserValueError(
            f"the half cheetah's expert has weights {(NUM_CONTROLS, DIM)}, got "
            f"{demonstrator.weights.shape}: it is another animal's."
        )
    generator = np.random.default_rng(seed)
    states = initial_states(generator, -(-count // len(kept)))
    seen = []
    for number in range(kept[-1] + 1):
        if number in kept:
            seen.append(states)
        controls = _controls(demonstrator, states, states_from)
        states = step(states, _explored(generator, demonstrator, controls, exploration))
    visited = np.stack(seen, axis=1)
    episodes = np.repeat(np.arange(len(visited)), len(kept))[:count]
    flat = visited.reshape(-1, DIM)[:count]
    return Demonstrations(flat, demonstrator.nearest(flat), episodes)


def _controls(demonstrator: LinearExpert, states: np.ndarray, states_from: str) -> np.ndarray:
    if states_from == "continuous":
        return demonstrator.controls(states)
    return demonstrator.actions[demonstrator.nearest(states)]


def _explored(
    generator: np.random.Generator,
    demonstrator: LinearExpert,
    controls: np.ndarray,
    share: float,
) -> np.ndarray:
    """Controls, with one of the actions at random in the place of some."""
    random = demonstrator.actions[generator.integers(0, demonstrator.num_actions, len(controls))]
    return np.where(generator.random((len(controls), 1)) < share, random, controls)


def _require_width(array: np.ndarray, width: int, name: str) -> None:
    if array.shape[-1:] != (width,):
        raise UserValueError(f"{name} of the half cheetah have {width} numbers, got {array.shape}.")
