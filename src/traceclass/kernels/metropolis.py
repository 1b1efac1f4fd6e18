"""How kernels decide: the accept/reject step, and what BlackJAX is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

StateT = TypeVar("StateT")


class MetropolisInfo(NamedTuple):
    """What happened in one accept/reject step, under BlackJAX's names."""

    acceptance_rate: Float[Array, "..."]
    is_accepted: Bool[Array, "..."]
    is_nonfinite: Bool[Array, "..."]


def sampling_algorithm(init: Callable[..., Any], step: Callable[..., Any]) -> Any:
    """BlackJAX's pair of an initial state and a step, `step(key, state) -> (state, info)`.

    BlackJAX is imported here and not above: importing it computes something, after which JAX can
    no longer be told how many devices to make (`tc.use_cpu_devices`).
    """
    # What that import computes must not become a part of the program that is being traced.
    with jax.ensure_compile_time_eval():
        from blackjax.base import SamplingAlgorithm

    return SamplingAlgorithm(init, step)


def accept_or_reject(
    key: Key[Array, ""], log_ratio: Float[Array, ""], proposal: StateT, state: StateT
) -> tuple[StateT, MetropolisInfo]:
    """Metropolis step: the proposal with probability min(1, exp(log_ratio)), else the state.

    States carry `log_likelihood`. A proposal where it is NaN or infinite is rejected and flagged,
    and so is a ratio that is NaN; from minus infinity any finite proposal is accepted.
    """
    is_accepted, info = decide(key, log_ratio, proposal)
    chosen = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposal, state)
    return chosen, info


def decide(
    key: Key[Array, ""], log_ratio: Float[Array, ""], proposal: Any
) -> tuple[Bool[Array, ""], MetropolisInfo]:
    """Whether to accept, for moves that change few coordinates and copy none of the others."""
    is_nonfinite = ~jnp.isfinite(proposal.log_likelihood) | jnp.isnan(log_ratio)
    log_ratio = jnp.where(is_nonfinite, -jnp.inf, log_ratio)
    is_accepted = -jax.random.exponential(key, dtype=log_ratio.dtype) <= log_ratio
    rate = jnp.exp(jnp.minimum(log_ratio, 0.0))
    return is_accepted, MetropolisInfo(rate, is_accepted, is_nonfinite)


def metropolis_info(info: Any) -> MetropolisInfo:
    """What happened in a step of any BlackJAX kernel.

    Our names are BlackJAX's. Some of its kernels lack some of them, and MCLMC never rejects.
    """
    if isinstance(info, MetropolisInfo):
        return info
    rate = jnp.asarray(getattr(info, "acceptance_rate", 1.0), dtype=float)
    is_accepted = getattr(info, "is_accepted", rate > 0)
    return MetropolisInfo(rate, is_accepted, getattr(info, "is_nonfinite", jnp.isnan(rate)))
