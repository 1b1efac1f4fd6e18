"""What the mountain-car experiments share: data, priors, kernels, and what a posterior is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

import traceclass as tc
from traceclass.control import functionals
from traceclass.control import mountain_car as car
from traceclass.control.grid_value import GridValue, value_iteration
from traceclass.experiments.experiment import PriorName, made_once

# In words, for tables and figures.
PRIORS = {"tcnn": "trace-class network", "kl": "Fourier series", "bnn": "standard network"}
SHORT = {"tcnn": "tcNN", "kl": "Fourier", "bnn": "BNN"}
KERNELS = {"pcn": tc.pcn, "pcnl": tc.pcnl, "hmc": tc.hmc}
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
) -> tc.Prior:
    """One of the paper's three priors, on the car's states scaled to a box.

    The standard network has one variance per layer for weights and biases; the Fourier series has
    the variances of eq:fourier_eigenvalues with alpha = 2. 7 frequencies are the paper's 224
    coefficients.
    """
    inputs = tc.scale_to_box(car.LOW, car.HIGH)
    if name == "kl":
        return tc.FourierSeries(num_inputs=2, max_frequency=max_frequency, alpha=2.0, inputs=inputs)
    network: Any = {"num_inputs": 2, "widths": widths, "activation": activation, "inputs": inputs}
    if name == "bnn":
        return tc.IidNetwork(**network, weight_variance=iid_variance, bias_variance=iid_variance)
    return tc.TraceClassNetwork(
        **network, alpha=alpha, weight_variance=weight_variance, bias_variance=bias_variance
    )


@made_once
def demonstrations(seed: int, count: int) -> car.Demonstrations:
    """What the expert did, from which the data set with this seed is learned."""
    return car.demonstrate(keys_of(seed).data, num_demonstrations=count)


def choices(seen: car.Demonstrations, **settings: Any) -> tc.ActionChoice:
    """The likelihood of the paper's section on control; `settings` has at least the noise."""
    return tc.ActionChoice(car.successors(seen.states), seen.actions, **settings)


@made_once
def likelihood_of(config: Any) -> tc.ActionChoice:
    """The choices that an experiment with one data set learns from."""
    return choices(demonstrations(config.seed, config.num_demonstrations), noise=config.noise)


def held_out(seed: int, count: int) -> car.Demonstrations:
    """Demonstrations of other drives than those learned from."""
    key = jax.random.fold_in(jax.random.key(seed), _HELD_OUT)
    return car.demonstrate(key, num_demonstrations=count)


def true_value(num_nodes: int) -> GridValue:
    """Minus the least number of steps to the flag."""
    return value_iteration(car.successors, car.reached_goal, car.LOW, car.HIGH, num_nodes=num_nodes)


def value_differences(prior: tc.Prior) -> Callable[[Array], Array]:
    """z -> v_a - v_expert (states, actions) at the test states' successors (eq. normalise_v)."""
    states = jnp.array(TEST_STATES)
    values_of = prior.at(car.successors(states).reshape(-1, 2))
    return functionals.ValueDifferences(values_of, car.expert(states)[:, None])


def action_log_probabilities(
    prior: tc.Prior, states: Array, *, noise: float
) -> Callable[[Array], Array]:
    """z -> the log-probability of each action in each state, (states, actions)."""
    values_of = prior.at(car.successors(states).reshape(-1, 2))
    return functionals.ActionLogProbabilities(values_of, car.NUM_ACTIONS, noise)


def rank_correlation(prior: tc.Prior, states: Array, reference: Array) -> Callable[[Array], Array]:
    """z -> Spearman's correlation of v with a reference over states."""
    return functionals.RankCorrelation(prior.at(states), functionals.standardised_ranks(reference))
