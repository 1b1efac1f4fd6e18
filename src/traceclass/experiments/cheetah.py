"""What the half-cheetah experiments share: settings, data sets and priors."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pydantic

from traceclass.control import half_cheetah as cheetah
from traceclass.experiments.base import Config
from traceclass.likelihoods import ActionChoice
from traceclass.posterior import Posterior
from traceclass.priors import FourierSeries, IidNetwork, Prior, TraceClassNetwork, scale_to_box

# A kind and a size: a network of three layers so wide, or a series of so many frequencies.
PriorName = Annotated[str, pydantic.StringConstraints(pattern=r"^(tcnn|bnn|kl)-[1-9][0-9]{0,3}$")]
KINDS = {"tcnn": "trace-class network", "bnn": "standard network", "kl": "Fourier series"}
# States of the test set whose value differences decide about convergence.
WATCHED = 10
# The authors' box is widened by this share of its sides: what other actions than the expert's
# lead to lies beyond it now and then.
_MARGIN = 0.1
# Streams of one data set's seed.
_DATA, _TESTS, STARTS, _EXTRA = range(4)


class CheetahConfig(Config):
    """Settings that the half-cheetah experiments share; the defaults are the paper's."""

    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=100, ge=1, le=100_000)
    episode_length: int = pydantic.Field(default=100, ge=1, le=10_000)
    keep_every: pydantic.PositiveInt = 5
    states_from: cheetah.StatesFrom = "discretised"
    exploration: float = pydantic.Field(default=0.2, ge=0, le=1)
    num_data_sets: int = pydantic.Field(default=5, ge=1, le=1_000)
    num_tests: int = pydantic.Field(default=1_000, ge=WATCHED, le=100_000)
    # Of a trajectory: about a quarter turn at the steps that warm-up finds. Found by warm-up too,
    # they would vary from one data set to the next more than the posteriors do.
    num_kicks: pydantic.PositiveInt = 100
    num_chains: pydantic.PositiveInt = 4
    num_warmup: int = pydantic.Field(default=400, ge=400)
    num_samples: pydantic.PositiveInt = 100
    max_samples: pydantic.PositiveInt = 400
    num_wide_chains: pydantic.PositiveInt = 2
    num_refined_warmup: pydantic.PositiveInt = 50
    num_wide_samples: pydantic.PositiveInt = 100
    max_wide_samples: pydantic.PositiveInt = 200
    num_kept: pydantic.PositiveInt = 100
    num_episodes: int = pydantic.Field(default=10, ge=1, le=10_000)
    num_steps: int = pydantic.Field(default=100, ge=1, le=10_000)


class DataSet(NamedTuple):
    """Demonstrations and tests from other episodes, with the states that the actions lead to."""

    seed: int
    demonstrations: cheetah.Demonstrations
    successors: np.ndarray
    tests: cheetah.Demonstrations
    test_successors: np.ndarray

    def first(self, count: int) -> DataSet:
        """With the first demonstrations only."""
        return self._replace(
            demonstrations=cheetah.Demonstrations(*(x[:count] for x in self.demonstrations)),
            successors=self.successors[:count],
        )

    def widened(self, dim: int) -> DataSet:
        """With irrelevant inputs appended: normal noise of its own in every state after a step.

        They do not depend on the action, as the rest of a world that the cheetah cannot move.
        """
        generator = np.random.default_rng([self.seed, _EXTRA])
        return self._replace(
            successors=_widened(generator, self.successors, dim),
            test_successors=_widened(generator, self.test_successors, dim),
        )

    @property
    def commonest(self) -> int:
        """The action most often demonstrated."""
        return int(np.bincount(self.demonstrations.actions).argmax())


def data_set(seed: int, config: CheetahConfig, num_demonstrations: int | None = None) -> DataSet:
    """That of one seed."""
    scheme: dict[str, Any] = {
        "episode_length": config.episode_length,
        "keep_every": config.keep_every,
        "states_from": config.states_from,
        "exploration": config.exploration,
    }
    count = config.num_demonstrations if num_demonstrations is None else num_demonstrations
    actions = cheetah.expert().actions
    seen = cheetah.demonstrate(stream(seed, _DATA), num_demonstrations=count, **scheme)
    tests = cheetah.demonstrate(stream(seed, _TESTS), num_demonstrations=config.num_tests, **scheme)
    return DataSet(
        seed,
        seen,
        cheetah.successors(seen.states, actions),
        tests,
        cheetah.successors(tests.states, actions),
    )


def stream(seed: int, number: int) -> np.random.Generator:
    """Independent randomness of one seed."""
    return np.random.default_rng([seed, number])


def prior_of(name: str, *, dim: int = cheetah.DIM) -> Prior:
    """One of the paper's priors by kind and size, on states scaled to a box.

    Irrelevant inputs beyond the first 17 have the box [-3, 3], three standard deviations.
    """
    kind, _, size = name.partition("-")
    inputs = scale_to_box(*_box(dim))
    if kind == "kl":
        return FourierSeries(num_inputs=dim, max_frequency=int(size), alpha=2.0, inputs=inputs)
    if kind == "bnn":
        return IidNetwork(
            num_inputs=dim,
            widths=(int(size),) * 3,
            weight_variance=1 / 3,
            bias_variance=1 / 3,
            inputs=inputs,
        )
    return TraceClassNetwork(
        num_inputs=dim,
        widths=(int(size),) * 3,
        alpha=1.5,
        weight_variance=2.0,
        bias_variance=2.0,
        inputs=inputs,
    )


def _box(dim: int) -> tuple[list[float], list[float]]:
    """The authors' box, widened, and that of the irrelevant inputs."""
    low, high = np.array(cheetah.LOW), np.array(cheetah.HIGH)
    margin, extra = _MARGIN * (high - low), [3.0] * (dim - cheetah.DIM)
    return [*(low - margin).tolist(), *(-x for x in extra)], [*(high + margin).tolist(), *extra]


def in_words(name: str) -> str:
    """Of a prior's name, for tables."""
    kind, _, size = name.partition("-")
    return f"{KINDS[kind]} {f'k = {size}' if kind == 'kl' else f'3 x {size}'}"


def posterior_of(prior: Prior, data: DataSet, *, noise: float) -> Posterior:
    """Given the demonstrated choices."""
    seen = jnp.asarray(data.successors)
    return Posterior(prior, ActionChoice(seen, data.demonstrations.actions, noise=noise))


def _widened(generator: np.random.Generator, successors: np.ndarray, dim: int) -> np.ndarray:
    states, actions, known = successors.shape
    extra = generator.standard_normal((states, 1, dim - known))
    return np.concatenate([successors, np.repeat(extra, actions, axis=1)], axis=-1)
