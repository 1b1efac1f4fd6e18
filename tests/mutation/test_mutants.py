"""Mutants of the source, each of which the quick tests must kill (`make mutants`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "traceclass"
# Seconds; a mutant that has the tests run in circles is seen too.
TOO_LONG = 300


def test_there_are_enough_and_each_can_be_made():
    """Over all parts of the package; every line to be changed is there, once."""
    assert len(MUTANTS) >= 60
    parts = {mutant.file.split("/")[0] for mutant in MUTANTS}
    assert {"kernels", "priors", "likelihoods", "sampling", "control", "report"} <= parts
    for mutant in MUTANTS:
        text = (SOURCE / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant
        assert mutant.old != mutant.new, mutant
        assert all((ROOT / "tests" / name).exists() for name in mutant.tests), mutant


def failures_with(mutant: Mutant, folder: Path) -> subprocess.CompletedProcess[str]:
    """The tests of a mutant, run on a copy of the package that has it."""
    copy = folder / "src" / "traceclass"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / mutant.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    tests = [f"tests/{name}" for name in mutant.tests]
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not long", "-p", "no:cacheprovider",
         "-k", mutant.only, "--basetemp", str(folder / "tests"), *tests],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=TOO_LONG,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_killed(mutant, tmp_path, count_as):
    count_as("mutants killed by quick tests")
    try:
        answer = failures_with(mutant, tmp_path)
    except subprocess.TimeoutExpired:
        return
    # 1: tests ran and failed. Anything else is a survivor, or a mutant that cannot be imported.
    assert answer.returncode == 1, answer.stdout[-2_000:] + answer.stderr
    assert " failed" in answer.stdout
