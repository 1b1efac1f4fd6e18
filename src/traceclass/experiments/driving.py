"""Episodes of mountain car from given starts, and behavioural cloning on the same course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from traceclass import control
from traceclass.control import mountain_car as car
from traceclass.control.policies import Policy
from traceclass.experiments.car import keys_of, standard_error
from traceclass.experiments.learned import score


class Seeded(Protocol):
    """Settings of an experiment with several data sets."""

    seed: int
    num_data_sets: int


class Drives(Seeded, Protocol):
    """With episodes of its own for each."""

    num_episodes: int
    max_steps: int


def seeds_of(config: Seeded) -> range:
    """One for each data set, from the experiment's own on."""
    return range(config.seed, config.seed + config.num_data_sets)


def course_of(config: Drives, number: int) -> Course:
    """The course of a data set."""
    return Course(seeds_of(config)[number], config.num_episodes, config.max_steps)


class Course(NamedTuple):
    """Starts and noise of one data set: the same for every policy."""

    seed: int
    num_episodes: int
    max_steps: int

    def drive(self, policy: Policy) -> dict[str, Any]:
        """Failures, steps of each episode (-1 for a failure) and their median."""
        keys = keys_of(self.seed)
        rollouts = control.rollout(
            policy,
            car.step,
            car.reached_goal,
            keys.rollouts,
            car.initial_states(keys.starts, self.num_episodes),
            max_steps=self.max_steps,
        )
        steps, reached = np.asarray(rollouts.num_steps), np.asarray(rollouts.reached)
        return {
            "failures": rollouts.num_failures,
            "steps": np.where(reached, steps, -1).tolist(),
            "median_steps": float(np.median(steps[reached])) if reached.any() else None,
        }


def cloned(
    method: control.Method,
    demonstrations: car.Demonstrations,
    tests: car.Demonstrations,
    course: Course,
) -> dict[str, Any]:
    """What a clone of the demonstrations reaches: episodes, and scores on held-out choices."""
    clone = control.clone(
        *demonstrations,
        car.LOW,
        car.HIGH,
        num_actions=car.NUM_ACTIONS,
        method=method,
        seed=course.seed,
    )
    log_probabilities = np.asarray(clone.log_probabilities(jnp.asarray(tests.states)))
    return course.drive(clone) | score(log_probabilities, np.asarray(tests.actions))


def binomial_error(failures: float, num_episodes: int) -> float:
    """The standard error of a number of failures, over the episodes.

    The share is that of Jeffreys' prior, (f + 1/2) / (n + 1), so that no failures at all do not
    pass for certainty.
    """
    share = (failures + 0.5) / (num_episodes + 1)
    return float(np.sqrt(num_episodes * share * (1 - share)))


def mean_failures(failures: Sequence[int], num_episodes: int) -> dict[str, Any] | None:
    """`mean_over` data sets, with an error that is at least that over all their episodes."""
    figure = mean_over(failures)
    if figure is not None:
        count = len(failures)
        over_episodes = binomial_error(sum(failures), count * num_episodes) / count
        figure["error"] = max(figure["error"] or 0.0, over_episodes)
    return figure


def mean_over(values: Sequence[float | None]) -> dict[str, Any] | None:
    """Mean and standard error over data sets; those without a value (no arrivals) left out."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": float(np.mean(known)), "error": standard_error(known), "each": known}
