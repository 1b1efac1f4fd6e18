"""The parts of a composed kernel: how states go from one to the next, and what each part did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, Key

from traceclass.kernels.metropolis import MetropolisInfo, metropolis_info
from traceclass.kernels.states import GradientState, State


class CompositionInfo(NamedTuple):
    """What happened in one step: the mean over the moves tried, and each move by itself."""

    acceptance_rate: Float[Array, ""]
    is_accepted: Bool[Array, ""]
    is_nonfinite: Bool[Array, ""]
    moves: MetropolisInfo
    tried: Bool[Array, " moves"]


class Part(NamedTuple):
    """A kernel of a composition, built."""

    algorithm: Any
    keeps_any_state: bool

    def entered(self, state: Any, key: Key[Array, ""]) -> Any:
        """`state` as this part needs it; what it lacks is computed, what is too much is dropped.

        `key` is for kernels of others that draw something when they begin.
        """
        if self.keeps_any_state and isinstance(state, (State, GradientState)):
            return state
        wanted = type(jax.eval_shape(self.algorithm.init, state.position, key))
        if type(state) is wanted:
            return state
        if wanted is State and hasattr(state, "log_likelihood"):
            return State(state.position, state.log_likelihood)
        return self.algorithm.init(state.position, key)


def entry_key(key: Key[Array, ""]) -> Key[Array, ""]:
    """A key for `Part.entered` beside one that a step uses: steps split theirs, never fold in."""
    return jax.random.fold_in(key, 0xE27)


def leading(parts: tuple[Part, ...]) -> Part:
    """The part whose state the composition carries: the first that asks for one of its own."""
    return next((part for part in parts if not part.keeps_any_state), parts[0])


def moves_of(info: Any) -> tuple[MetropolisInfo, Integer[Array, " moves"] | Bool[Array, " moves"]]:
    """The moves of a step's info, stacked, and which were tried, or how often."""
    if isinstance(info, CompositionInfo):
        return info.moves, info.tried
    moves = jax.tree.map(lambda leaf: jnp.reshape(leaf, (1,)), metropolis_info(info))
    return moves, jnp.ones(1, bool)


def joined(infos: Sequence[tuple[MetropolisInfo, Bool[Array, "..."]]]) -> CompositionInfo:
    """One info of several parts, in order; a move that was not tried counts as nothing."""
    moves = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(moves for moves, _ in infos))
    tried = jnp.concatenate([tried for _, tried in infos])
    rate = jnp.where(tried, moves.acceptance_rate, 0.0)
    moves = MetropolisInfo(rate, moves.is_accepted & tried, moves.is_nonfinite & tried)
    mean = jnp.sum(rate) / jnp.maximum(jnp.sum(tried), 1)
    return CompositionInfo(mean, moves.is_accepted.any(), moves.is_nonfinite.any(), moves, tried)
