"""Warm-up of a move by a reference that is found for each chain, with a step size for each."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Kernel, Tuning
from traceclass.kernels.reference import Reference
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation.fitted_reference import Fitted, fitted
from traceclass.sampling.adaptation.step_size import StepSizeAdaptation
from traceclass.sampling.adaptation.trajectory import (
    TrajectoryAdaptation,
    values_and_log_likelihood,
)
from traceclass.sampling.adaptation.windows import WINDOW, Memory, Seen

# Directions of a reference besides the coordinates themselves. More have not been measured.
RANK = 40
# Draws for the first fit, by how much their number grows from fit to fit, and the most of them. Of
# the draws of a fit, the older ones are left out of the next: they were made on the way.
_FIRST_DRAWS, _GROWTH, _MOST_DRAWS = 60, 1.25, 400
_SHARE_KEPT = 0.6
# Draws and gradients of all chains are kept on the host until the last fit, within this memory.
_MOST_BYTES = 2**28
# References are fitted in this share of warm-up; trials of lengths follow, then the step size.
_SHARE_OF_FITS, _SHARE_OF_TRIALS = 0.6, 0.2
# Kicks of a trajectory: on the way from a prior draw, in the first windows; and the most there are
# while references are fitted, and afterwards.
_FEW_KICKS, _FEW_WINDOWS = 20, 3
_MANY_KICKS, MOST_KICKS = 200, 1_000


class ChainwiseAdaptation:
    """One move with `reference="adapt"`: a reference, a step size and kicks for each chain.

    In the first three fifths of warm-up references are fitted again and again, each to the latest
    draws of its chain, and step sizes follow. Then references stay, and as for other moves (see
    `MoveAdaptation`) a fifth goes to trials of several lengths of trajectory and the last to the
    step sizes.

    Chains have references of their own because they may be in different places that look different:
    a reference pooled over them would suit none.
    """

    def __init__(self, move: Kernel, num_warmup: int, posterior: Posterior, num_chains: int):
        assert move.tuned_by is not None
        self._rule = move.tuned_by
        self._num_chains, z = num_chains, posterior.prior.num_coordinates
        self._steps = StepSizeAdaptation(move.tuned_by, num_chains)
        functional = partial(values_and_log_likelihood, posterior)
        self._turns = TrajectoryAdaptation(functional, MOST_KICKS) if move.tunes_kicks else None
        fits = round(_SHARE_OF_FITS * num_warmup / WINDOW) * WINDOW
        trials = round(_SHARE_OF_TRIALS * num_warmup / WINDOW) * WINDOW if self._turns else 0
        self._fits_end, self._trials_end = fits, fits + trials
        self._in_trial, self._trial_ends = False, 0
        self._rank = min(RANK, z)
        self._reference = _of_prior(num_chains, z, self._rank)
        self._draws = np.zeros((2, num_chains, 0, z), dtype=_dtype())
        fitting = _MOST_BYTES // max(1, 2 * _dtype().itemsize * num_chains * z)
        self._most = max(_FIRST_DRAWS, min(_MOST_DRAWS, fitting))
        self._next_fit = _FIRST_DRAWS

    @property
    def target(self) -> float | None:
        """The acceptance rate aimed at; None if all step sizes are the largest."""
        at_limit = np.all(self._steps.settled() >= self._rule.largest)
        return None if at_limit else self._rule.target

    def window(self, done: int) -> tuple[Tuning, int]:
        """What to run with after `done` steps, and for how many."""
        step_size = self._steps.step_size
        # Moves of a composition may cut windows short, so a window never passes the last fit.
        longest = min(WINDOW, self._fits_end - done) if done < self._fits_end else WINDOW
        if self._turns is None:
            return self._tuning(step_size, None), longest
        self._in_trial = self._fits_end <= done < self._trials_end
        if self._in_trial:
            step_size = self._steps.settled()
            steps = min(self._turns.next_trial(step_size), WINDOW)
            self._trial_ends = done + steps
            tuning = self._tuning(step_size, self._turns.kicks(step_size))
            return tuning, min(steps, self._trials_end - done)
        most = MOST_KICKS
        if done < self._fits_end:
            most = _FEW_KICKS if done < _FEW_WINDOWS * WINDOW else _MANY_KICKS
        kicks = np.minimum(most, self._turns.kicks(step_size))
        return self._tuning(step_size, kicks), longest

    def update(self, done: int, seen: Seen, number: int) -> None:
        """Learn from the window that ended after `done` steps; `number` is the move's."""
        if self._turns is not None and self._in_trial:
            if done == self._trial_ends:  # and not cut short by the end of the trials
                self._turns.learn(seen.positions)
            if done == self._trials_end:
                self._turns.choose()
                self._steps.restart()
            return
        self._steps.update(seen.chain_rates[:, number], float(seen.tried[number]))
        if done <= self._fits_end:
            self._collect(done, seen)
        if done == self._fits_end:
            self._draws = self._draws[:, :, :0]
            self._steps.restart()
            if self._turns is not None:
                self._turns.look(seen.positions)

    def _collect(self, done: int, seen: Seen) -> None:
        """Take in the draws of a window, and fit if there are enough."""
        assert seen.trail is not None
        self._draws = np.concatenate([self._draws, np.stack(seen.trail)], axis=2)
        count = self._draws.shape[2]
        if count < self._next_fit and done < self._fits_end:
            return
        self._reference = self._fitted()
        self._draws = self._draws[:, :, -round(_SHARE_KEPT * count) :]
        self._next_fit = min(self._most, round(_GROWTH * self._next_fit))
        self._steps.restart(is_settling=False)

    def _fitted(self) -> Fitted:
        present = zip(*self._reference, strict=True)
        fits = [
            self._fitted_or(Fitted(*old), x, g)
            for x, g, old in zip(*self._draws, present, strict=True)
        ]
        return Fitted(*(np.stack(part).astype(_dtype()) for part in zip(*fits, strict=True)))

    def _fitted_or(self, old: Fitted, x: np.ndarray, g: np.ndarray) -> Fitted:
        """A fit to the draws of one chain, or the old one if they are of no use for it."""
        is_finite = np.isfinite(x).all(axis=1) & np.isfinite(g).all(axis=1)
        x, g = x[is_finite], g[is_finite]
        if len(x) < _FIRST_DRAWS // 2 or not np.ptp(x, axis=0).any():
            return old
        return fitted(x, g, self._rank)

    def go_on_from(self, origins: np.ndarray) -> None:
        """Every chain goes on with the reference and step size of the chain `origins[c]`."""
        self._reference = Fitted(*(part[origins] for part in self._reference))
        self._draws = self._draws[:, origins]
        self._steps.go_on_from(origins)

    def settled(self) -> Tuning:
        """What to freeze."""
        step_size = self._steps.settled()
        return self._tuning(
            step_size, None if self._turns is None else self._turns.kicks(step_size)
        )

    def _tuning(self, step_size: Any, kicks: Any) -> Tuning:
        mean, scale, vectors, eigenvalues = self._reference
        tuning = {"step_size": step_size, "reference": _stacked(mean, vectors, eigenvalues, scale)}
        return tuning if kicks is None else tuning | {"num_kicks": kicks}

    def memory(self) -> Memory:
        """All it has learnt, between two windows; `remember` takes it back."""
        memory = {f"steps {name}": array for name, array in self._steps.memory().items()}
        if self._turns is not None:
            memory |= {f"turns {name}": array for name, array in self._turns.memory().items()}
        memory |= {f"reference {n}": array for n, array in self._reference._asdict().items()}
        return memory | {"draws": self._draws, "next fit": np.array(self._next_fit)}

    def remember(self, memory: Memory) -> None:
        def part(prefix: str) -> Memory:
            return {n.removeprefix(prefix): a for n, a in memory.items() if n.startswith(prefix)}

        self._steps.remember(part("steps "))
        if self._turns is not None:
            self._turns.remember(part("turns "))
        self._reference = Fitted(**part("reference "))
        self._draws, self._next_fit = memory["draws"], int(memory["next fit"])


def _of_prior(num_chains: int, z: int, rank: int) -> Fitted:
    """The prior itself, as a reference of each chain."""
    zeros = np.zeros((num_chains, z), dtype=_dtype())
    vectors = np.zeros((num_chains, z, rank), dtype=_dtype())
    return Fitted(zeros, zeros + 1, vectors, np.zeros((num_chains, rank), dtype=_dtype()))


def _dtype() -> np.dtype:
    """That of positions: single precision, or double where it is asked for."""
    return np.dtype(jnp.result_type(float))


def _stacked(*arrays: np.ndarray) -> Reference:
    """References of all chains in one, each array with a leading axis; not checked as one is."""
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), arrays)
    like = jax.eval_shape(lambda parts: Reference(*parts), one)
    return jax.tree.unflatten(jax.tree.structure(like), [*arrays])
