"""The smallest mountain-car run that has every file, table and figure, and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from traceclass.cli import app

SETTINGS = {
    "priors": "kl", "kernels": "pcn", "step_size": 0.2, "num_warmup": 40, "num_samples": 8,
    "max_samples": 8, "thin": 5, "num_chains": 2, "num_kept": 8, "num_episodes": 4, "grid": 5,
    "max_steps": 20, "num_held_out": 4, "reference_grid": 10,
}  # fmt: skip
TINY = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]


def in_this_process(*arguments: object, cwd: Path):
    """Where JAX has started, its devices are what they are, and programs stay compiled."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traceclass.use_cpu_devices", lambda: None)
        patched.chdir(cwd)
        return CliRunner().invoke(app, list(map(str, arguments)))
