"""The README's program runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# A group, because groups begin first: the program takes longer than any test at the end should.
pytestmark = pytest.mark.xdist_group("readme")

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_first_program_runs():
    program = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0]
    answer = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "r_hat" in answer.stdout


def test_every_command_in_the_first_screen_is_a_target():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    first_screen = "\n".join(README.splitlines()[:30])
    targets = set(re.findall(r"^ {4}make (\S+)", first_screen, flags=re.MULTILINE))
    assert targets == {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
