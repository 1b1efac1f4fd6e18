"""What the mountain-car experiments share: data, priors, kernels, and what a posterior is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from traceclass.control import mountain_car as car
from traceclass.control.value_iteration import GridValue, value_iteration
from traceclass.errors import UserValueError
from traceclass.kernels import hmc, pcn, pcnl
from traceclass.likelihoods import ActionChoice
from traceclass.likelihoods.action_choice import log_choice_probabilities
from traceclass.module import Module
from traceclass.priors import FourierSeries, IidNetwork, Prior, TraceClassNetwork, scale_to_box

PriorName = Literal["tcnn", "kl", "bnn"]
KernelName = Literal["pcn", "pcnl", "hmc"]

# In words, for tables and figures.
PRIORS = {"tcnn": "trace-class network", "kl": "Fourier series", "bnn": "standard network"}
SHORT = {"tcnn": "tcNN", "kl": "Fourier", "bnn": "BNN"}
KERNELS = {"pcn": pcn, "pcnl": pcnl, "hmc": hmc}
# Five states on the expert's way: in the valley, on the first slope, where it turns back, and twice
# rolling to the left. The expert pushes right at the first two and left at the others.
TEST_STATES = ((-0.52, 0.0), (-0.46, 0.008), (-0.36, 0.005), (-0.42, -0.015), (-0.65, -0.025))
# Any fixed number sets these keys apart from those of the data.
_HELD_OUT = 0x4E1D


class Keys(NamedTuple):
    """Independent sources of randomness of one data set."""

    data: Key[Array, ""]
    starts: Key[Array, ""]
    rollouts: Key[Array, ""]
    thompson: Key[Array, ""]


def keys_of(seed: int) -> Keys:
    """The keys of the data set with this seed."""
    return Keys(*jax.random.split(jax.random.key(seed), len(Keys._fields)))


def prior_of(
    name: PriorName,
    *,
    widths: tuple[int, ...] = (10, 10, 10),
    alpha: float = 1.5,
    weight_variance: float = 2.0,
    bias_variance: float = 2.0,
    activation: str = "tanh",
    iid_variance: float | tuple[float, ...] = 1 / 3,
    max_frequency: int = 7,
) -> Prior:
    """One of the paper's three priors, on the car's states scaled to a box.

    The standard network has one variance a layer for weights and biases, the Fourier series those
    of eq:fourier_eigenvalues with alpha = 2; 7 frequencies are the paper's 224 coefficients.
    """
    inputs = scale_to_box(car.LOW, car.HIGH)
    if name == "kl":
        return FourierSeries(num_inputs=2, max_frequency=max_frequency, alpha=2.0, inputs=inputs)
    if name == "bnn":
        return IidNetwork(
            num_inputs=2,
            widths=widths,
            weight_variance=iid_variance,
            bias_variance=iid_variance,
            activation=activation,
            inputs=inputs,
        )
    return TraceClassNetwork(
        num_inputs=2,
        widths=widths,
        alpha=alpha,
        weight_variance=weight_variance,
        bias_variance=bias_variance,
        activation=activation,
        inputs=inputs,
    )


def choices(demonstrations: car.Demonstrations, *, noise: float) -> ActionChoice:
    """The likelihood of the paper's section on control."""
    return ActionChoice(car.successors(demonstrations.states), demonstrations.actions, noise=noise)


def held_out(seed: int, count: int) -> car.Demonstrations:
    """Demonstrations of other drives than those learned from."""
    key = jax.random.fold_in(jax.random.key(seed), _HELD_OUT)
    return car.demonstrate(key, num_demonstrations=count)


def true_value(num_nodes: int) -> GridValue:
    """Minus the least number of steps to the flag."""
    return value_iteration(car.successors, car.reached_goal, car.LOW, car.HIGH, num_nodes=num_nodes)


class ValueDifferences(Module):
    """See `value_differences`; a module, as those below, so that runs of one shape compile once."""

    values_of: Callable[[Array], Array]
    expert: Array

    def __call__(self, z: Array) -> Array:
        values = self.values_of(z).reshape(len(self.expert), -1)
        return values - jnp.take_along_axis(values, self.expert, axis=1)


class ActionLogProbabilities(Module):
    """See `action_log_probabilities`."""

    values_of: Callable[[Array], Array]
    noise: float = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        values = self.values_of(z).reshape(-1, car.NUM_ACTIONS)
        return log_choice_probabilities(values, noise=self.noise)


class RankCorrelation(Module):
    """See `rank_correlation`."""

    values_of: Callable[[Array], Array]
    wanted: Array

    def __call__(self, z: Array) -> Array:
        return jnp.mean(_standardised_ranks(self.values_of(z)) * self.wanted)


def value_differences(prior: Prior) -> Callable[[Array], Array]:
    """z -> values of the successors of the test states, minus that of the expert's action.

    v_a - v_expert (eq. normalise_v), (states, actions).
    """
    states = jnp.array(TEST_STATES)
    values_of = prior.at(car.successors(states).reshape(-1, 2))
    return ValueDifferences(values_of, car.expert(states)[:, None])


def action_log_probabilities(
    prior: Prior, states: Array, *, noise: float
) -> Callable[[Array], Array]:
    """z -> the log-probability of each action in each state, (states, actions)."""
    return ActionLogProbabilities(prior.at(car.successors(states).reshape(-1, 2)), noise)


def rank_correlation(prior: Prior, states: Array, reference: Array) -> Callable[[Array], Array]:
    r"""z -> Spearman's correlation of v with a reference over states.

    The same for every increasing function of either, which is as much as choices can tell: a
    likelihood of noisy choices sees v through differences between neighbouring states.
    """
    return RankCorrelation(prior.at(states), _standardised_ranks(reference))


def _standardised_ranks(values: Array) -> Array:
    ranks = jnp.argsort(jnp.argsort(values)).astype(float)
    return (ranks - ranks.mean()) / ranks.std()


def standard_error(values: Any) -> float | None:
    """The standard error of a mean of independent values; None of one, or if one is infinite."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def check_table(seed: int, num_data_sets: int, **names: tuple[object, ...]) -> None:
    """Refuse settings that name a cell twice, or a data set beyond the last seed."""
    for setting, values in names.items():
        if len(set(values)) < len(values):
            raise UserValueError(f"{setting} must differ from each other, got {list(values)}.")
    if seed + num_data_sets > 2**32:
        raise UserValueError(
            f"seed + num_data_sets must be at most 2**32, got {seed} + {num_data_sets}: each data "
            "set has the next seed."
        )
