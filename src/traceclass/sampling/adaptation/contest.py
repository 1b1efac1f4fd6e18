"""Which of several ways to move forgets soonest where it came from, for its gradients."""

from __future__ import annotations

import numpy as np

from traceclass.sampling.adaptation.windows import Memory

# A way to move is judged by how long slow functionals take to forget this share of where they were.
# Less, and a trajectory that shuffles one mode would beat one that travels between several.
_FORGOTTEN = 0.8
# Slow functionals are those at this quantile. A single one, the slowest, would be judged by chance.
_SLOW = 0.1


class Contest:
    r"""Trials of several ways to move, each seen by functionals f_j after every step.

    After k steps a chain has forgotten

        d_j(k) = E (f_j(t + k) - f_j(t))^2 / (2 Var f_j)

    of f_j. The variance is over all chains and all trials, so that chains which hurry about in
    different places do not pass for ones that mix. The cost of a way to move is the number of
    gradients until the tenth percentile of d_j over j is 0.8, from there on where the trial ends
    before by an exponential through its end. Values above 1 count as 1: an oscillation is worth no
    more than independent draws.
    """

    def __init__(self) -> None:
        self._values: dict[int, np.ndarray] = {}
        self._kicks: dict[int, float] = {}

    def add(self, way: int, kicks: float, values: np.ndarray) -> None:
        """Take in values (chains, steps, functionals) of a trial, or of its next steps."""
        seen = [self._values[way]] if way in self._values else []
        self._values[way] = np.concatenate([*seen, values], axis=1)
        self._kicks[way] = kicks

    def costs(self) -> dict[int, float]:
        """Gradients until the slow functionals have forgotten, by way."""
        variance = self._variance()
        is_telling = np.isfinite(variance) & (variance > 0)
        if not is_telling.any():
            return {}
        variance = variance[is_telling]
        curves = {w: _forgotten(v[..., is_telling], variance) for w, v in self._values.items()}
        return {way: self._kicks[way] * _steps_to_forget(curve) for way, curve in curves.items()}

    def _variance(self) -> np.ndarray:
        """Of each functional, over chains, steps and trials of equal weight."""
        trials = [v.reshape(-1, v.shape[-1]).astype(np.float64) for v in self._values.values()]
        if not trials:
            return np.zeros(0)
        mean = np.mean([trial.mean(axis=0) for trial in trials], axis=0)
        return np.mean([((trial - mean) ** 2).mean(axis=0) for trial in trials], axis=0)

    def go_on_from(self, origins: np.ndarray) -> None:
        """Every chain goes on from where chain `origins[c]` is, which is no move of its own."""
        self._values = {way: values[origins] for way, values in self._values.items()}

    def memory(self) -> Memory:
        """All it has learnt; `remember` takes it back."""
        kicks = np.array([*self._kicks.items()], dtype=np.float64).reshape(-1, 2)
        return {"kicks": kicks} | {f"values {way}": v for way, v in self._values.items()}

    def remember(self, memory: Memory) -> None:
        self._kicks = {int(way): float(kicks) for way, kicks in memory["kicks"]}
        self._values = {way: memory[f"values {way}"] for way in self._kicks}


def _forgotten(values: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The slow quantile of d_j(k), for k = 1, 2, ... up to half of the steps."""
    values = values.astype(np.float64)
    longest = max(1, values.shape[1] // 2)
    changes = (
        np.square(values[:, lag:] - values[:, :-lag]).mean(axis=(0, 1))
        for lag in range(1, longest + 1)
    )
    moved = [np.minimum(change / (2 * variance), 1.0) for change in changes]
    return np.array([np.quantile(each, _SLOW) for each in moved])


def _steps_to_forget(forgotten: np.ndarray) -> float:
    """The k at which it reaches the share, between steps by a line, beyond the last by decay."""
    reached = np.flatnonzero(forgotten >= _FORGOTTEN)
    if not reached.size:
        left = 1 - max(float(forgotten[-1]), np.finfo(float).tiny)
        decay = -np.log(left)
        return len(forgotten) * float(np.log(1 / (1 - _FORGOTTEN)) / max(decay, 1e-12))
    k = int(reached[0])
    before = float(forgotten[k - 1]) if k else 0.0
    return k + (_FORGOTTEN - before) / (float(forgotten[k]) - before)
