"""What all of warm-up counts in: windows of a fixed number of steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# What an adaptation has learnt, as plain arrays.
Memory = dict[str, np.ndarray]

# Steps between two updates; each update pools this many acceptance rates per chain. It is a part
# of what a run is: the draws depend on it, and on nothing else of the chunking.
WINDOW = 20
# Ten updates to come near, and ten from there to average.
MIN_WARMUP = 20 * WINDOW


class Seen(NamedTuple):
    """What a window of warm-up has shown.

    `rates` and `tried` are each move's mean acceptance rate over all chains, and how often a chain
    tried it; `chain_rates` is (chains, moves). `trail` holds positions and gradients of the
    log-likelihood after every step, (chains, steps, z) each, and `log_likelihoods` (chains, steps)
    the log-likelihood itself, where they are asked for.
    """

    rates: np.ndarray
    tried: np.ndarray
    chain_rates: np.ndarray
    positions: Any
    trail: tuple[np.ndarray, np.ndarray] | None
    log_likelihoods: np.ndarray | None = None
