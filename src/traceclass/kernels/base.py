"""What kernels share: the factory type, the accept/reject step, and the noise."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Key

from traceclass.posterior import Posterior

StateT = TypeVar("StateT")

# (posterior, step_size) -> blackjax.base.SamplingAlgorithm, a pair of functions init and step
KernelFactory = Callable[[Posterior, Any], Any]


class MetropolisInfo(NamedTuple):
    """What happened in one accept/reject step, under BlackJAX's names."""

    acceptance_rate: Float[Array, ""]
    is_accepted: Bool[Array, ""]
    is_nonfinite: Bool[Array, ""]


@dataclasses.dataclass(eq=False)
class Kernel:
    """A kernel factory, `kernel(posterior, step_size) -> blackjax.base.SamplingAlgorithm`.

    Besides building the algorithm it knows what `tc.sample` needs to tune it unattended: the
    acceptance rate to aim at, a first step size and the largest that makes sense. Any plain
    function of the same signature is a kernel too, if its step size is given.
    """

    build: KernelFactory
    target_acceptance: float
    first_step_size: float
    largest_step_size: float

    def __post_init__(self):
        functools.update_wrapper(self, self.build)

    def __call__(self, posterior: Posterior, step_size: Any) -> Any:
        self.check_step_size(step_size)
        return self.build(posterior, step_size)

    def check_step_size(self, step_size: Any) -> None:
        """Refuse a step size outside (0, largest]; a traced one cannot be looked at."""
        if isinstance(step_size, Tracer):
            return
        if not 0 < float(step_size) <= self.largest_step_size:
            raise ValueError(
                f"{self.build.__name__} needs a step size in (0, {self.largest_step_size:g}], got "
                f'{step_size}. Use e.g. {self.first_step_size:g}, or step_size="adapt".'
            )


def kernel(
    *, target_acceptance: float, first_step_size: float, largest_step_size: float
) -> Callable[[KernelFactory], Kernel]:
    """Decorator that makes a `Kernel` of a function (posterior, step_size)."""
    return lambda build: Kernel(build, target_acceptance, first_step_size, largest_step_size)


def sampling_algorithm(init: Callable[..., Any], step: Callable[..., Any]) -> Any:
    """BlackJAX's pair of an initial state and a step, `step(key, state) -> (state, info)`.

    BlackJAX is imported here and not above: importing it computes something, after which JAX can
    no longer be told how many devices to make (`tc.use_cpu_devices`).
    """
    from blackjax.base import SamplingAlgorithm

    return SamplingAlgorithm(init, step)


def standard_normal(key: Key[Array, ""], like: Float[Array, " z"]) -> Float[Array, " z"]:
    """A standard normal vector of the shape and type of `like`.

    Bits come from the sequential threefry stream: JAX's default one can be split over devices
    inside one array, at twice the cost, and a chain's position is never split.
    """
    with jax.threefry_partitionable(False):
        return jax.random.normal(key, like.shape, like.dtype)


def accept_or_reject(
    key: Key[Array, ""], log_ratio: Float[Array, ""], proposal: StateT, state: StateT
) -> tuple[StateT, MetropolisInfo]:
    """Metropolis step: the proposal with probability min(1, exp(log_ratio)), else the state.

    States carry `log_likelihood`. A proposal where it is NaN or infinite is rejected and flagged,
    and so is a ratio that is NaN; from minus infinity any finite proposal is accepted.
    """
    level = proposal.log_likelihood  # pyright: ignore[reportAttributeAccessIssue]
    is_nonfinite = ~jnp.isfinite(level) | jnp.isnan(log_ratio)
    log_ratio = jnp.where(is_nonfinite, -jnp.inf, log_ratio)
    is_accepted = -jax.random.exponential(key, dtype=log_ratio.dtype) <= log_ratio
    chosen = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposal, state)
    rate = jnp.exp(jnp.minimum(log_ratio, 0.0))
    return chosen, MetropolisInfo(rate, is_accepted, is_nonfinite)
