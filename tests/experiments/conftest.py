"""A finished run that the tests of the command line share; they run in one worker."""

from __future__ import annotations

import pytest
from tiny_run import TINY, in_this_process


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run of seed 3 and what it said. Tests that change it make a copy."""
    folder = tmp_path_factory.mktemp("cli")
    answer = in_this_process(
        "run", "mountain-car", "--seed", 3, "--out", "a/run", *TINY, cwd=folder
    )
    assert answer.exit_code == 0, answer.stderr
    return folder / "a" / "run", answer
