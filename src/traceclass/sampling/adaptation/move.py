"""Warm-up of one move: its step size, and its number of kicks if it has them."""

from __future__ import annotations

from functools import partial

import numpy as np

from traceclass.kernels.base import Kernel, Tuning
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation.step_size import StepSizeAdaptation
from traceclass.sampling.adaptation.trajectory import (
    TrajectoryAdaptation,
    values_and_log_likelihood,
)
from traceclass.sampling.adaptation.windows import WINDOW, Memory, Seen

# Kicks of a trajectory on the way from the prior draw to the posterior, where momentum is of no use
# for long; and the most there are until trials have shown that more of them are worth it.
FEW_KICKS, MANY_KICKS = 10, 200


class MoveAdaptation:
    """One move of a kernel in warm-up: its step size, and its number of kicks if it has them.

    Plain moves average their step size over the second half of warm-up. With kicks the quarters
    are: short trajectories towards the posterior; quarter turns; trials of several lengths; and
    the step size once more at the length that was chosen.
    """

    def __init__(self, move: Kernel, num_warmup: int, posterior: Posterior):
        assert move.tuned_by is not None
        self._rule = move.tuned_by
        self._steps = StepSizeAdaptation(move.tuned_by)
        functional = partial(values_and_log_likelihood, posterior)
        self._turns = TrajectoryAdaptation(functional) if move.tunes_kicks else None
        quarter = num_warmup // WINDOW // 4 * WINDOW
        self._quarters = (quarter, 2 * quarter, 3 * quarter)
        self._in_trial, self._trial_ends = False, 0

    @property
    def first_quarter(self) -> int:
        """Steps after which the chains have reached the data, so that trajectories may grow."""
        return self._quarters[0]

    @property
    def target(self) -> float | None:
        """The acceptance rate aimed at; None at the largest step size, which accepts more."""
        at_limit = self._steps.settled() >= self._rule.largest
        return None if at_limit else self._rule.target

    def window(self, done: int) -> tuple[Tuning, int]:
        """What to run with after `done` steps, and for how many."""
        if self._turns is None:
            return {"step_size": self._steps.step_size}, WINDOW
        first, second, third = self._quarters
        self._in_trial = second <= done < third
        if self._in_trial:
            step_size = self._steps.settled()
            steps = self._turns.next_trial(step_size)
            self._trial_ends = done + steps
            tuning = {"step_size": step_size, "num_kicks": self._turns.kicks(step_size)}
            return tuning, min(steps, third - done)
        step_size = self._steps.step_size
        kicks = self._turns.kicks(step_size)
        if done < second:
            kicks = min(kicks, FEW_KICKS if done < first else MANY_KICKS)
        return {"step_size": step_size, "num_kicks": kicks}, WINDOW

    def update(self, done: int, seen: Seen, number: int) -> None:
        """Learn from the window that ended after `done` steps; `number` is the move's."""
        first, second, third = self._quarters
        if self._turns is not None and self._in_trial:
            if done == self._trial_ends:  # and not cut short by the end of the quarter
                self._turns.learn(seen.positions)
            if done == third:
                self._turns.choose()
                self._steps.restart()
            return
        self._steps.update(seen.rates[number], seen.tried[number])
        if done == (second if self._turns is None else first):
            self._steps.restart()
        if self._turns is not None and done == second:
            self._turns.look(seen.positions)

    is_by_chain, moved_by = False, None

    def go_on_from(self, origins: np.ndarray) -> None:
        """Nothing is learnt for one chain alone."""

    def settled(self) -> Tuning:
        """What to freeze."""
        step_size = self._steps.settled()
        kicks = {} if self._turns is None else {"num_kicks": self._turns.kicks(step_size)}
        return {"step_size": step_size} | kicks

    def memory(self) -> Memory:
        """All it has learnt, between two windows; `remember` takes it back."""
        steps = {f"steps {name}": array for name, array in self._steps.memory().items()}
        if self._turns is None:
            return steps
        return steps | {f"turns {name}": array for name, array in self._turns.memory().items()}

    def remember(self, memory: Memory) -> None:
        self._steps.remember(_part_of(memory, "steps "))
        if self._turns is not None:
            self._turns.remember(_part_of(memory, "turns "))


def _part_of(memory: Memory, prefix: str) -> Memory:
    return {name.removeprefix(prefix): a for name, a in memory.items() if name.startswith(prefix)}
