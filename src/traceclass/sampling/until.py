"""Running until the draws are good enough, rather than until there are so many."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping

import numpy as np

from traceclass.errors import UserValueError
from traceclass.validation import require_count, require_positive

# Looks are this much further apart each time: a tenth more draws than needed at most, and the
# cost of looking stays a small share however long the run. Where they fall depends on nothing
# but num_samples, so that a resumed run stops where an uninterrupted one does.
_GROWTH = 1.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Until:
    """When a run may stop: every component of the functionals `of` has reached `ess` and `rhat`.

    `ess` is the least bulk effective sample size, `rhat` the largest rank-normalised split R-hat
    (at least one of them); `of` names recorded functionals (all of them, or the log-likelihood if
    none is recorded). `max_samples` draws a chain or `max_time` seconds of this call end the run in
    any case; `run.stopped_by` says what did. Components that never change are left out.
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
        if self.rhat is not None and not 1 < self.rhat < math.inf:
            raise UserValueError(
                f"rhat must be above 1, its value for perfect chains; got {self.rhat}."
            )
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


def worst_of(draws: np.ndarray) -> tuple[float, float]:
    """The least bulk ESS and the largest R-hat over the components of draws (chains, draws, ...).

    (0, inf) where they are not defined: fewer than four draws, a chain that never moved, NaN.
    """
    from arviz_stats.base.array import array_stats

    flat = np.asarray(draws, dtype=np.float64).reshape(*draws.shape[:2], -1)
    flat = flat[..., np.ptp(flat, axis=(0, 1)) != 0]
    if flat.shape[-1] == 0 or flat.shape[1] < 4 or not np.isfinite(flat).all():
        return 0.0, math.inf
    if (np.ptp(flat, axis=1) == 0).any():
        return 0.0, math.inf
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = [
            (np.asarray(array_stats.ess(x)).item(), np.asarray(array_stats.rhat(x)).item())
            for x in np.moveaxis(flat, -1, 0)
        ]
    ess, rhat = np.array(each).T
    return float(np.nan_to_num(ess, nan=0.0).min()), float(np.nan_to_num(rhat, nan=math.inf).max())
