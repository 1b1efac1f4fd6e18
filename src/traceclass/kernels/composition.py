"""What `cycle` and `mixture` share: several kernels as one, with states that stay consistent."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, Key

from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.base import Kernel, KernelFactory, Tuning, as_kernel
from traceclass.kernels.states import GradientState, MetropolisInfo, State, Target, metropolis_info


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


@dataclasses.dataclass(frozen=True)
class Composition(Kernel):
    """Several kernels as one; `build(parts, **options)` says how. See `cycle` and `mixture`."""

    parts: tuple[Kernel, ...] = ()

    @property
    def name(self) -> str:
        return self.build.__name__.lstrip("_")

    @property
    def moves(self) -> tuple[Kernel, ...]:
        return tuple(move for part in self.parts for move in part.moves)

    @property
    def _reference_option(self) -> tuple[str, ...]:
        """None: its parts may have references of their own."""
        return ()

    def assemble(self, posterior: Target, tuning: Sequence[Tuning]) -> Any:
        built, done = [], 0
        for part in self.parts:
            own = tuning[done : done + len(part.moves)]
            built.append(Part(part.assemble(posterior, own), part.keeps_any_state))
            done += len(own)
        return self.build(tuple(built), **dict(self.options))

    def tuning(self, step_size: Any) -> tuple[Tuning, ...]:
        """A number for the one move that has a step size, or a sequence, one for each that has."""
        takers = [move.name for move in self.moves if move.rule is not None]
        given = list(step_size) if np.ndim(step_size) == 1 else [step_size]
        if takers and len(given) != len(takers):
            raise UserValueError(
                f"{self.name} of {len(takers)} kernels with a step size needs as many, in the "
                f"order {', '.join(takers)}; got {step_size}."
            )
        sizes = iter(given)
        tunings = []
        for move in self.moves:
            tunings.extend(move.tuning(next(sizes) if move.rule is not None else None))
        return tuple(tunings)

    def check_step_size(self, step_size: Any) -> None:
        self.tuning(step_size)


def compose(build: Any, factories: Sequence[KernelFactory], **options: Any) -> Composition:
    """A composition of kernels, or an error that says what is wrong with them."""
    if not factories:
        raise UserValueError(f"{build.__name__.lstrip('_')} needs at least one kernel, got none.")
    parts = tuple(as_kernel(factory) for factory in factories)
    for part in parts:
        if not part.is_composable:
            name = build.__name__.lstrip("_")
            raise UserTypeError(
                f"{part.name} keeps replicas that {name} would lose; put it around: "
                f"tc.{part.name}(tc.{name}(...))."
            )
    return Composition(
        build,
        thin=min(part.thin for part in parts),
        keeps_any_state=all(part.keeps_any_state for part in parts),
        options=tuple(sorted(options.items())),
        parts=parts,
    )


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
