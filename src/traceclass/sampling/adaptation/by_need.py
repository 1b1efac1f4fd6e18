"""Warm-up of trajectories by the prior, which looks for a reference if these get too long."""

from __future__ import annotations

import numpy as np

from traceclass.kernels.base import Kernel, Tuning
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation.chainwise import ChainwiseAdaptation, has_room
from traceclass.sampling.adaptation.move import MoveAdaptation
from traceclass.sampling.adaptation.trajectory import MOST_KICKS, quarter_turn
from traceclass.sampling.adaptation.windows import Memory, Seen

# References are fitted in what is left of warm-up, if this is no less: half of it for fits, and the
# rest for step sizes.
_LEAST_LEFT = 240
# In memory: after how many steps a reference was first looked for, and from which step size on.
_BEGAN = "began"


class ByNeedAdaptation:
    """One move, by the prior as long as a quarter turn takes no more than the most kicks there are.

    This is seen from the first quarter of warm-up on, when the chains have reached the data, as
    long as there is time. If it takes more, the data are so loud that the prior says little of the
    posterior's shape, and in the rest of warm-up each chain finds a reference of its own. Other
    posteriors, most of them, pay nothing for it: neither a second compilation, nor the draws that
    are fitted to.
    """

    def __init__(self, move: Kernel, num_warmup: int, posterior: Posterior, num_chains: int):
        self._plain = MoveAdaptation(move, num_warmup, posterior)
        self._made_of = move, num_warmup, posterior, num_chains
        self._began: tuple[int, float] = 0, 0.0
        self._chainwise: ChainwiseAdaptation | None = None

    @staticmethod
    def is_possible(move: Kernel, posterior: Posterior, num_chains: int) -> bool:
        """Whether a reference may be looked for, and there is room to fit it."""
        return move.may_adapt_reference and has_room(posterior, num_chains)

    @property
    def target(self) -> float | None:
        """The acceptance rate aimed at; None at the largest step size, which accepts more."""
        return self._present.target

    @property
    def is_by_chain(self) -> bool:
        """Whether each chain is tuned by itself, as it is if a reference is looked for."""
        return self._chainwise is not None

    @property
    def moved_by(self) -> str | None:
        """The reference that has won, in words; None if none was looked for."""
        return None if self._chainwise is None else self._chainwise.moved_by

    @property
    def _present(self) -> MoveAdaptation | ChainwiseAdaptation:
        return self._plain if self._chainwise is None else self._chainwise

    def window(self, done: int) -> tuple[Tuning, int]:
        """What to run with after `done` steps, and for how many."""
        if self._chainwise is None:
            return self._plain.window(done)
        return self._chainwise.window(done - self._began[0])

    def update(self, done: int, seen: Seen, number: int) -> None:
        """Learn from the window that ended after `done` steps; `number` is the move's."""
        if self._chainwise is not None:
            return self._chainwise.update(done - self._began[0], seen, number)
        self._plain.update(done, seen, number)
        left = self._made_of[1] - done
        step_size = self._plain.settled()["step_size"]
        is_time = done >= self._plain.first_quarter and left >= _LEAST_LEFT
        if is_time and quarter_turn(step_size) > MOST_KICKS:
            self._begin(done, step_size)

    def _begin(self, done: int, step_size: float) -> None:
        """Look for a reference from here on."""
        self._began = done, step_size
        move, num_warmup, posterior, num_chains = self._made_of
        self._chainwise = ChainwiseAdaptation(
            move,
            num_warmup - done,
            posterior,
            num_chains,
            competes=False,
            first_step_size=step_size,
        )

    def go_on_from(self, origins: np.ndarray) -> None:
        """Every chain c goes on from where chain `origins[c]` is, with what that has learnt."""
        if self._chainwise is not None:
            self._chainwise.go_on_from(origins)

    def settled(self) -> Tuning:
        """What to freeze."""
        return self._present.settled()

    def memory(self) -> Memory:
        """All it has learnt, between two windows; `remember` takes it back."""
        if self._chainwise is None:
            return self._plain.memory()
        return self._chainwise.memory() | {_BEGAN: np.array(self._began)}

    def remember(self, memory: Memory) -> None:
        if _BEGAN in memory:
            memory = dict(memory)
            done, step_size = memory.pop(_BEGAN).tolist()
            self._begin(int(done), step_size)
        self._present.remember(memory)
