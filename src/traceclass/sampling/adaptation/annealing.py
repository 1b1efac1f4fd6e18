"""The way to the posterior from a start where the data are all but impossible."""

from __future__ import annotations

from traceclass.sampling.adaptation.windows import WINDOW


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
