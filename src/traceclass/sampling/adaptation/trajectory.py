"""How far a trajectory of HMC should go."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from traceclass.posterior import Posterior
from traceclass.sampling.adaptation.windows import Memory
from traceclass.sampling.functionals import few_of

# Lengths of a trajectory that are tried, as shares of a quarter turn.
SHARES = (1.0, 0.5, 0.25)
# Trajectories of the longest in a trial; the shorter ones take as many gradients.
_LONGEST_IN_TRIAL = 2
# A longer trajectory is preferred to one that does better by less than this: its draws are
# further apart, and two trials of the same length differ by as much.
_MARGIN = 0.1
# A trajectory never takes more kicks than this.
MOST_KICKS = 1_000


def quarter_turn(step_size: Any) -> Any:
    """Kicks that make a quarter turn, not a whole number: of a step size, or of several."""
    return 0.5 * math.pi / step_size


class TrajectoryAdaptation:
    r"""Finds how far an HMC trajectory should go, from the autocorrelation it leaves.

    The length of a trajectory is a share of a quarter turn of the rotation, so `num_kicks` is
    (pi/2) share / step size, at most 1,000. Trials of all shares take turns, each of as many
    trajectories as make the same number of gradients. The mean square change over a trial of
    several functionals f_j, the function's values at the data and the log-likelihood, gives the
    autocorrelation rho_j that is left at that cost:

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
        return int(np.clip(round(self.share * quarter_turn(step_size)), 1, MOST_KICKS))

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
    """Means and variances of rows that come in groups, without keeping the rows.

    These are plain sums in double precision, not the recursion of `moments.add_draw`: many rows
    arrive at once, the sums are on disk in stores that must be resumed, and the recursion rounds
    differently, so that another length of trajectory might be chosen.
    """

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


@eqx.filter_jit
def values_and_log_likelihood(posterior: Posterior, positions: Any) -> Any:
    """The function's values at the data and the log-likelihood, for positions (chains, z)."""

    def of_chain(z: Any) -> Any:
        values = posterior.values_of(z)
        return jnp.append(few_of(values), posterior.log_prob(values, z))

    return jax.vmap(of_chain)(positions)
