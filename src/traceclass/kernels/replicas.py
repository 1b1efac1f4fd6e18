"""Replicas at several powers of the likelihood, their exchange, and how they travel."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from traceclass.kernels.metropolis import MetropolisInfo

# What is kept of all temperatures beside a draw is named so; no functional's name has a slash.
TEMPERING = "tempering/"
# Where a replica has been: not yet at the prior, last at the prior, last at the posterior.
_NOWHERE, _AT_PRIOR, _AT_POSTERIOR = 0, 1, 2


class TemperedState(NamedTuple):
    """Replicas at all inverse temperatures, from the posterior (1) down to the prior (0).

    `replicas` has their positions, log-likelihoods l and gradients, not multiplied by t; what the
    state itself calls its position and log-likelihood are the posterior's. `labels` says which
    replica stands at each temperature; `last_end` and `round_trips`, by label, which end it was at
    last, and how often it has been at the posterior on a way from the prior and back.
    """

    replicas: Any
    labels: Int[Array, " temperatures"]
    last_end: Int[Array, " temperatures"]
    round_trips: Int[Array, " temperatures"]
    num_exchanges: Int[Array, ""]

    @property
    def position(self) -> Float[Array, "*chains z"]:
        return self.replicas.position[..., 0, :]

    @property
    def log_likelihood(self) -> Float[Array, "*chains"]:
        return self.replicas.log_likelihood[..., 0]

    def recorded(self) -> dict[str, Array]:
        """What is kept with every draw besides position and log-likelihood: 3 numbers per t."""
        return {
            TEMPERING + "log_likelihood": self.replicas.log_likelihood,
            TEMPERING + "labels": self.labels,
            TEMPERING + "round_trips": self.round_trips,
        }


def together(replica: Any, count: int) -> TemperedState:
    """`count` replicas at the position of one."""
    labels = jnp.arange(count, dtype=jnp.int32)
    return TemperedState(
        jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), replica),
        labels,
        jnp.full_like(labels, _NOWHERE).at[-1].set(_AT_PRIOR),
        jnp.zeros_like(labels),
        jnp.zeros((), jnp.int32),
    )


def swap(
    key: Key[Array, ""], t: Float[Array, " temperatures"], state: TemperedState
) -> tuple[TemperedState, MetropolisInfo, Bool[Array, " gaps"]]:
    r"""Exchange neighbours, the even pairs and the odd ones in turn.

    Replicas at t_k and t_(k+1) change places with probability

        min(1, exp((t_k - t_(k+1)) (l_(k+1) - l_k))),

    in which the prior cancels. Alternating, and not choosing at random, makes the way of a replica
    between prior and posterior nearly straight: as temperatures are added, the round trip rate goes
    to a limit instead of to zero (Okabe et al. 2001; Syed et al., JRSS-B 2022). Returns the state,
    what happened for each pair, and which pairs were tried.
    """
    log_likelihoods = state.replicas.log_likelihood
    gaps = jnp.arange(t.size - 1)
    is_tried = gaps % 2 == state.num_exchanges % 2
    log_ratio = (t[:-1] - t[1:]) * (log_likelihoods[1:] - log_likelihoods[:-1])
    is_nonfinite = ~jnp.isfinite(log_likelihoods[1:]) | jnp.isnan(log_ratio)
    log_ratio = jnp.where(is_nonfinite, -jnp.inf, log_ratio)
    threshold = -jax.random.exponential(key, gaps.shape, log_ratio.dtype)
    is_accepted = is_tried & (threshold <= log_ratio)
    # Temperature k gets the replica that stood at k + 1, k - 1 or k.
    no = jnp.zeros(1, bool)
    down, up = jnp.append(is_accepted, no), jnp.append(no, is_accepted)
    order = jnp.arange(t.size) + down - up
    rate = jnp.where(is_tried, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
    exchanged = _travelled(
        state._replace(
            replicas=jax.tree.map(lambda leaf: leaf[order], state.replicas),
            labels=state.labels[order],
            num_exchanges=state.num_exchanges + 1,
        )
    )
    return exchanged, MetropolisInfo(rate, is_accepted, is_nonfinite & is_tried), is_tried


def _travelled(state: TemperedState) -> TemperedState:
    """Note which replicas are at the two ends, and whether this completes a round trip."""
    at_posterior, at_prior = state.labels[0], state.labels[-1]
    last_end = state.last_end
    is_trip = last_end[at_prior] == _AT_POSTERIOR
    arrived = jnp.where(last_end[at_posterior] == _NOWHERE, _NOWHERE, _AT_POSTERIOR)
    last_end = last_end.at[at_posterior].set(arrived).at[at_prior].set(_AT_PRIOR)
    round_trips = state.round_trips.at[at_prior].add(is_trip.astype(state.round_trips.dtype))
    return state._replace(last_end=last_end, round_trips=round_trips)
