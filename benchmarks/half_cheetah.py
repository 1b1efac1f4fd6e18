"""Successors a second of the half cheetah on one core, beside Gymnasium set and stepped in a loop.

Both sides run in this process, in turns, from the same states with the same actions, and the
result is the ratio of their rates: what the machine does besides hits both. Gymnasium's side is
its environment without wrappers, which would only slow it down. States are those of episodes with
actions at random.

    python -m benchmarks.half_cheetah
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import mujoco
import numpy as np

from traceclass.control import half_cheetah as cheetah

ROUNDS = 5
# States and actions: 100, 800 and 8,000 successors.
SIZES = ((25, 4), (100, 8), (1000, 8))
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (8, 6))
# A round lasts at least so long, so that its clock is fine enough.
SECONDS = 0.5


def visited(count: int) -> np.ndarray:
    """States of 20 episodes with actions at random, shuffled."""
    rng = np.random.default_rng(1)
    states = [cheetah.initial_states(rng, 20)]
    while 20 * len(states) < max(count, 1000):
        states.append(cheetah.step(states[-1], ACTIONS[rng.integers(0, 8, 20)]))
    return rng.permutation(np.concatenate(states))[:count]


def loop(simulator: Any, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The same by Gymnasium's `set_state` and `step`, one after the other."""
    after = np.empty((len(states), len(actions), cheetah.DIM))
    for row, state in enumerate(states):
        position, velocity = np.insert(state[:8], 0, 0.0), state[8:]
        for number, action in enumerate(actions):
            simulator.set_state(position, velocity)
            after[row, number] = simulator.step(action)[0]
    return after


def rate(work: Callable[[], np.ndarray]) -> float:
    """Successors a second."""
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        done += work()[..., 0].size
    return done / (time.perf_counter() - began)


def compare(simulator: Any, num_states: int, num_actions: int) -> None:
    """One table row: median rates of both, median and range of their ratios, largest gap."""
    states, actions = visited(num_states), ACTIONS[:num_actions]

    def ours() -> np.ndarray:
        return cheetah.successors(states, actions, num_threads=1)

    def theirs() -> np.ndarray:
        return loop(simulator, states, actions)

    gap = np.abs(ours() - theirs()).max()
    rates = np.array([[rate(ours), rate(theirs)] for _ in range(ROUNDS)])
    mine, other = np.median(rates, axis=0)
    ratios = rates[:, 0] / rates[:, 1]
    print(
        f"| {num_states * num_actions:,} | {mine:,.0f} | {other:,.0f} | {np.median(ratios):.1f} "
        f"({ratios.min():.1f} to {ratios.max():.1f}) | {gap:.0e} |"
    )


def main() -> None:
    print(f"half cheetah, one core; MuJoCo {mujoco.__version__}, "
          f"Gymnasium {gymnasium.__version__};")  # fmt: skip
    print(f"successors a second, medians of {ROUNDS} rounds, ratios with their range\n")
    print("| successors | traceclass | Gymnasium in a loop | ratio | largest difference |")
    print("|---|---|---|---|---|")
    # MuJoCo writes MUJOCO_LOG.TXT where it warns, as it does of Gymnasium's model.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        simulator = gymnasium.make("HalfCheetah-v5").unwrapped
        simulator.reset(seed=0)
        for size in SIZES:
            compare(simulator, *size)


if __name__ == "__main__":
    main()
