"""Step sizes by dual averaging, pooled over chains or one for each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import StepSizeRule
from traceclass.sampling.adaptation.windows import WINDOW, Memory

# How weakly dual averaging follows what it sees: on the way to the right size, and to settle there.
# The first is its default. It moves the step size to and fro by a sixth, and because acceptance
# falls faster above the target than it rises below, the average would accept 3 % too much.
_GAMMAS = (0.05, 0.2)


@functools.cache
def _dual_averaging(target: float, gamma: float) -> tuple[Callable[..., Any], ...]:
    """BlackJAX's init, update and final of dual averaging; the update compiled once."""
    # Imported late, as in kernels.metropolis.sampling_algorithm.
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    init, update, final = dual_averaging_adaptation(target, gamma=gamma)
    return init, jax.jit(update), final


def _begun_at(init: Callable[..., Any], step_size: float | np.ndarray) -> Any:
    """Dual averaging that begins at `step_size`, is drawn towards it, and has it as its average.

    BlackJAX draws towards ten times what it is given, and averages from 1.
    """
    state = init(step_size / 10)
    begin = jnp.log(jnp.asarray(step_size, dtype=float))
    return state._replace(log_step_size=begin, log_step_size_avg=begin)


class StepSizeAdaptation:
    """Moves log(step size) until the mean acceptance rate of all chains meets the target.

    BlackJAX's dual averaging, pooled over chains, or number by number for each of `num_chains`.
    `restart` begins again from where it is and with smaller moves, so that the average it ends with
    forgets what was before.
    """

    def __init__(self, rule: StepSizeRule, num_chains: int | None = None):
        assert rule.target is not None
        self._phases = [_dual_averaging(rule.target, gamma) for gamma in _GAMMAS]
        self._phase = 0
        self.largest = rule.largest
        first = rule.first if num_chains is None else np.full(num_chains, rule.first)
        self._state = _begun_at(self._phases[0][0], first)
        self._sum, self._tried = self._nothing, 0.0

    @property
    def _nothing(self) -> Any:
        """A sum of no acceptance rates."""
        shape = np.shape(self._state.log_step_size)
        return np.zeros(shape) if shape else 0.0

    def _limited(self, sizes: Any) -> Any:
        """Step sizes, no larger than there may be: a number, or one for each chain."""
        limited = np.minimum(np.asarray(sizes, dtype=np.float64), self.largest)
        return limited if limited.ndim else float(limited)

    @property
    def step_size(self) -> Any:
        """The step size to try next: a number, or one for each chain."""
        return self._limited(jnp.exp(self._state.log_step_size))

    def update(self, acceptance_rate: Any, tried: float) -> None:
        """Learn from `tried` steps per chain and their mean acceptance rate, or that of each.

        They are pooled until they make a window; fewer tell too little.
        """
        self._sum += acceptance_rate * tried
        self._tried += tried
        if self._tried >= WINDOW:
            _, update, _ = self._phases[self._phase]
            self._state = update(self._state, self._sum / self._tried)
            self._sum, self._tried = self._nothing, 0.0

    def restart(self, *, is_settling: bool = True, at: Any = None) -> None:
        """Begin again, from the step size found so far; if it is not to settle, from the latest.

        `at` are step sizes to begin from instead.
        """
        found = self.settled() if is_settling else self.step_size
        found = found if at is None else at
        self._phase = int(is_settling)
        self._state = _begun_at(self._phases[self._phase][0], found)
        self._sum, self._tried = self._nothing, 0.0

    def go_on_from(self, origins: np.ndarray) -> None:
        """Every chain goes on with what the chain `origins[c]` has learnt; of step sizes apart."""
        self._state = jax.tree.map(lambda a: a[origins] if np.ndim(a) else a, self._state)
        self._sum = self._sum[origins]

    def settled(self) -> Any:
        """The step size to freeze: the weighted average of those tried."""
        _, _, final = self._phases[self._phase]
        return self._limited(final(self._state))

    def memory(self) -> Memory:
        """All it has learnt; `remember` takes it back."""
        dual = {name: np.asarray(value) for name, value in self._state._asdict().items()}
        if np.ndim(self._sum):
            return dual | {"sums": self._sum, "pooled": np.array([0, self._tried, self._phase])}
        return dual | {"pooled": np.array([self._sum, self._tried, self._phase])}

    def remember(self, memory: Memory) -> None:
        self._state = type(self._state)(*(jnp.asarray(memory[n]) for n in self._state._fields))
        pooled, self._tried, phase = memory["pooled"].tolist()
        self._sum = memory["sums"] if np.ndim(self._nothing) else pooled
        self._phase = int(phase)
