"""The smallest mountain-car run that has every file, table and figure, for the command line."""

from __future__ import annotations

SETTINGS = {
    "priors": "kl", "kernels": "pcn", "step_size": 0.2, "num_warmup": 40, "num_samples": 8,
    "max_samples": 8, "thin": 5, "num_chains": 2, "num_kept": 8, "num_episodes": 4, "grid": 5,
    "max_steps": 20, "num_held_out": 4, "reference_grid": 10,
}  # fmt: skip
TINY = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
