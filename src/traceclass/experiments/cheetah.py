"""What the half-cheetah experiments share: data, priors, chains, scores and distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array

from traceclass import control
from traceclass.control import half_cheetah as cheetah
from traceclass.control.policies import Policy, draw_values
from traceclass.experiments.base import Chains, Config
from traceclass.experiments.car import ValueDifferences
from traceclass.experiments.driving import mean_over
from traceclass.experiments.learned import diagnostics, evenly_spaced
from traceclass.kernels import hmc
from traceclass.likelihoods import ActionChoice
from traceclass.posterior import Posterior
from traceclass.priors import (
    FourierSeries,
    IidNetwork,
    Prior,
    Reduced,
    TraceClassNetwork,
    scale_to_box,
)
from traceclass.sampling import Run
from traceclass.sampling.until import Until

# A kind and a size: a network of three layers so wide, or a series of so many frequencies.
PriorName = Annotated[str, pydantic.StringConstraints(pattern=r"^(tcnn|bnn|kl)-[1-9][0-9]{0,3}$")]
KINDS = {"tcnn": "trace-class network", "bnn": "standard network", "kl": "Fourier series"}
CLONES = (*control.CLONES, "forest")
# Above this R-hat a cell is marked; chains go on until they are below the second.
LARGEST_RHAT, RHAT_WANTED = 1.05, 1.04
# States of the test set whose value differences decide about convergence.
_WATCHED = 10
# Test states whose successors are evaluated together: bounds the memory.
_STATES_AT_A_TIME = 250
# The authors' box is widened by this share of its sides: what other actions than the expert's
# lead to lies beyond it now and then.
_MARGIN = 0.1
# Shrinkage of prior draws among which each chain's start is found.
_SHRINKAGE = tuple(2.0**-k for k in range(8))
# More coordinates than this make a draw so dear that fewer are asked for.
WIDE = 5_000
# Streams of one data set's seed.
_DATA, _TESTS, _STARTS, _EXTRA = range(4)


class CheetahConfig(Config):
    """Settings that the half-cheetah experiments share; the defaults are the paper's."""

    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=100, ge=1, le=100_000)
    episode_length: int = pydantic.Field(default=100, ge=1, le=10_000)
    keep_every: pydantic.PositiveInt = 5
    states_from: cheetah.StatesFrom = "discretised"
    exploration: float = pydantic.Field(default=0.2, ge=0, le=1)
    num_data_sets: int = pydantic.Field(default=5, ge=1, le=1_000)
    num_tests: int = pydantic.Field(default=1_000, ge=_WATCHED, le=100_000)
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


class Learned(NamedTuple):
    """A sampled posterior: its run, some positions (draws, z), and figures."""

    prior: Prior
    run: Run
    positions: Array
    numbers: dict[str, Any]


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


def starts_of(posterior: Posterior, seed: int, num_chains: int) -> Array:
    r"""A start for each chain: the best point on the way from zero to a draw of the prior.

        c z,   z ~ N(0, I),   c = argmax over 1, 1/2, 1/4, ... of l(c z)

    Prior draws themselves may be thousands below chance, which is l(0), and chains from there are
    long on their way; zero itself is a saddle.
    """
    key = jax.random.fold_in(jax.random.key(seed), _STARTS)
    draws = jax.vmap(posterior.prior.sample)(jax.random.split(key, num_chains))
    shrunk = jnp.asarray(_SHRINKAGE)[:, None, None] * draws
    flat = shrunk.reshape(-1, draws.shape[-1])
    log_likelihoods = jax.jit(lambda z: jax.lax.map(posterior.log_likelihood, z))(flat)
    best = jnp.argmax(log_likelihoods.reshape(len(_SHRINKAGE), num_chains), axis=0)
    return shrunk[best, jnp.arange(num_chains)]


def learn(
    chains: Chains,
    cell: str,
    name: str,
    data: DataSet,
    config: CheetahConfig,
    *,
    coarse: Learned | None = None,
) -> Learned:
    """Sample the posterior of one prior and data set until its chains agree, and score it.

    With `coarse`, a run of a narrower trace-class network, or on fewer of the demonstrations,
    chains begin where its chains ended, with new nodes from the prior. They keep its step, which
    does not depend on width, and is shortened by the square root of the number of demonstrations.
    """
    prior = prior_of(name, dim=data.successors.shape[-1])
    seen = data.successors.reshape(-1, data.successors.shape[-1])
    # A series is sampled in the coordinates that the demonstrations see: exact, and far fewer.
    sampled = Reduced(prior, seen) if isinstance(prior, FourierSeries) else prior
    posterior = posterior_of(sampled, data, noise=config.noise)
    watched = jnp.asarray(data.test_successors[:_WATCHED])
    values_of = sampled.at(watched.reshape(-1, watched.shape[-1]))
    expert = jnp.asarray(data.tests.actions[:_WATCHED])[:, None]
    # The steps of standard networks are twice as long.
    num_kicks = -(-config.num_kicks // 2) if name.startswith("bnn") else config.num_kicks
    begun = (
        _begun(posterior, data, config) if coarse is None else _refined(prior, coarse, data, config)
    )
    run = chains.sample(
        cell,
        posterior,
        hmc.using(num_kicks=num_kicks),
        record={"value_difference": ValueDifferences(values_of, expert)},
        until=Until(
            rhat=RHAT_WANTED,
            of=("value_difference", "log_likelihood"),
            max_samples=max(begun["num_samples"], begun.pop("max_samples")),
        ),
        num_chains=len(begun["initial_positions"]),
        seed=data.seed,
        **begun,
    )
    assert run.positions is not None
    kept = evenly_spaced(run.positions, config.num_kept)
    positions = jnp.asarray(kept.reshape(-1, kept.shape[-1]))
    if isinstance(sampled, Reduced):
        positions = sampled.lift(jax.random.key(data.seed), positions)
    figures = diagnostics(run)
    figures["is_converged"] = figures["rhat"] < LARGEST_RHAT
    numbers = {
        "cell": cell,
        "num_demonstrations": len(data.successors),
        "num_coordinates": prior.num_coordinates,
        **figures,
        **scores(prior, positions, data, noise=config.noise),
    }
    return Learned(prior, run, positions, numbers)


def _begun(posterior: Posterior, data: DataSet, config: CheetahConfig) -> dict[str, Any]:
    """How a run begins: near zero, with a warm-up that finds its step."""
    is_wide = posterior.prior.num_coordinates > WIDE
    num_chains = config.num_wide_chains if is_wide else config.num_chains
    return {
        "initial_positions": starts_of(posterior, data.seed, num_chains),
        "num_warmup": config.num_warmup,
        "num_samples": config.num_wide_samples if is_wide else config.num_samples,
        "max_samples": config.max_wide_samples if is_wide else config.max_samples,
    }


def _refined(prior: Prior, coarse: Learned, data: DataSet, config: CheetahConfig) -> dict[str, Any]:
    """How a run begins at the ends of the chains of another."""
    assert coarse.run.positions is not None
    is_wide = prior.num_coordinates > WIDE
    num_chains = config.num_wide_chains if is_wide else config.num_chains
    ends = jnp.asarray(coarse.run.positions[:num_chains, -1])
    more = len(data.successors) / coarse.numbers["num_demonstrations"]
    keys = jax.random.split(jax.random.key(0), len(ends))
    return {
        "step_size": coarse.run.step_size / np.sqrt(more),
        "initial_positions": jax.vmap(lambda k, z: coarse.prior.prolong(k, z, prior))(keys, ends),
        "num_warmup": config.num_refined_warmup,
        "num_samples": config.num_wide_samples if is_wide else config.num_samples,
        "max_samples": config.max_wide_samples if is_wide else config.max_samples,
    }


def scores(prior: Prior, positions: Array, data: DataSet, *, noise: float) -> dict[str, float]:
    """On the test set: how often draws, their mean and their majority choose as the expert did.

    `log_score` is the mean log-probability of the expert's choices, that of each the mean over
    draws; `balanced` the mean over actions of the share in which the mean chooses them rightly.
    """
    actions = data.tests.actions
    num_actions = data.test_successors.shape[1]
    values = test_values(prior, positions, data)
    best = values.argmax(axis=-1)
    votes = np.stack([(best == action).sum(axis=0) for action in range(num_actions)], axis=1)
    of_mean = values.mean(axis=0).argmax(axis=-1)
    return {
        "samples": float((best == actions).mean()),
        "mean": float((of_mean == actions).mean()),
        "vote": float((votes.argmax(axis=1) == actions).mean()),
        "balanced": balanced_accuracy(of_mean, actions),
        "log_score": float(np.mean(_log_predictive(values, data, noise))),
    }


def test_values(prior: Prior, positions: Array, data: DataSet) -> np.ndarray:
    """Values (draws, states, actions) of the test set's successors."""
    after, count = data.test_successors, len(data.test_successors)
    pieces = []
    for begin in range(0, count, _STATES_AT_A_TIME):
        piece = jnp.asarray(after[begin : begin + _STATES_AT_A_TIME])
        values = draw_values(prior, positions, piece.reshape(-1, piece.shape[-1]))
        pieces.append(np.asarray(values).reshape(len(positions), *piece.shape[:2]))
    return np.concatenate(pieces, axis=1)


def _log_predictive(values: np.ndarray, data: DataSet, noise: float) -> np.ndarray:
    """log mean over draws of p(the expert's action), for each test state."""
    choice = ActionChoice(jnp.asarray(data.test_successors), data.tests.actions, noise=noise)

    @jax.jit
    def log_means(values: Array) -> Array:
        each = jax.lax.map(lambda v: choice.log_prob_each(v.ravel()), values)
        return jax.nn.logsumexp(each, axis=0) - jnp.log(len(values))

    return np.asarray(log_means(jnp.asarray(values)), dtype=np.float64)


def balanced_accuracy(predicted: np.ndarray, actions: np.ndarray) -> float:
    """The mean over actions, of those that occur, of the share predicted rightly."""
    shares = [(predicted[actions == a] == a).mean() for a in np.unique(actions)]
    return float(np.mean(shares))


def clone_of(method: str, data: DataSet) -> Any:
    """A classifier of the demonstrated states, which is a policy too."""
    seen = data.demonstrations
    count = data.successors.shape[1]
    if method == "forest":
        return control.forest(seen.states, seen.actions, num_actions=count, seed=data.seed)
    return control.clone(
        jnp.asarray(seen.states),
        seen.actions,
        cheetah.LOW,
        cheetah.HIGH,
        num_actions=count,
        method=method,  # pyright: ignore[reportArgumentType]
        seed=data.seed,
    )


def clone_scores(clone: Any, data: DataSet) -> dict[str, float]:
    """On the test set, as `scores`."""
    actions = data.tests.actions
    log_probabilities = np.asarray(clone.log_probabilities(jnp.asarray(data.tests.states)))
    best = log_probabilities.argmax(axis=1)
    return {
        "mean": float((best == actions).mean()),
        "balanced": balanced_accuracy(best, actions),
        "log_score": float(log_probabilities[np.arange(len(actions)), actions].mean()),
    }


def policies_of(learned: Learned, config: CheetahConfig) -> dict[str, Policy]:
    """By the mean, by one draw an episode, and by majority."""
    after = cheetah.successors_by(cheetah.expert().actions)
    prior, positions = learned.prior, learned.positions
    each = np.arange(config.num_episodes) * len(positions) // config.num_episodes % len(positions)
    return {
        "mean": control.argmax_policy(control.MeanValue(prior, positions), after),
        "sample": control.thompson_policy(prior, positions[each], after),
        "vote": control.majority_policy(prior, positions, after),
    }


def reference_policies(seed: int) -> dict[str, Policy]:
    """The discretised expert, and actions at random."""
    expert = cheetah.expert()

    def discretised(key: Array, states: Array) -> Array:
        del key
        return jnp.asarray(expert.nearest(np.asarray(states, np.float64)))

    def at_random(key: Array, states: Array) -> Array:
        return jax.random.randint(
            jax.random.fold_in(key, seed), (len(states),), 0, expert.num_actions
        )

    return {"discretised expert": discretised, "random": at_random}


def ride(policy: Policy, seed: int, config: CheetahConfig) -> cheetah.Runs:
    """Episodes of a policy from the starts of a data set, the same for every policy."""
    starts = cheetah.initial_states(stream(seed, _STARTS), config.num_episodes)
    actions = cheetah.expert().actions
    return cheetah.rollout(policy, actions, starts, num_steps=config.num_steps, seed=seed)


def ride_continuously(seed: int, config: CheetahConfig) -> cheetah.Runs:
    """Episodes of the continuous expert; its actions have no numbers, and are said to be -1."""
    states = cheetah.initial_states(stream(seed, _STARTS), config.num_episodes)
    path, ways = [states], [np.zeros(len(states))]
    for _ in range(config.num_steps):
        states, way = cheetah.advance(states, cheetah.expert().controls(states))
        path.append(states)
        ways.append(way)
    none = np.full((config.num_steps, config.num_episodes), -1)
    return cheetah.Runs(np.array(path), none, np.cumsum(ways, axis=0))


def distances(runs: cheetah.Runs) -> dict[str, float]:
    """How far the episodes came on average, and the share that fell."""
    return {"distance": float(runs.distance[-1].mean()), "falls": float(runs.fell.mean())}


def over_data_sets(cells: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """Mean and standard error over data sets of each figure."""
    return {name: mean_over([cell[name] for cell in cells]) for name in names}


def _widened(generator: np.random.Generator, successors: np.ndarray, dim: int) -> np.ndarray:
    states, actions, known = successors.shape
    extra = generator.standard_normal((states, 1, dim - known))
    return np.concatenate([successors, np.repeat(extra, actions, axis=1)], axis=-1)
