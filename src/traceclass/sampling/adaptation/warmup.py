"""What a session asks of warm-up: each move adapts by itself, or all temperatures together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from traceclass.kernels.base import Kernel, Tuning
from traceclass.kernels.composition import Composition
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation.by_need import ByNeedAdaptation
from traceclass.sampling.adaptation.chainwise import ChainwiseAdaptation
from traceclass.sampling.adaptation.move import MoveAdaptation
from traceclass.sampling.adaptation.temperatures import TemperedAdaptation
from traceclass.sampling.adaptation.windows import WINDOW, Memory, Seen


class Adaptation(Protocol):
    """Finds the tuning of all moves of a kernel, window by window."""

    @property
    def targets(self) -> Sequence[float | None]:
        """The acceptance rate that each move aims at; None for a move without one."""
        ...

    @property
    def is_by_chain(self) -> bool:
        """Whether each chain is tuned by itself from here on; then the program shows gradients."""
        ...

    @property
    def moved_by(self) -> Sequence[str | None]:
        """By move, the reference that was chosen, in words; None where none was looked for."""
        ...

    def window(self, done: int, tuning: list[Tuning]) -> tuple[list[Tuning], int]:
        """What to run with after `done` steps, and for how many at most."""
        ...

    def update(self, done: int, seen: Seen) -> None:
        """Learn from the window that ended after `done` steps."""
        ...

    def go_on_from(self, origins: np.ndarray) -> None:
        """Every chain c goes on from where chain `origins[c]` is, with what that has learnt."""
        ...

    def settled(self, tuning: list[Tuning]) -> list[Tuning]:
        """What to freeze."""
        ...

    def memory(self) -> Memory:
        """All it has learnt, between two windows; `remember` takes it back."""
        ...

    def remember(self, memory: Memory) -> None:
        """Take back what `memory` gave."""
        ...


OfMove = MoveAdaptation | ByNeedAdaptation | ChainwiseAdaptation


class Separately:
    """Every move that has a step size adapts it by itself; the others keep what they have."""

    def __init__(self, adaptations: Mapping[int, OfMove], num_moves: int):
        self._adaptations = adaptations
        self._num_moves = num_moves

    @property
    def targets(self) -> list[float | None]:
        each = self._adaptations
        return [each[n].target if n in each else None for n in range(self._num_moves)]

    @property
    def is_by_chain(self) -> bool:
        return any(adaptation.is_by_chain for adaptation in self._adaptations.values())

    @property
    def moved_by(self) -> list[str | None]:
        each = self._adaptations
        return [each[n].moved_by if n in each else None for n in range(self._num_moves)]

    def window(self, done: int, tuning: list[Tuning]) -> tuple[list[Tuning], int]:
        tuning, steps = list(tuning), WINDOW
        for number, adaptation in self._adaptations.items():
            tuning[number], longest = adaptation.window(done)
            steps = min(steps, longest)
        return tuning, steps

    def update(self, done: int, seen: Seen) -> None:
        for number, adaptation in self._adaptations.items():
            adaptation.update(done, seen, number)

    def go_on_from(self, origins: np.ndarray) -> None:
        for adaptation in self._adaptations.values():
            adaptation.go_on_from(origins)

    def settled(self, tuning: list[Tuning]) -> list[Tuning]:
        each = self._adaptations
        return [each[n].settled() if n in each else kept for n, kept in enumerate(tuning)]

    def memory(self) -> Memory:
        return {
            f"{number}/{name}": array
            for number, adaptation in self._adaptations.items()
            for name, array in adaptation.memory().items()
        }

    def remember(self, memory: Memory) -> None:
        for number, adaptation in self._adaptations.items():
            prefix = f"{number}/"
            adaptation.remember(
                {n.removeprefix(prefix): a for n, a in memory.items() if n.startswith(prefix)}
            )


def adaptation_of(
    kernel: Kernel,
    num_warmup: int,
    posterior: Posterior,
    num_chains: int,
    *,
    sizes_are_given: bool,
) -> Adaptation:
    """How this kernel is tuned in a warm-up of `num_warmup` steps."""
    if kernel.ladder is not None:
        return TemperedAdaptation(kernel.ladder, num_warmup, sizes_are_given=sizes_are_given)

    is_always_tried = _tries_all(kernel)

    def of_move(move: Kernel) -> OfMove:
        made_of = move, num_warmup, posterior, num_chains
        if move.adapts_reference:
            return ChainwiseAdaptation(*made_of, competes=is_always_tried)
        if is_always_tried and ByNeedAdaptation.is_possible(move, posterior, num_chains):
            return ByNeedAdaptation(*made_of)
        return MoveAdaptation(move, num_warmup, posterior)

    adapted = {
        number: of_move(move)
        for number, move in enumerate(kernel.moves)
        if move.rule is not None and not sizes_are_given
    }
    return Separately(adapted, len(kernel.moves))


def _tries_all(kernel: Kernel) -> bool:
    """Whether a step of the kernel tries all its moves, as that of a mixture does not."""
    parts = kernel.parts if isinstance(kernel, Composition) else ()
    return "weights" not in dict(kernel.options) and all(_tries_all(part) for part in parts)
