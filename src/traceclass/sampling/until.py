"""Running until the draws are good enough, rather than to a fixed number of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from traceclass.errors import UserTypeError, UserValueError
from traceclass.sampling.diagnostics import worst_of
from traceclass.validation import require_count, require_number, require_positive, shortened

# The number of draws grows by this factor from one look to the next: at most a tenth more draws
# than needed are made, and the cost of looking stays a small share however long the run. Where the
# looks fall depends on nothing but num_samples, so that a resumed run stops where an uninterrupted
# one does.
_GROWTH = 1.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Until:
    """When a run may stop: every component of the functionals `of` has reached `ess` and `rhat`.

    Components that never change are left out. `run.stopped_by` says what ended the run.

    Parameters
    ----------
    ess : float, optional
        The least bulk effective sample size. At least one of `ess` and `rhat` must be given.
    rhat : float, optional
        The largest rank-normalised split R-hat, above 1.
    of : tuple of str
        Names of recorded functionals. Empty: all of them, or the log-likelihood if none is
        recorded.
    max_samples : int
        Draws per chain that end the run in any case.
    max_time : float, optional
        Seconds of this call that end the run in any case.
    """

    ess: float | None = None
    rhat: float | None = None
    of: tuple[str, ...] = ()
    max_samples: int = 100_000
    max_time: float | None = None

    def __post_init__(self):
        if self.ess is None and self.rhat is None:
            raise UserValueError("until needs ess or rhat: what the run should reach.")
        if self.ess is not None:
            require_positive(self.ess, "ess", "It is an effective sample size.")
        if self.rhat is not None and not 1 < require_number(self.rhat, "rhat") < math.inf:
            raise UserValueError(
                f"rhat must be above 1, its value for perfect chains; got {shortened(self.rhat)}."
            )
        is_names = isinstance(self.of, (tuple, list)) and all(isinstance(n, str) for n in self.of)
        if not is_names:
            raise UserTypeError(f"of must be a tuple of names, got {shortened(self.of)}.")
        require_count(self.max_samples, "max_samples", "It is a number of draws.")
        if self.max_time is not None:
            require_positive(self.max_time, "max_time", "It is a number of seconds.")

    def next_goal(self, goal: int) -> int:
        """The number of draws to look at after `goal`."""
        return min(self.max_samples, math.ceil(goal * _GROWTH))

    def is_reached(self, draws: Mapping[str, np.ndarray]) -> bool:
        """Whether the draws (chains, draws, ...) of all functionals are good enough."""
        names = self.of or [name for name in draws if name != "log_likelihood"]
        for name in names or ["log_likelihood"]:
            ess, rhat = worst_of(draws[name])
            if self.ess is not None and not ess >= self.ess:
                return False
            if self.rhat is not None and not rhat <= self.rhat:
                return False
        return True
