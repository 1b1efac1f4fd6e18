"""A long run does not grow, and committing it costs little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_memory_is_flat_and_commits_are_cheap():
    """20,601 coordinates, from draw 1,000 to draw 100,000: 5 % of memory, 5 % of the time."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.store"], cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    measured = json.loads(answer.stdout)
    assert measured["draws"] == 100_000
    assert measured["largest_memory_after"] < 1.05 * measured["memory_at_1000_draws"]
    assert measured["share_of_time_committing"] < 0.05
