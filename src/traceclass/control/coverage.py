r"""How well demonstrations cover the states that a policy will meet."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist


def coverage(states: Any, actions: Any, others: Any, low: Any, high: Any) -> dict[str, float]:
    r"""Numbers about demonstrated `states` (n, d) and `actions` (n,) beside `others` (m, d) met.

    In coordinates scaled to [-1, 1]^d by the box from `low` to `high`:

    - `dimensions`: (sum l)^2 / sum l^2 of the eigenvalues l of the covariance, the number of
      directions in which the demonstrations spread;
    - `gap`: the median distance of the other states to the nearest demonstrated one, and
      `relative_gap`, that divided by the median distance between two of the others: near 0 they
      were seen, near 1 the demonstrations say nothing of where they lie;
    - `num_actions` seen, and `even_actions`, exp of the entropy of their shares: as many actions,
      all as frequent, would be as uncertain.
    """
    scaled, elsewhere = (_scaled(x, low, high) for x in (states, others))
    spread = np.linalg.eigvalsh(np.cov(scaled.T))
    gap = float(np.median(cdist(elsewhere, scaled).min(axis=1)))
    # Pairs at random: neighbours in a list of episodes are alike.
    partners = np.random.default_rng(0).permutation(elsewhere)
    usual = float(np.median(np.linalg.norm(elsewhere - partners, axis=1)))
    shares = np.unique(np.asarray(actions), return_counts=True)[1] / len(scaled)
    return {
        "dimensions": float(spread.sum() ** 2 / (spread**2).sum()),
        "gap": gap,
        "relative_gap": gap / usual,
        "num_actions": len(shares),
        "even_actions": float(np.exp(-np.sum(shares * np.log(shares)))),
    }


def _scaled(states: Any, low: Any, high: Any) -> np.ndarray:
    low, high = np.asarray(low), np.asarray(high)
    return 2 * (np.asarray(states, np.float64) - low) / (high - low) - 1
