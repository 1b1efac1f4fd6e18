"""What all of warm-up counts in: windows of a fixed number of steps."""

from __future__ import annotations

import numpy as np

# What an adaptation has learnt, as plain arrays.
Memory = dict[str, np.ndarray]

# Steps between two updates; each update pools this many acceptance rates per chain. It is a part
# of what a run is: the draws depend on it, and on nothing else of the chunking.
WINDOW = 20
# Ten updates to come near, and ten from there to average.
MIN_WARMUP = 20 * WINDOW
