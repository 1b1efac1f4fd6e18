"""What the half-cheetah experiments share: data sets, priors, episodes and clones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import traceclass as tc
from traceclass.control import half_cheetah as cheetah
from traceclass.control.policies import Policy
from traceclass.experiments.experiment import made_once
from traceclass.experiments.half_cheetah.settings import CheetahConfig

KINDS = {"tcnn": "trace-class network", "bnn": "standard network", "kl": "Fourier series"}
# The authors' box is widened by this share of its sides: what other actions than the expert's
# lead to lies beyond it now and then.
_MARGIN = 0.1
# Streams of one data set's seed.
_DATA, _TESTS, _STARTS, _EXTRA = range(4)
CLONES = (*tc.control.CLONES, "forest")


class DataSet(NamedTuple):
    """Demonstrations and tests from other episodes, with the states that the actions lead to."""

    seed: int
    demonstrations: cheetah.Demonstrations
    successors: np.ndarray
    tests: cheetah.Demonstrations
    test_successors: np.ndarray

    def first(self, count: int) -> DataSet:
        """The same data set with the first demonstrations only."""
        return self._replace(
            demonstrations=cheetah.Demonstrations(*(x[:count] for x in self.demonstrations)),
            successors=self.successors[:count],
        )

    def widened(self, dim: int) -> DataSet:
        """The data set with irrelevant inputs: normal noise of its own in every state after a step.

        They do not depend on the action, as the rest of a world that the cheetah cannot move.
        """
        generator, widened = stream(self.seed, _EXTRA), []
        for successors in (self.successors, self.test_successors):
            states, actions, known = successors.shape
            extra = generator.standard_normal((states, 1, dim - known)).repeat(actions, axis=1)
            widened.append(np.concatenate([successors, extra], axis=-1))
        return self._replace(successors=widened[0], test_successors=widened[1])

    @property
    def commonest(self) -> int:
        """The action most often demonstrated."""
        return int(np.bincount(self.demonstrations.actions).argmax())

    @property
    def shares(self) -> list[float]:
        """How often each action is the expert's on the test set."""
        actions = self.tests.actions
        return (np.bincount(actions, minlength=self.successors.shape[1]) / len(actions)).tolist()


@made_once
def data_set(seed: int, config: CheetahConfig, num_demonstrations: int | None = None) -> DataSet:
    """The data set of one seed, with `num_demonstrations` if they are not the configured number."""
    names = ("episode_length", "keep_every", "states_from", "exploration")
    scheme: dict[str, Any] = {name: getattr(config, name) for name in names}
    count = num_demonstrations or config.num_demonstrations
    actions = cheetah.expert().actions
    seen = cheetah.demonstrate(stream(seed, _DATA), num_demonstrations=count, **scheme)
    tests = cheetah.demonstrate(stream(seed, _TESTS), num_demonstrations=config.num_tests, **scheme)
    after, test_after = (cheetah.successors(part.states, actions) for part in (seen, tests))
    return DataSet(seed, seen, after, tests, test_after)


def stream(seed: int, number: int) -> np.random.Generator:
    """Independent randomness of one seed."""
    return np.random.default_rng([seed, number])


def prior_of(name: str, *, dim: int = cheetah.DIM) -> tc.Prior:
    """One of the paper's priors by kind and size, on states scaled to a box.

    Irrelevant inputs beyond the first 17 have the box [-3, 3], three standard deviations.
    """
    kind, _, size = name.partition("-")
    low, high = np.array(cheetah.LOW), np.array(cheetah.HIGH)
    margin, extra = _MARGIN * (high - low), np.full(dim - cheetah.DIM, 3.0)
    box = np.append(low - margin, -extra), np.append(high + margin, extra)
    inputs = tc.scale_to_box(*(side.tolist() for side in box))
    if kind == "kl":
        return tc.FourierSeries(num_inputs=dim, max_frequency=int(size), alpha=2.0, inputs=inputs)
    network: Any = {"num_inputs": dim, "widths": (int(size),) * 3, "inputs": inputs}
    if kind == "bnn":
        return tc.IidNetwork(**network, weight_variance=1 / 3, bias_variance=1 / 3)
    return tc.TraceClassNetwork(**network, alpha=1.5, weight_variance=2.0, bias_variance=2.0)


def in_words(name: str) -> str:
    """A prior by its kind and size, for tables."""
    kind, _, size = name.partition("-")
    return f"{KINDS[kind]} {f'k = {size}' if kind == 'kl' else f'3 x {size}'}"


def posterior_of(prior: tc.Prior, data: DataSet, *, noise: float) -> tc.Posterior:
    """The posterior given the demonstrated choices."""
    seen = jnp.asarray(data.successors)
    return tc.Posterior(prior, tc.ActionChoice(seen, data.demonstrations.actions, noise=noise))


def ride(policy: Policy, seed: int, config: CheetahConfig) -> cheetah.Runs:
    """Episodes of a policy from the starts of a data set, the same for every policy."""
    starts = starts_of(seed, config)
    actions = cheetah.expert().actions
    return cheetah.rollout(policy, actions, starts, num_steps=config.num_steps, seed=seed)


def starts_of(seed: int, config: CheetahConfig) -> np.ndarray:
    """Where the episodes of a data set begin."""
    return cheetah.initial_states(stream(seed, _STARTS), config.num_episodes)


def distances(runs: cheetah.Runs) -> dict[str, float]:
    """How far the episodes came on average, and the share that fell."""
    return {"distance": float(runs.distance[-1].mean()), "falls": float(runs.fell.mean())}


def cloned(method: str, data: DataSet, config: CheetahConfig) -> tuple[dict, cheetah.Runs]:
    """What a classifier of the demonstrated states reaches, which is a policy too; its episodes.

    The numbers are its scores on the test set and its distances.
    """
    (states, taken, _), tests = data.demonstrations, data.tests
    settings: Any = {"num_actions": data.successors.shape[1], "seed": data.seed}
    if method == "forest":
        clone: Any = tc.control.forest(states, taken, **settings)
    else:
        settings |= {"method": method}
        clone = tc.control.clone(jnp.asarray(states), taken, cheetah.LOW, cheetah.HIGH, **settings)
    log_probabilities = np.asarray(clone.log_probabilities(jnp.asarray(tests.states)))
    runs = ride(clone, data.seed, config)
    numbers = {
        "mean": tc.scores.accuracy(log_probabilities, tests.actions),
        "balanced": tc.scores.balanced_accuracy(log_probabilities.argmax(axis=1), tests.actions),
        "log_score": tc.scores.log_score(log_probabilities, tests.actions),
    }
    return numbers | distances(runs), runs


def row_over(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Means over data sets; cells whose chains do not agree count, and are counted."""
    return {
        "num_coordinates": cells[0]["num_coordinates"],
        "num_converged": sum(cell["is_converged"] for cell in cells),
        **tc.scores.means_over(cells, names),
    }
