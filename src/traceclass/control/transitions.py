r"""The states that actions lead to, s' = T(s, a), of any Gymnasium environment that can be set.

MuJoCo's are advanced all at once by its own threads; others are set and stepped one by one, on a
shallow copy: the environment that is passed in is not stepped, but what a step changes in place
besides `state` is shared with it, and must not matter to the dynamics.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float

from traceclass.arrays import as_doubles, as_numbers
from traceclass.control.extras import import_gymnasium, import_mujoco
from traceclass.errors import UserTypeError, UserValueError
from traceclass.validation import require_count, require_finite

# Above zero, which is the time after MuJoCo's own restart.
_START_TIME = 1.0
# Wrappers after which one step is no longer one step with one action.
_OTHER_DYNAMICS = ("StickyAction", "RepeatAction", "MaxAndSkipObservation")


def successors(
    env: Any, states: Any, actions: Any = None, *, num_threads: int | None = None
) -> Float[np.ndarray, "*batch actions dim"]:
    r"""The states (*batch, M, d) that each of M `actions` leads to from each of `states`.

        s' = T(s, a)

    `env` is a `gymnasium.Env`, whose action wrappers are applied and which is left as it was;
    `states` (*batch, d); `actions` a sequence of integers of a Discrete action space (None: all of
    them), or (M, action_dim) of a Box. A state is what the environment keeps, *not* what it
    observes: (theta, velocity) of Pendulum. Of MuJoCo's it is (qpos, qvel), with or without the
    leading positions that observations leave out, which are then zero before the step.

    All that a step depends on must be in the state. An end of the episode stops nothing. Wrappers
    that override `step` are not followed, and chance is noticed only if it comes from the
    environment's `np_random`.

    >>> import gymnasium
    >>> env = gymnasium.make("MountainCar-v0")
    >>> successors(env, [[-0.5, 0.0]]).round(4).tolist()
    [[[-0.5012, -0.0012], [-0.5002, -0.0002], [-0.4992, 0.0008]]]
    """
    name = _environment_name(env)
    array = as_doubles(states, "states")
    if 0 in (array.ndim, *array.shape[-1:]):
        raise UserValueError(f"states must be (n, d), one state per row, got shape {array.shape}.")
    require_finite(array, "states")
    rows, inner = array.reshape(-1, array.shape[-1]), _inner_actions(env, name, actions)
    if all(hasattr(env.unwrapped, part) for part in ("model", "data", "set_state", "frame_skip")):
        after = _mujoco_env(env.unwrapped, name, rows, inner, num_threads)
    else:
        after = _state_env(env.unwrapped, name, rows, inner)
    return after.reshape(*array.shape[:-1], len(inner), array.shape[-1])


def mujoco_successors(
    model: Any, states: Any, actions: Any, *, frame_skip: int, num_threads: int | None = None
) -> Float[np.ndarray, "rows actions width"]:
    r"""The (n, M, nq + nv) that each of `actions` (M, nu) leads to from each row of `states`.

        s'_ij = T(s_i, a_j)

    with whole states (n, nq + nv), see `mujoco_steps`.
    """
    states, actions = as_doubles(states, "states"), as_doubles(actions, "actions")
    after = mujoco_steps(
        model,
        np.repeat(states, len(actions), axis=0),
        np.tile(actions, (len(states), 1)),
        frame_skip=frame_skip,
        num_threads=num_threads,
    )
    return after.reshape(len(states), len(actions), states.shape[-1])


def mujoco_steps(
    model: Any, states: Any, controls: Any, *, frame_skip: int, num_threads: int | None = None
) -> Float[np.ndarray, "rows width"]:
    r"""Row i of `states` (n, nq + nv), advanced with row i of `controls` (n, nu).

        s'_i = T(s_i, a_i)

    where a_i is held for `frame_skip` of MuJoCo's steps, and clamped to `ctrlrange` by MuJoCo. Its
    solver starts from no force, not from that of a step before, so one that stops early
    (Humanoid's) differs past its tolerance, 1e-8, from an environment in motion.
    """
    mujoco, rollout = import_mujoco()
    states, controls = as_doubles(states, "states"), as_doubles(controls, "controls")
    _require_rows(mujoco, model, states, controls)
    steps = require_count(frame_skip, "frame_skip", "A step lasts that many of MuJoCo's.")
    asked = (os.cpu_count() or 1) if num_threads is None else num_threads
    threads = min(require_count(asked, "num_threads", "1 is no parallel work."), len(states))
    if threads == 0:  # no states, to which `rollout` answers by ending the process
        return states
    data = [mujoco.MjData(model) for _ in range(threads)]
    begin = np.insert(states, 0, _START_TIME, axis=1)
    path, _ = rollout.rollout(model, data, begin, controls[:, None], nstep=steps)
    _require_stable(states, path[:, -1, 0])
    return path[:, -1, 1:].copy()  # a view would keep all of the path


def _require_rows(mujoco: Any, model: Any, states: np.ndarray, controls: np.ndarray) -> None:
    width = model.nq + model.nv
    whole = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS.value) - 1  # the time
    if whole != width or model.nmocap:
        raise UserValueError(
            f"a state must be (qpos, qvel), but this MuJoCo model keeps {whole - width} more "
            f"numbers (na = {model.na}) and {model.nmocap} mocap bodies, which would be lost. Use "
            "a model without activations, plugins and mocap bodies."
        )
    if states.ndim != 2 or states.shape[1] != width:
        raise UserValueError(f"states must be (n, nq + nv) = (n, {width}), got {states.shape}.")
    if controls.shape != (len(states), model.nu):
        expected = (len(states), model.nu)
        raise UserValueError(f"controls must be (n, nu) = {expected}, got {controls.shape}.")
    require_finite(states, "states")
    require_finite(controls, "controls")


def _require_stable(states: np.ndarray, times: np.ndarray) -> None:
    """MuJoCo starts again from its default pose, at time zero, where the numbers run off."""
    rows = np.flatnonzero(times < _START_TIME)
    if len(rows):
        raise UserValueError(
            f"states must be such that MuJoCo can step from them; row {rows[0]} is unstable "
            f"({len(rows)} of {len(states)} rows): {states[rows[0]].tolist()}. Use smaller values."
        )


def _mujoco_env(
    simulator: Any, name: str, rows: np.ndarray, actions: list[Any], num_threads: int | None
) -> np.ndarray:
    """Positions that `rows` leave out are zero before the step, and left out again after it."""
    _require_plain_simulation(simulator, name)
    width = simulator.model.nq + simulator.model.nv
    skipped = getattr(simulator, "observation_structure", {}).get("skipped_qpos", 0)
    if rows.shape[1] not in (width, width - skipped):
        short = f", or {width - skipped} without the first {skipped} of qpos" if skipped else ""
        raise UserValueError(
            f"states of {name} must have width {width}, (qpos, qvel){short}; got {rows.shape[1]}."
        )
    missing = width - rows.shape[1]
    padded = np.pad(rows, ((0, 0), (missing, 0)))
    options: dict[str, Any] = {"frame_skip": simulator.frame_skip, "num_threads": num_threads}
    return mujoco_successors(simulator.model, padded, actions, **options)[..., missing:]


def _require_plain_simulation(simulator: Any, name: str) -> None:
    import_mujoco()
    from gymnasium.envs.mujoco import MujocoEnv

    for method in ("do_simulation", "_step_mujoco_simulation"):
        if getattr(type(simulator), method, None) is not getattr(MujocoEnv, method):
            _refuse(name, f"it does not simulate by MujocoEnv.{method}")


def _state_env(original: Any, name: str, rows: np.ndarray, actions: list[Any]) -> np.ndarray:
    """Set and step, for each row and action."""
    simulator = _settable_copy(original, name)
    keep = tuple if isinstance(simulator.state, tuple) else np.array
    rows = _as_kept(rows, np.asarray(simulator.state), name)

    def step(row: np.ndarray, action: Any) -> Any:
        if hasattr(simulator, "steps_beyond_terminated"):  # else the second step beyond warns
            simulator.steps_beyond_terminated = None
        simulator.state = keep(row)
        simulator.step(action)
        return simulator.state

    after = [[step(row, action) for action in actions] for row in rows]
    return np.array(after, dtype=np.float64)


def _settable_copy(original: Any, name: str) -> Any:
    """A shallow copy, to set and step; it shows nothing and has no random generator."""
    # `copy.copy` would build a new environment, if it can be pickled.
    simulator = object.__new__(type(original))
    vars(simulator).update(vars(original), render_mode=None, _np_random=None)
    classic = any("classic_control" in base.__module__ for base in type(original).__mro__)
    if getattr(simulator, "state", None) is None and classic:  # whose reset shares nothing
        simulator.reset(seed=0)
    if getattr(simulator, "state", None) is None:
        _refuse(name, "it has no `state` (call env.reset(), if that makes one) and no `set_state`")
    if np.ndim(simulator.state) != 1 or np.asarray(simulator.state).dtype.kind not in "fiu":
        _refuse(name, f"its `state` is no row of numbers but {type(simulator.state).__name__}")
    if getattr(getattr(type(original), "state", None), "fset", True) is None:
        _refuse(name, "its `state` is a property without a setter")
    simulator._np_random = _NoChance(name)
    return simulator


class _NoChance:
    """In place of a random generator: refuses the environment whose step asks it for anything."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> NoReturn:
        _refuse(self._name, f"its step is random, by np_random.{method}")


def _as_kept(rows: np.ndarray, kept: np.ndarray, name: str) -> np.ndarray:
    """`rows` in double precision, or as whole numbers if the environment keeps these."""
    if rows.shape[1] != kept.size:
        raise UserValueError(
            f"states of {name} must have width {kept.size}, that of env.unwrapped.state, not of "
            f"the observations; got {rows.shape[1]}."
        )
    if kept.dtype.kind == "f":
        return rows
    broken = rows[rows != np.rint(rows)]
    if len(broken):
        raise UserValueError(f"states of {name} must be whole, as it keeps them; got {broken[0]}.")
    return rows.astype(kept.dtype)


def _inner_actions(env: Any, name: str, actions: Any) -> list[Any]:
    """`actions` of `env` as those of `env.unwrapped`, through the wrappers from the outside in."""
    gymnasium, layer = import_gymnasium(), env
    inner = _own_actions(env.action_space, actions)
    while isinstance(layer, gymnasium.Wrapper):
        if type(layer).__name__ in _OTHER_DYNAMICS:
            _refuse(name, f"its wrapper {type(layer).__name__} makes other steps than one")
        if isinstance(layer, gymnasium.ActionWrapper):
            inner = [layer.action(action) for action in inner]
        layer = layer.env
    return inner


def _own_actions(space: Any, actions: Any) -> list[Any]:
    """A checked list of the elements of `space`: integers or arrays."""
    spaces = import_gymnasium().spaces
    discrete = isinstance(space, spaces.Discrete)
    if not isinstance(space, (spaces.Discrete, spaces.Box)):
        raise UserValueError(f"successors needs a Discrete or Box action space, got {space}.")
    if actions is None:
        if discrete:
            return list(range(int(space.start), int(space.start + space.n)))
        raise UserValueError(
            f"actions=None means all actions, of which {space} has no list. Pass an array "
            f"(M, {', '.join(map(str, space.shape))})."
        )
    array = as_numbers(actions, "actions")
    if array.size == 0:
        raise UserValueError(f"actions must hold one action or more, got {actions!r}.")
    return _discrete_actions(space, array) if discrete else _box_actions(space, array)


def _discrete_actions(space: Any, array: np.ndarray) -> list[int]:
    low, high = int(space.start), int(space.start + space.n) - 1
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UserValueError(f"actions must be integers (M,), got {array.dtype} {array.shape}.")
    outside = array[(array < low) | (array > high)]
    if len(outside):
        raise UserValueError(f"actions must lie from {low} to {high}, got {outside[0]}.")
    return array.tolist()


def _box_actions(space: Any, array: np.ndarray) -> list[np.ndarray]:
    if array.shape[1:] != space.shape or array.dtype.kind not in "fiu":
        shape = ", ".join(map(str, space.shape))
        raise UserValueError(f"actions must be (M, {shape}) for {space}, got shape {array.shape}.")
    require_finite(array, "actions")
    # In the precision of the bounds: 0.7 is above its own single-precision value.
    compared = array.astype(space.dtype)
    outside = np.flatnonzero((compared < space.low) | (compared > space.high))
    if len(outside):
        raise UserValueError(
            f"actions must lie in {space}, got {array.flat[outside[0]]}. Clip them, or wrap the "
            "environment in gymnasium.wrappers.ClipAction."
        )
    return list(array if array.dtype.kind == "f" else array.astype(np.float64))


def _environment_name(env: Any) -> str:
    """What errors call it; refuses what is no environment."""
    if not isinstance(env, import_gymnasium().Env):
        raise UserTypeError(
            f"env must be a gymnasium.Env, got {type(env).__name__}. Make one with gymnasium.make."
        )
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _refuse(name: str, why: str) -> NoReturn:
    raise UserValueError(
        "successors needs an environment whose state can be set, and which moves without chance; "
        f"got {name}: {why}. Use e.g. one of Gymnasium's classic control or MuJoCo."
    )
