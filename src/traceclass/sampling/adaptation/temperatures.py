"""What warm-up finds for a tempered kernel: its schedule, and one step size per temperature."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from traceclass.kernels.base import Ladder, Tuning
from traceclass.kernels.tempered import kicks_of, largest_step_size
from traceclass.sampling.adaptation.windows import WINDOW, Memory, Seen

# Windows before the first new schedule, and how much longer the warm-up has become at each further
# one: early schedules come from chains that have not arrived, and each is estimated from the
# windows after the last.
_FIRST_ROUND, _GROWTH = 2, 1.5
# The share of warm-up in which the schedule moves; in the rest step sizes settle for it.
_SHARE_OF_ROUNDS = 0.7
# log(step size) moves by at most the gain, divided by (number of updates since the last
# schedule)^0.6: a Robbins-Monro sequence.
_GAIN, _DECAY = 1.0, 0.6
# Steps of a chain that make an update; fewer tell too little.
_STEPS_PER_UPDATE = WINDOW / 2
# A pair that is never refused still keeps some distance, and the hottest t some from zero: where
# prior draws make the data impossible, no t brings it nearer.
_LEAST_REJECTION, _LEAST_T = 1e-3, 1e-20


def equalised(t: np.ndarray, rejections: np.ndarray) -> np.ndarray:
    r"""Inverse temperatures between which replicas are refused equally often.

    `t` falls from 1 to 0 and r_k = `rejections` of the pairs (t_k, t_(k+1)). The refusals add up to
    the communication barrier, Lambda(t_k) = sum_{j >= k} r_j, which does not depend on where the
    intermediate t stand (Syed et al. 2022); so new ones are where Lambda takes equally spaced
    values. Between the old ones log(t + c) is interpolated as a monotone function of Lambda, with c
    the hottest t above zero: geometric above c, linear below.
    """
    upward, refused = t[::-1], np.maximum(rejections[::-1], _LEAST_REJECTION)
    barrier = np.concatenate([[0.0], np.cumsum(refused)])
    c = upward[1]
    wanted = np.linspace(0.0, barrier[-1], t.size)
    found = np.exp(PchipInterpolator(barrier, np.log(upward + c))(wanted)) - c
    found = np.maximum(found, _LEAST_T * np.arange(t.size))
    found[0], found[-1] = 0.0, 1.0
    return found[::-1]


class TemperedAdaptation:
    """Finds the schedule and the numbers of kicks in rounds, and all step sizes between them.

    Step sizes follow the temperatures when these move: log(step size) as a function of log(t).
    """

    def __init__(self, ladder: Ladder, num_warmup: int, *, sizes_are_given: bool):
        moves = ladder.kernel.moves
        self._num_moves = len(moves)
        self._sized = [n for n, m in enumerate(moves) if m.rule is not None and not sizes_are_given]
        rules = [moves[n].tuned_by for n in self._sized]
        self._aims = np.array([rule.target for rule in rules if rule is not None], dtype=float)
        self._moves = [moves[n] for n in self._sized]
        self._t = np.array(ladder.first_schedule)
        first = np.log([rule.first for rule in rules if rule is not None])
        gaps = len(ladder.first_schedule) - 1
        self._log_sizes = np.tile(first, (gaps, 1))
        self._set_kicks()
        self._is_moving = not ladder.is_fixed
        self._ends = _round_ends(num_warmup)
        self._settles_after = int(_SHARE_OF_ROUNDS * num_warmup)
        self._num_since = np.zeros_like(self._log_sizes)
        self._accepted, self._made = np.zeros_like(self._log_sizes), np.zeros_like(self._log_sizes)
        self._averaged = np.zeros_like(self._log_sizes)
        self._num_averaged = 0
        # Refusals and trials of each pair since the last schedule.
        self._refused, self._tried = np.zeros(gaps), np.zeros(gaps)

    is_by_chain = False

    @property
    def moved_by(self) -> list[str | None]:
        return []

    @property
    def targets(self) -> list[float | None]:
        """None where the step size ended at its largest."""
        at_limit = self._final() >= self._largest - 1e-6
        each: list[float | None] = [None] * self._num_moves
        targets = []
        for is_largest in at_limit:
            at_temperature = list(each)
            for column, number in enumerate(self._sized):
                aim = float(self._aims[column])
                at_temperature[number] = None if is_largest[column] else aim
            targets.extend(at_temperature)
        return [*targets, *[None] * len(at_limit)]

    def window(self, done: int, tuning: list[Tuning]) -> tuple[list[Tuning], int]:
        del done
        return self._tuning(self._log_sizes, tuning), WINDOW

    def update(self, done: int, seen: Seen) -> None:
        rates, tried, gaps = seen.rates, seen.tried, len(self._log_sizes)
        of_moves, num_moves = (
            part[: gaps * self._num_moves].reshape(gaps, self._num_moves)[:, self._sized]
            for part in (rates, tried)
        )
        self._accepted += of_moves * num_moves
        self._made += num_moves
        self._update_sizes(is_settling=done > self._settles_after)
        if done > self._settles_after:
            self._averaged += self._log_sizes
            self._num_averaged += 1
        of_swaps, num_swaps = rates[gaps * self._num_moves :], tried[gaps * self._num_moves :]
        self._refused += (1 - of_swaps) * num_swaps
        self._tried += num_swaps
        if done in self._ends:
            self._next_round()

    def _update_sizes(self, *, is_settling: bool) -> None:
        """Step sizes of the moves that were made often enough since their last update.

        On the way the error counts in shares of the largest there can be on its side, so that a
        step grows as fast as it shrinks; to settle it counts as it is, without bias.
        """
        is_ready = self._made >= _STEPS_PER_UPDATE
        error = self._accepted / np.maximum(self._made, 1) - self._aims
        if not is_settling:
            error /= np.where(error > 0, 1 - self._aims, self._aims)
        self._num_since += is_ready
        gain = _GAIN / np.maximum(self._num_since, 1) ** _DECAY
        moved = np.minimum(self._log_sizes + gain * error, self._largest)
        self._log_sizes = np.where(is_ready, moved, self._log_sizes)
        self._accepted = np.where(is_ready, 0.0, self._accepted)
        self._made = np.where(is_ready, 0.0, self._made)

    def _set_kicks(self) -> None:
        """Trajectories for the step sizes found so far, and the largest that these allow."""
        self._kicks = [
            kicks_of(size) if move.tunes_kicks else dict(move.options).get("num_kicks", 1)
            for move, size in zip(self._moves, np.exp(self._log_sizes[0]), strict=True)
        ]
        pairs = zip(self._moves, self._kicks, strict=True)
        self._largest = np.log([largest_step_size(move, kicks) for move, kicks in pairs])
        self._log_sizes = np.minimum(self._log_sizes, self._largest)

    def _next_round(self) -> None:
        self._num_since = np.zeros_like(self._num_since)
        if self._is_moving:
            self._move_schedule()
        self._set_kicks()

    def _move_schedule(self) -> None:
        old = np.log(self._t[:-1])
        self._t = equalised(self._t, self._refused / np.maximum(self._tried, 1e-9))
        new = np.log(self._t[:-1])
        # np.interp wants rising knots; ours fall.
        columns = [np.interp(-new, -old, column) for column in self._log_sizes.T]
        self._log_sizes = np.stack(columns, axis=1) if columns else self._log_sizes
        self._refused, self._tried = np.zeros_like(self._refused), np.zeros_like(self._tried)

    def go_on_from(self, origins: np.ndarray) -> None:
        """Nothing is learnt for one chain alone."""

    def settled(self, tuning: list[Tuning]) -> list[Tuning]:
        return self._tuning(self._final(), tuning)

    def _final(self) -> np.ndarray:
        return self._averaged / self._num_averaged if self._num_averaged else self._log_sizes

    def _tuning(self, log_sizes: np.ndarray, tuning: list[Tuning]) -> list[Tuning]:
        gaps = len(log_sizes)
        tuned = [dict(of_move) for of_move in tuning]
        for temperature, row in enumerate(np.exp(log_sizes)):
            for column, number in enumerate(self._sized):
                of_move = tuned[temperature * self._num_moves + number]
                of_move["step_size"] = float(row[column])
                if "num_kicks" in of_move:
                    of_move["num_kicks"] = self._kicks[column]
        for gap, hotter in enumerate(self._t[1:].tolist()):
            tuned[gaps * self._num_moves + gap]["inverse_temperature"] = hotter
        return tuned

    def memory(self) -> Memory:
        """All it has learnt; `remember` takes it back."""
        return {
            "schedule": self._t,
            "log sizes": self._log_sizes,
            "averaged": self._averaged,
            "num averaged": np.array(self._num_averaged),
            "moves": np.stack([self._num_since, self._accepted, self._made]),
            "swaps": np.stack([self._refused, self._tried]),
            "kicks": np.array(self._kicks),
            "largest": self._largest,
        }

    def remember(self, memory: Memory) -> None:
        self._t, self._log_sizes = memory["schedule"], memory["log sizes"]
        self._averaged = memory["averaged"]
        self._num_averaged = int(memory["num averaged"])
        self._num_since, self._accepted, self._made = memory["moves"]
        self._refused, self._tried = memory["swaps"]
        self._kicks, self._largest = memory["kicks"].tolist(), memory["largest"]


def _round_ends(num_warmup: int) -> set[int]:
    """Steps after which there is a new schedule."""
    ends, length, end = set(), float(_FIRST_ROUND), 0.0
    while (end + length) * WINDOW <= _SHARE_OF_ROUNDS * num_warmup:
        end += length
        ends.add(round(end) * WINDOW)
        length = max(_FIRST_ROUND, (_GROWTH - 1) * end)
    return ends
