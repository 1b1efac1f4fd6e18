"""Acceptance rates against the width of the network: the paper's Table 1, and beyond it."""
