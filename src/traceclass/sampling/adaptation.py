"""What warm-up finds: step sizes by dual averaging, and how far a trajectory should go."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Kernel, StepSizeRule, Tuning
from traceclass.posterior import Posterior

# What an adaptation has learnt, as plain arrays.
Memory = dict[str, np.ndarray]

# Steps between two updates; each pools this many acceptance rates a chain. Part of what a run is:
# the draws depend on it, and on nothing else of the chunking.
WINDOW = 20
# Ten updates to come near, and ten from there to average.
MIN_WARMUP = 20 * WINDOW
# Lengths of a trajectory that are tried, as shares of a quarter turn.
SHARES = (1.0, 0.5, 0.25)
# Trajectories of the longest in a trial; the shorter ones take as many gradients.
_LONGEST_IN_TRIAL = 2
# A longer trajectory is preferred to one that does better by less than this: its draws are
# further apart, and two trials of the same length differ by as much.
_MARGIN = 0.1
# On the way from the prior draw to the posterior, where momentum is of no use for long.
FEW_KICKS = 10
# A trajectory in warm-up never takes more than this.
MOST_KICKS = 200


# How weakly dual averaging follows what it sees: on the way to the right size, and to settle there.
# The first is its default. It moves the step size to and fro by a sixth, and because acceptance
# falls faster above the target than it rises below, the average would accept 3 % too much.
_GAMMAS = (0.05, 0.2)


@functools.cache
def _dual_averaging(target: float, gamma: float) -> tuple[Callable, Callable, Callable]:
    """BlackJAX's init, update and final of dual averaging; the update compiled once."""
    # Imported late, as in kernels.base.sampling_algorithm.
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    init, update, final = dual_averaging_adaptation(target, gamma=gamma)
    return init, jax.jit(update), final


def _begun_at(init: Callable, step_size: float) -> Any:
    """Dual averaging that begins at `step_size`, is drawn towards it, and has it as its average.

    BlackJAX draws towards ten times what it is given, and averages from 1.
    """
    state = init(step_size / 10)
    begin = jnp.log(jnp.asarray(step_size, dtype=float))
    return state._replace(log_step_size=begin, log_step_size_avg=begin)


class StepSizeAdaptation:
    """Moves log(step size) until the mean acceptance rate of all chains meets the target.

    BlackJAX's dual averaging, pooled over chains. `restart` begins again from where it is and with
    smaller moves, so that the average it ends with forgets what was before.
    """

    def __init__(self, rule: StepSizeRule):
        assert rule.target is not None
        self._phases = [_dual_averaging(rule.target, gamma) for gamma in _GAMMAS]
        self._phase = 0
        self._largest = rule.largest
        self._state = _begun_at(self._phases[0][0], rule.first)
        self._sum, self._tried = 0.0, 0.0

    @property
    def step_size(self) -> float:
        """The step size to try next."""
        return min(float(jnp.exp(self._state.log_step_size)), self._largest)

    def update(self, acceptance_rate: float, tried: float) -> None:
        """Learn from some steps: their mean acceptance rate, and how many a chain there were.

        They are pooled until they make a window; fewer tell too little.
        """
        self._sum += acceptance_rate * tried
        self._tried += tried
        if self._tried >= WINDOW:
            _, update, _ = self._phases[self._phase]
            self._state = update(self._state, self._sum / self._tried)
            self._sum, self._tried = 0.0, 0.0

    def restart(self) -> None:
        found, self._phase = self.settled(), 1
        self._state = _begun_at(self._phases[1][0], found)
        self._sum, self._tried = 0.0, 0.0

    def settled(self) -> float:
        """The step size to freeze: the weighted average of those tried."""
        _, _, final = self._phases[self._phase]
        return min(float(final(self._state)), self._largest)

    def memory(self) -> Memory:
        """All it has learnt; `remember` takes it back."""
        dual = {name: np.asarray(value) for name, value in self._state._asdict().items()}
        return dual | {"pooled": np.array([self._sum, self._tried, self._phase])}

    def remember(self, memory: Memory) -> None:
        self._state = type(self._state)(*(jnp.asarray(memory[n]) for n in self._state._fields))
        self._sum, self._tried, phase = memory["pooled"].tolist()
        self._phase = int(phase)


class TrajectoryAdaptation:
    r"""Finds how far an HMC trajectory should go, from the autocorrelation it leaves.

    The length of a trajectory is a share of a quarter turn of the rotation, so `num_kicks` is
    (pi/2) share / step size. Trials of all shares take turns, each of as many trajectories as make
    the same number of gradients, and the mean square change of several functionals f_j over a
    trial (the function's values at the data, and the log-likelihood) gives the autocorrelation
    left at that cost:

        1 - rho_j = E (f_j' - f_j)^2 / (2 Var f_j)

    A share is judged by the tenth percentile of 1 - rho_j over j: slow functionals decide. Values
    above 1 count as 1, so that no share wins by an oscillation. One step alone would mislead:
    short trajectories forget the fast part of f_j soon and the slow part never.
    """

    def __init__(self, functional: Callable[[Any], Any]):
        self._functional = functional
        self._before = np.zeros(0)
        self._seen = _Sums(1)
        self._jumps = _Sums(len(SHARES))
        self._num_trials = 0
        self.share = SHARES[0]

    def kicks(self, step_size: float) -> int:
        """The number of kicks that makes the present share at this step size."""
        return int(np.clip(round(0.5 * math.pi * self.share / step_size), 1, MOST_KICKS))

    def next_trial(self, step_size: float) -> int:
        """Take up the next share, and say how many trajectories its trial is made of."""
        self.share = SHARES[0]
        longest = self.kicks(step_size)
        self.share = SHARES[self._num_trials % len(SHARES)]
        return round(_LONGEST_IN_TRIAL * longest / self.kicks(step_size))

    def look(self, positions: Any) -> None:
        """See where the chains are before the first trial."""
        self._before = np.asarray(self._functional(positions), dtype=np.float64)

    def learn(self, positions: Any) -> None:
        """See where the chains are after a trial."""
        before = self._before
        self.look(positions)
        self._jumps.add(SHARES.index(self.share), (self._before - before) ** 2)
        self._seen.add(0, self._before)
        self._num_trials += 1

    def choose(self) -> None:
        """Settle on a share: the longest of those that do about as well as the best."""
        scores = self._scores()
        best = max(scores.values(), default=0.0)
        self.share = next((s for s in SHARES if scores.get(s, 0.0) >= (1 - _MARGIN) * best), 1.0)

    def memory(self) -> Memory:
        """All it has learnt; `remember` takes it back."""
        counts = np.array([SHARES.index(self.share), self._num_trials])
        seen, jumps = self._seen.memory("seen"), self._jumps.memory("jumps")
        return {"before": self._before, "counts": counts, **seen, **jumps}

    def remember(self, memory: Memory) -> None:
        self._before = memory["before"]
        share, self._num_trials = memory["counts"].tolist()
        self.share = SHARES[share]
        self._seen.remember(memory, "seen")
        self._jumps.remember(memory, "jumps")

    def _scores(self) -> dict[float, float]:
        variance = self._seen.variance(0)
        telling = np.isfinite(variance) & (variance > 0)
        scores = {}
        for number, share in enumerate(SHARES):
            if self._jumps.count[number] and telling.any():
                moved = self._jumps.mean(number)[telling] / (2 * variance[telling])
                scores[share] = float(np.quantile(np.minimum(moved, 1.0), 0.1))
        return scores


class _Sums:
    """Means and variances of rows that come in groups, without keeping the rows."""

    def __init__(self, num_groups: int):
        self.count = np.zeros(num_groups)
        self._sums = np.zeros((num_groups, 2, 0))
        self._origin = np.zeros(0)

    def add(self, group: int, rows: np.ndarray) -> None:
        if self._sums.size == 0:
            # Relative to the first row, so that a large mean takes no digits from the variance.
            self._sums = np.zeros((*self._sums.shape[:2], rows.shape[1]))
            self._origin = rows[0]
        self.count[group] += len(rows)
        relative = rows - self._origin
        self._sums[group] += np.stack([relative.sum(axis=0), (relative**2).sum(axis=0)])

    def mean(self, group: int) -> np.ndarray:
        return self._origin + self._sums[group, 0] / self.count[group]

    def variance(self, group: int) -> np.ndarray:
        first, second = self._sums[group] / max(self.count[group], 1)
        return second - first**2

    def memory(self, name: str) -> Memory:
        return {
            f"{name} count": self.count,
            f"{name} sums": self._sums,
            f"{name} origin": self._origin,
        }

    def remember(self, memory: Memory, name: str) -> None:
        self.count = memory[f"{name} count"]
        self._sums = memory[f"{name} sums"]
        self._origin = memory[f"{name} origin"]


class Annealing:
    r"""The way to the posterior from a start where the data are all but impossible.

    A prior draw may have a log-likelihood of -10^8, where a step must be tiny to be accepted and
    single precision does not tell two neighbours apart. In the first quarter of warm-up the
    likelihood is therefore raised to a power t, which grows geometrically from
    -1000 / (the worst chain's log-likelihood) to 1, stage by stage. Starts above -10,000 need
    none of this.
    """

    def __init__(self, worst: float, num_warmup: int):
        self.worst = worst
        self._first = min(1.0, -1e3 / worst) if worst < -1e4 else 1.0
        # The quarter's last windows are left for the step size at t = 1.
        self._stages = max(1, num_warmup // WINDOW // 4 - 2)

    def inverse_temperature(self, done: int) -> float:
        """The power t after `done` steps."""
        left = max(0.0, 1 - done // WINDOW / self._stages)
        return self._first**left


# Values of the function at this many of the data's points are enough to see it move.
_MOST_POINTS = 200


@eqx.filter_jit
def values_and_level(posterior: Posterior, positions: Any) -> Any:
    """The function's values at the data and the log-likelihood, for positions (chains, z)."""

    def of_chain(z: Any) -> Any:
        values = posterior.values_of(z)
        few = jnp.ravel(values)[:: max(1, values.size // _MOST_POINTS)]
        return jnp.append(few, posterior.log_prob(values, z))

    return jax.vmap(of_chain)(positions)


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
        functional = partial(values_and_level, posterior)
        self._turns = TrajectoryAdaptation(functional) if move.tunes_kicks else None
        quarter = num_warmup // WINDOW // 4 * WINDOW
        self._quarters = (quarter, 2 * quarter, 3 * quarter)
        self._in_trial, self._trial_ends = False, 0

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
        most = FEW_KICKS if done < first else MOST_KICKS
        kicks = min(most, self._turns.kicks(step_size))
        return {"step_size": step_size, "num_kicks": kicks}, WINDOW

    def update(self, done: int, acceptance_rate: float, tried: float, positions: Any) -> None:
        """Learn from the window that ended after `done` steps."""
        first, second, third = self._quarters
        if self._turns is not None and self._in_trial:
            if done == self._trial_ends:  # and not cut short by the end of the quarter
                self._turns.learn(positions)
            if done == third:
                self._turns.choose()
                self._steps.restart()
            return
        self._steps.update(acceptance_rate, tried)
        if done == (second if self._turns is None else first):
            self._steps.restart()
        if self._turns is not None and done == second:
            self._turns.look(positions)

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
