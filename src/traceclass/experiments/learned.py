"""Value functions of mountain car learned from choices: means, scores, and episodes by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

import traceclass as tc
from traceclass.control import mountain_car as car
from traceclass.control.box_polynomial import BoxPolynomial, box_nodes, interpolant, largest_error
from traceclass.control.functionals import ChoiceProbability
from traceclass.control.grid_value import GridValue, grid_points
from traceclass.control.policies import Policy
from traceclass.draws import chain_log_means, chain_means, evenly_spaced, mean_function
from traceclass.experiments import car as shared
from traceclass.experiments.cells import diagnostics
from traceclass.experiments.experiment import made_once
from traceclass.experiments.mountain_car.settings import CarConfig
from traceclass.sampling.diagnostics import mean_and_error

# Nodes per side of the table of a posterior mean: its error is a thousandth of the noise, see
# `interpolation_error` in the results, and a warning where it is more than a twentieth.
_NODES = 96
_LARGEST_ERROR = 0.05
# States per side of a coarse grid over the box, where values are compared with the true ones.
_BOX_STATES = 20
SCORES = ("log_score", "accuracy", "calibration_error")


class Asked(NamedTuple):
    """What is asked of every posterior of one prior; made once, so that chains compile once."""

    prior: tc.Prior
    noise: float
    tests: car.Demonstrations
    record: dict[str, Callable[[Array], Array]]
    log_probabilities: Callable[[Array], Array]
    at_nodes: Callable[[Array], Array]


class Learned(NamedTuple):
    """A sampled posterior: kept positions (chains, draws, z), means as functions, and numbers."""

    prior: tc.Prior
    kept: np.ndarray
    mean: BoxPolynomial
    chain_means: list[BoxPolynomial]
    numbers: dict[str, Any]

    @property
    def positions(self) -> Array:
        """The kept positions of all chains, (draws, z)."""
        return jnp.asarray(self.kept.reshape(-1, self.kept.shape[-1]))


@made_once
def yardsticks(config: CarConfig) -> tuple[car.Demonstrations, GridValue]:
    """What posteriors are compared with: drives not learned from, and the true value."""
    tests = shared.held_out(config.seed, config.num_held_out)
    return tests, shared.true_value(config.reference_grid)


def ask(prior: tc.Prior, tests: car.Demonstrations, truth: GridValue, *, noise: float) -> Asked:
    """Value differences, rank correlations with the true value, and probabilities of choices."""
    box = grid_points(car.LOW, car.HIGH, (_BOX_STATES, _BOX_STATES))
    taken = shared.choices(tests, noise=noise)
    correlation = shared.rank_correlation
    return Asked(
        prior,
        noise,
        tests,
        {
            "value_difference": shared.value_differences(prior),
            "rank_correlation_visited": correlation(prior, tests.states, truth(tests.states)),
            "rank_correlation_box": correlation(prior, box, truth(box)),
            # A choice that a draw deems impossible would make the mean of its logarithm useless.
            "held_out_probability": ChoiceProbability(taken, prior.at(taken.points)),
        },
        shared.action_log_probabilities(prior, tests.states, noise=noise),
        prior.at(box_nodes(car.LOW, car.HIGH, _NODES)),
    )


def learned_from(run: tc.Run, asked: Asked, *, num_kept: int) -> Learned:
    """The mean function over `num_kept` evenly spaced draws of a run, and its scores."""
    assert run.positions is not None
    kept = evenly_spaced(run.positions, num_kept)
    positions = jnp.asarray(kept)
    values = chain_means(asked.at_nodes, positions)
    mean = interpolant(values.mean(axis=0), car.LOW, car.HIGH)
    log_probabilities = chain_log_means(asked.log_probabilities, positions)
    exact = mean_function(asked.prior, positions.reshape(-1, kept.shape[-1]))
    error = largest_error(mean, exact, jax.random.key(0))
    warnings = list(run.summary().warnings)
    if error > _LARGEST_ERROR * asked.noise:
        warnings.append(
            f"the table from which the posterior mean is read has an error of {error:.1e}, which "
            f"is large beside the noise of {asked.noise:g}: the prior is too rough for it."
        )
    actions = np.asarray(asked.tests.actions)
    scalars = [name for name in asked.record if name != "value_difference"]
    numbers = {
        **diagnostics(run),
        **{name: mean_and_error(run.draws[name]) for name in scalars},
        **tc.scores.probability_scores(
            logsumexp(log_probabilities, axis=0) - np.log(len(kept)), actions
        ),
        # The spread of the chains' own scores; each is over fewer draws, so a little worse.
        "log_score_error": tc.scores.standard_error(
            [tc.scores.log_score(of_chain, actions) for of_chain in log_probabilities]
        ),
        "interpolation_error": error,
        "warnings": warnings,
    }
    of_chains = [interpolant(v, car.LOW, car.HIGH) for v in values]
    return Learned(asked.prior, kept, mean, of_chains, numbers)


def row_over(cells: Sequence[dict[str, Any]], *correlations: str) -> dict[str, Any]:
    """Means over the data sets whose chains converged, and how many these are."""
    good = [cell for cell in cells if cell["is_converged"]]
    correlated = [{name: cell[name]["mean"] for name in correlations} for cell in good]
    return {
        "num_converged": len(good),
        "rhat": max(cell["rhat"] for cell in cells),
        **tc.scores.means_over(good, SCORES),
        **tc.scores.means_over(correlated, correlations),
    }


class Course(NamedTuple):
    """Starts and noise of one data set: the same for every policy."""

    seed: int
    num_episodes: int
    max_steps: int

    @property
    def keys(self) -> shared.Keys:
        """The randomness of its data set."""
        return shared.keys_of(self.seed)

    def drive(self, policy: Policy) -> dict[str, Any]:
        """Failures, steps of each episode (-1 for a failure) and their median."""
        starts, key = car.initial_states(self.keys.starts, self.num_episodes), self.keys.rollouts
        rollouts = tc.control.rollout(
            policy, car.step, car.reached_goal, key, starts, max_steps=self.max_steps
        )
        steps, reached = np.asarray(rollouts.num_steps), np.asarray(rollouts.reached)
        return {
            "failures": rollouts.num_failures,
            "steps": np.where(reached, steps, -1).tolist(),
            "median_steps": float(np.median(steps[reached])) if reached.any() else None,
        }


def course_of(config: CarConfig, number: int) -> Course:
    """The course of the data set with that number."""
    return Course(config.seeds[number], config.num_episodes, config.max_steps)


def cloned(
    method: tc.control.Method, seen: car.Demonstrations, config: CarConfig, number: int
) -> dict[str, Any]:
    """What a clone of a data set's demonstrations reaches: episodes, scores on held-out choices."""
    (tests, _), course = yardsticks(config), course_of(config, number)
    settings: Any = {"num_actions": car.NUM_ACTIONS, "method": method, "seed": course.seed}
    clone = tc.control.clone(*seen, car.LOW, car.HIGH, **settings)
    log_probabilities = np.asarray(clone.log_probabilities(jnp.asarray(tests.states)))
    return course.drive(clone) | tc.scores.probability_scores(
        log_probabilities, np.asarray(tests.actions)
    )
