"""Which of three states a run is in, in words: converged, slow or separated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

# A chain whose own halves agree within this R-hat has settled where it is; if chains then disagree
# by more, they are in different places.
_AT_HOME = 1.1
# Fewer draws than this per chain say nothing about its halves.
_FEWEST = 16
# Numbers above this are not told: the draws do not determine them.
_HUGE = 1e3


class Verdict(NamedTuple):
    """`state` is "converged", "slow", "separated" or "unknown"; `words` say why and what to do.

    `rhat` is the largest over all that is monitored, and `of` what it belongs to.
    """

    state: str
    words: str
    rhat: float
    of: str


class Worst(NamedTuple):
    """The component (chains, draws) with the largest R-hat, and the quantity it belongs to."""

    name: str
    rhat: float
    draws: np.ndarray


def verdict_of(
    quantities: Mapping[str, np.ndarray],
    largest: float,
    num_samples: int,
    num_starts: int | None = None,
) -> Verdict:
    """The state of a run by the draws (chains, draws, ...) of all that is monitored.

    Converged: no R-hat is above `largest`. Otherwise, by the component with the largest one:
    separated, if the halves of most chains agree by themselves while the chains do not, as they do
    in different modes; slow, if not even the halves agree, so that more draws will do. R-hat^2 - 1
    falls like one over the number of draws, which says how many; `num_samples` is how many there
    are, of which some quantities are looked at more thinly. Where several chains began at each of
    `num_starts` points, R-hat is the nested one.
    """
    worst = _worst(quantities, num_starts)
    kind = "R-hat" if num_starts is None else "nested R-hat"
    if worst is None:
        words = "unknown: the draws are too few, or a chain never moved."
        return Verdict("unknown", words, math.inf, "")
    if worst.rhat <= largest:
        words = f"converged: {kind} is at most {worst.rhat:.3f} ({worst.name})."
        return Verdict("converged", words, worst.rhat, worst.name)
    shown = f"{worst.rhat:.2f}" if worst.rhat < _HUGE else "very large"
    where = f"{kind} is {shown} for {worst.name}"
    if _is_separated(worst.draws):
        words = (
            f"separated: {where}, and each chain by itself stays where it is. These are different "
            "modes, which more draws will not join: use tc.tempered(kernel), or weigh the chains "
            "by how well they predict, run.stack()."
        )
        return Verdict("separated", words, worst.rhat, worst.name)
    factor = (min(worst.rhat, _HUGE) ** 2 - 1) / (largest**2 - 1)
    many = "Many times more draws would be needed: use a longer warm-up or another kernel first."
    if factor < _HUGE:
        wanted = _rounded(factor * num_samples)
        many = f"About {wanted:,} draws per chain instead of {num_samples:,} would do."
    words = f"slow: {where}: the chains have not mixed, and are still on their way. {many}"
    return Verdict("slow", words, worst.rhat, worst.name)


def _worst(quantities: Mapping[str, np.ndarray], num_starts: int | None) -> Worst | None:
    found = None
    for name, draws in quantities.items():
        flat = np.asarray(draws, dtype=np.float64).reshape(*draws.shape[:2], -1)
        for column in np.moveaxis(flat, -1, 0):
            if column.shape[1] < 4 or np.ptp(column) == 0 or not np.isfinite(column).all():
                continue
            rhat = rhat_of(column, num_starts)
            if found is None or not rhat <= found.rhat:
                found = Worst(name, rhat, column)
    return found


def rhat_of(draws: np.ndarray, num_starts: int | None = None) -> float:
    """Rank-normalised split R-hat of draws (chains, draws); infinite where chains stand still.

    With `num_starts`, as many chains, one after another, began at each of so many points, and it is
    the nested R-hat (Margossian et al. 2024): the means of all draws from a start are compared, so
    that a chain need not be long if there are many.
    """
    from arviz_stats.base.array import array_stats

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if num_starts is None:
            rhat = array_stats.rhat(draws)
        else:
            starts = np.repeat(np.arange(num_starts), len(draws) // num_starts)
            rhat = array_stats.rhat_nested(draws, starts)
        rhat = float(np.asarray(rhat))
    return rhat if math.isfinite(rhat) else math.inf


def _is_separated(draws: np.ndarray) -> bool:
    num_chains, num_draws = draws.shape
    if num_chains < 2 or num_draws < _FEWEST:
        return False
    half = num_draws // 2
    # A chain that stands still agrees with itself; R-hat would be infinite.
    own = [
        rhat_of(np.stack([chain[:half], chain[half : 2 * half]])) if np.ptp(chain) else 1.0
        for chain in draws
    ]
    return float(np.median(own)) <= _AT_HOME


def _rounded(number: float) -> int:
    """Two digits are all that is known."""
    digits = max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / 10**digits) * 10**digits
