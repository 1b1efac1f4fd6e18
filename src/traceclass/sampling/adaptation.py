"""Step size found in warm-up: BlackJAX's dual averaging, pooled over chains."""

from __future__ import annotations

import jax

from traceclass.kernels.base import Kernel

# Steps between two updates; each pools this many acceptance rates a chain. Part of what a run is:
# the draws depend on it, and on nothing else of the chunking.
WINDOW = 20
# Ten updates to come near, and ten from there to average.
MIN_WARMUP = 20 * WINDOW


class StepSizeAdaptation:
    """Moves log(step size) until the mean acceptance rate of all chains meets the target.

    Half-way through warm-up it starts again from where it is, so that the average it ends with
    forgets the chains' way from the prior, on which other step sizes are accepted.
    """

    def __init__(self, kernel: Kernel, num_warmup: int):
        # Imported late, as in kernels.base.sampling_algorithm.
        from blackjax.adaptation.step_size import dual_averaging_adaptation

        init, update, final = dual_averaging_adaptation(kernel.target_acceptance)
        self.target = kernel.target_acceptance
        self._largest = kernel.largest_step_size
        # BlackJAX draws the step size towards ten times what it starts from: start at a tenth.
        self._init = lambda step_size: init(step_size / 10)
        self._state = self._init(kernel.first_step_size)
        self._restart = num_warmup // WINDOW // 2
        self._num_updates = 0
        self._update = jax.jit(update)
        self._final = final

    @property
    def step_size(self) -> float:
        """The step size to try next."""
        return self._bounded(self._state.log_step_size)

    def update(self, acceptance_rate: float) -> None:
        """Learn from the mean acceptance rate of one window."""
        self._state = self._update(self._state, acceptance_rate)
        self._num_updates += 1
        if self._num_updates == self._restart:
            self._state = self._init(self.settled())

    def settled(self) -> float:
        """The step size to freeze: the weighted average of those tried."""
        return min(float(self._final(self._state)), self._largest)

    def _bounded(self, log_step_size: jax.Array) -> float:
        return min(float(jax.numpy.exp(log_step_size)), self._largest)
