"""A finished run that the tests of the command line share; they run in one worker."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from tiny_run import TINY, in_this_process

# The PNG of one white pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a494441"
    "54789c63f80f0001010100b138f6140000000049454e44ae426082"
)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run of seed 3 and what it said. Tests that change it make a copy."""
    folder = tmp_path_factory.mktemp("cli")
    answer = in_this_process(
        "run", "mountain-car", "--seed", 3, "--out", "a/run", *TINY, cwd=folder
    )
    assert answer.exit_code == 0, answer.stderr
    return folder / "a" / "run", answer


@pytest.fixture
def drawn():
    """For tests that look at pictures: figures are rendered as users get them."""


@pytest.fixture(autouse=True)
def sketched(request, monkeypatch):
    """Figures are composed but not rendered, which takes most of a report's time.

    `finished` is made before this, with all its figures rendered.
    """
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(Figure, "savefig", lambda _, file, **__: file.write(PIXEL))
