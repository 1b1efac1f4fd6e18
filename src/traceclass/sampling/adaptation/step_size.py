"""Step sizes by dual averaging, pooled over chains."""

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


def _begun_at(init: Callable[..., Any], step_size: float) -> Any:
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
        """Learn from `tried` steps per chain and their mean acceptance rate.

        They are pooled until they make a window; fewer tell too little.
        """
        self._sum += acceptance_rate * tried
        self._tried += tried
        if self._tried >= WINDOW:
            _, update, _ = self._phases[self._phase]
            self._state = update(self._state, self._sum / self._tried)
            self._sum, self._tried = 0.0, 0.0

    def restart(self) -> None:
        """Begin again from the step size found so far."""
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
