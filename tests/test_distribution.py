"""Wheel and source distribution: built, complete, and with tests that run from the latter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import traceclass as tc

# A group, because groups begin first: building takes longer than any test at the end should.
pytestmark = pytest.mark.xdist_group("distribution")

ROOT = Path(__file__).parents[1]
# What makes the repository, not the software.
LEFT_OUT = {".gitignore"}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    answer = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture(scope="module")
def unpacked(built) -> Path:
    with tarfile.open(built / f"traceclass-{tc.__version__}.tar.gz") as archive:
        archive.extractall(built, filter="data")
    return built / f"traceclass-{tc.__version__}"


def tracked() -> set[str]:
    """The files of the repository; of a source distribution, its own."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a repository: nothing says which files there should be")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in answer.stdout.splitlines() if (ROOT / name).exists()}


def test_the_source_distribution_has_every_file(unpacked):
    there = {
        path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()
    }
    assert tracked() - there - LEFT_OUT == set()


def test_the_wheel_is_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name for name in names if name.startswith("traceclass/")}
    source = ROOT / "src" / "traceclass"
    expected = {
        f"traceclass/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == expected
    assert all(name.split("/")[0].endswith(".dist-info") for name in names - package)


@pytest.mark.long
def test_tests_of_the_source_distribution_run(unpacked):
    """All are collected, which imports what they need; those that read most other files pass."""
    environment = os.environ | {"PYTHONPATH": str(unpacked / "src")}
    environment.pop("PYTEST_XDIST_WORKER", None)
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "paper_map or citation or first_screen"],
        cwd=unpacked, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [tc.__version__]
