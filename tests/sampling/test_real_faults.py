"""Faults that really happen: full and read-only disks, disks taken away, stopped processes.

Nothing is patched but the clock: a run in a process of its own meets the fault, ends in one line,
and goes on to the same draws when the fault is gone. Most of these tests mount things below their
own temporary folder, which only root may do; they are left out where it is not permitted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small import NUM_SAMPLES
from tiny_run import TINY

import traceclass as tc
from traceclass.run_directory.checksums import verdicts
from traceclass.run_directory.claim import claimed
from traceclass.run_directory.contents import begin, commit, read_run
from traceclass.sampling.files import WriteError, write_netcdf
from traceclass.sampling.store import run_status

pytestmark = pytest.mark.long

SMALL = Path(__file__).parent / "small.py"
SOURCE = Path(tc.__file__).parent
# Enough that a run of one chunk per draw lasts for some seconds after its first chunk.
DRAWS = 1_000
MIB = 2**20


# -- processes ---------------------------------------------------------------------------------


class Program(subprocess.Popen[str]):
    """A process that does not outlive the block it is used in, stopped or not."""

    def __exit__(self, *error: object) -> None:
        if self.poll() is None:
            self.kill()
        super().__exit__(*error)  # pyright: ignore[reportArgumentType]


def started(path: Path, **environment: object) -> Program:
    """`small.py` at work on the run in `path`, one chunk per draw."""
    known = {"CHUNK": 1, "DRAWS": DRAWS, "DEVICES": 1} | environment
    return Program(
        [sys.executable, str(SMALL), str(path)],
        env=os.environ | {name: str(value) for name, value in known.items()},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(program: Program, code: int = 0) -> str:
    """What a process said on its way out: the checksum of its draws, or one line of complaint."""
    with program:
        output, errors = program.communicate(timeout=300)
    assert program.returncode == code, errors
    if code:
        assert output == ""
        assert len(errors.splitlines()) == 1, errors
    return (errors if code else output).strip()


def checksum(path: Path, **environment: object) -> str:
    """That of all draws of the run in `path`, gone on with to its end."""
    return ended(started(path, **({"CHUNK": 500} | environment)))


def wait_for(condition: Callable[[], bool], program: Program) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def chunks(path: Path) -> list[Path]:
    return sorted(path.glob("chunk-*.tc"))


@contextlib.contextmanager
def paused(program: Program, path: Path, after: int) -> Iterator[None]:
    """Stop a run while it is at work, when it has so many chunks, and let it go on."""
    wait_for(lambda: len(chunks(path)) >= after, program)
    program.send_signal(signal.SIGSTOP)
    wait_for(lambda: _state_of(program.pid) == "T", program)
    yield
    program.send_signal(signal.SIGCONT)


def _state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> str:
    """The checksum of the run that nothing happened to."""
    return checksum(tmp_path_factory.mktemp("undisturbed") / "run")


# -- mounts ------------------------------------------------------------------------------------


class Mounts:
    """Mounts below one folder, all of them taken away at the end."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._made: list[Path] = []

    def add(self, *arguments: object, at: Path) -> Path:
        """`mount ARGUMENTS at`."""
        assert at.is_relative_to(self.folder)
        at.mkdir(exist_ok=True)
        _system("mount", *arguments, at)
        self._made.append(at)
        return at

    def tmpfs(self, name: str, size: int) -> Path:
        return self.add("-t", "tmpfs", "-o", f"size={size}", "tmpfs", at=self.folder / name)

    def remove(self, path: Path) -> None:
        """Take the uppermost mount at `path` away, in use or not."""
        _system("umount", "--lazy", path)
        self._made.remove(path)

    def remove_all(self) -> None:
        for path in reversed(list(self._made)):
            self.remove(path)


def _system(*words: object) -> None:
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


@pytest.fixture
def mounts(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    made = Mounts(tmp_path)
    try:
        made.remove(made.tmpfs("probe", MIB))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not permitted here")
    yield made
    made.remove_all()


@pytest.fixture
def disk(mounts, tmp_path):
    """The image of a disk with a file system, to be mounted by a loop device."""
    image = tmp_path / "disk.img"
    image.touch()
    os.truncate(image, 40 * MIB)
    try:
        _system("mkfs.ext4", "-q", image)
        mounts.remove(mounts.add("-o", "loop", image, at=tmp_path / "probe"))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("loop devices, or ext4, are not there")
    return image


def fill(folder: Path, leave: int = 0) -> Path:
    """Take the room on a file system, but for so many bytes."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while (free := shutil.disk_usage(folder).free - leave) > 0:
            file.write(bytes(min(free, MIB)))
    return filler


# -- disks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tmpfs", "loop"])
def test_a_disk_that_fills_up(kind, mounts, undisturbed, request, tmp_path):
    if kind == "tmpfs":
        place = mounts.tmpfs("disk", 40 * MIB)
    else:
        place = mounts.add("-o", "loop", request.getfixturevalue("disk"), at=tmp_path / "disk")
    path = place / "run"
    with started(path) as program:
        with paused(program, path, after=60):
            filler = fill(place)
        words = ended(program, code=2)
    assert re.search(r"No space left on device.*All before draw \d+ is kept: make room", words)
    kept = len(chunks(path))
    assert kept >= 60
    filler.unlink()
    assert checksum(path) == undisturbed
    assert len(chunks(path)) > kept


def test_a_disk_that_becomes_read_only(mounts, undisturbed, tmp_path):
    """A read-only mount over the one that the run writes to, which names are looked up in."""
    place = mounts.tmpfs("disk", 64 * MIB)
    path = place / "run"
    with started(path) as program:
        with paused(program, path, after=60):
            mounts.add("--bind", place, at=place)
            _system("mount", "-o", "remount,bind,ro", place)
        words = ended(program, code=2)
    assert re.search(r"Read-only file system.*is kept: make it writable", words)
    assert ended(started(path), code=2).startswith(f"cannot write to {path} (Read-only")
    assert tc.open_run(path).num_samples > 0
    mounts.remove(place)
    assert checksum(path) == undisturbed


@pytest.mark.parametrize("kind", ["bind", "loop"])
def test_a_disk_taken_away_and_brought_back(kind, mounts, undisturbed, request, tmp_path):
    if kind == "bind":
        (tmp_path / "there").mkdir()
        source = ["--bind", tmp_path / "there"]
    else:
        source = ["-o", "loop", request.getfixturevalue("disk")]
    place = mounts.add(*source, at=tmp_path / "disk")
    path = place / "run"
    with started(path) as program:
        with paused(program, path, after=60):
            mounts.remove(place)
        words = ended(program, code=2)
    assert words.startswith(f"{path} is gone")
    assert "If it comes back, go on with resume." in words
    # Nothing was written to the place where the disk had been.
    assert list(place.iterdir()) == []
    mounts.add(*source, at=place)
    assert len(chunks(path)) >= 60
    assert checksum(path) == undisturbed


def test_a_disk_taken_away_and_brought_back_before_the_run_notices(mounts, undisturbed, tmp_path):
    (tmp_path / "there").mkdir()
    source = ["--bind", tmp_path / "there"]
    place = mounts.add(*source, at=tmp_path / "disk")
    path = place / "run"
    with started(path) as program:
        with paused(program, path, after=60):
            mounts.remove(place)
            mounts.add(*source, at=place)
        assert ended(program) == undisturbed


def test_a_finished_run_is_resumed_with_ten_megabytes_free(mounts):
    """The run takes more than is free; nothing of it is to be written again."""
    place = mounts.tmpfs("disk", 40 * MIB)
    path, many = place / "run", {"DRAWS": 120_000, "CHUNK": 10_000}
    before = checksum(path, **many)
    assert sum(file.stat().st_size for file in path.iterdir()) > 10 * 10**6
    for leave in (10 * 10**6, 0):
        fill(place, leave)
        assert leave - 10**4 <= shutil.disk_usage(place).free <= leave
        assert checksum(path, **many) == before


def trace() -> xr.DataTree:
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("draw", np.arange(2_000.0))})})


def test_a_netcdf_file_is_whole_or_absent_on_a_disk_that_is_nearly_full(mounts):
    """HDF5 by itself leaves half a file there, and no error."""
    place = mounts.tmpfs("disk", MIB)
    num_whole, words = 0, []
    for leave in range(0, 48 * 1024, 4096):
        filler, file = fill(place, leave), place / "draws.nc"
        try:
            write_netcdf(file, trace())
            xr.testing.assert_identical(xr.load_datatree(file, engine="h5netcdf"), trace())
            num_whole += 1
        except WriteError as error:
            words.append(str(error))
            assert [entry.name for entry in place.iterdir()] == ["filler"]
        file.unlink(missing_ok=True)
        filler.unlink()
    assert num_whole
    assert set(words) == {f"cannot write {place / 'draws.nc'} (No space left on device)."}


def test_results_are_whole_or_absent_on_a_disk_that_is_nearly_full(mounts):
    """And are committed when there is room, to a directory of which all files are whole."""
    place = mounts.tmpfs("disk", MIB)
    description = {"experiment": "theory", "preset": "quick", "settings": {}}
    words = []
    for leave in range(0, 100 * 1024, 8192):
        path, results = place / "run", ({"a": 1.0}, trace(), xr.Dataset({"y": 2.0}))
        with claimed(path):
            begin(path, description, resume=False)
            filler = fill(place, leave)
            try:
                commit(path, *results)
            except WriteError as error:
                words.append(str(error))
                assert not (path / "results.json").exists()
                filler.unlink()
                commit(path, *results)
        assert all(verdict.wrong is None for verdict in verdicts(path))
        xr.testing.assert_identical(read_run(path).trace, trace())
        filler.unlink(missing_ok=True)
        shutil.rmtree(path)
    assert 0 < len(words) < 13
    assert all(re.search(r"cannot write the results .*make room", each) for each in words)


# -- processes, clocks, folders ----------------------------------------------------------------


def test_a_run_that_is_stopped_and_continued(undisturbed, tmp_path):
    """SIGSTOP and SIGCONT, five times, in warm-up and after it."""
    path = tmp_path / "run"
    with started(path) as program:
        for after in (1, 5, 60, 300, 900):
            with paused(program, path, after):
                before = len(chunks(path))
                time.sleep(0.3)
                assert len(chunks(path)) == before
                assert run_status(path).is_running
        assert ended(program) == undisturbed


def test_a_clock_that_is_set_back(undisturbed, tmp_path):
    """Every look at the time finds it an hour earlier; killed, resumed with the right time."""
    path = tmp_path / "run"
    with started(path, CLOCK="back") as program:
        wait_for(lambda: len(chunks(path)) >= 60, program)
        program.kill()
    damaged = chunks(path)[-5]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert checksum(path, CLOCK="back") == undisturbed
    assert len(list(path.glob("damaged-*"))) >= 5
    assert run_status(path).is_finished
    assert checksum(path) == undisturbed


def test_a_folder_removed_under_a_run(tmp_path):
    path = tmp_path / "run"
    with started(path) as program:
        with paused(program, path, after=60):
            shutil.rmtree(path)
        words = ended(program, code=2)
    assert words.startswith(f"{path} is gone: it was removed or replaced under the run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_replaced_by_another_run(undisturbed, tmp_path):
    """The first run leaves the second one alone."""
    path = tmp_path / "run"
    with started(path) as first:
        with paused(first, path, after=60):
            shutil.rmtree(path)
            second = started(path)
            wait_for(lambda: len(chunks(path)) >= 5, second)
        assert ended(first, code=2).startswith(f"{path} is gone")
    assert ended(second) == undisturbed


def test_a_lock_removed_by_hand_does_no_harm(undisturbed, tmp_path):
    path = tmp_path / "run"
    with started(path) as program:
        with paused(program, path, after=60):
            (path / "lock").unlink()
        assert ended(program) == undisturbed


# -- the command line --------------------------------------------------------------------------


def at_work(folder: Path) -> tuple[Program, Path]:
    """`traceclass run` with a chain that lasts for minutes, and its store."""
    longer = {"num_samples": 10_000, "max_samples": 10_000, "thin": 2_000}
    settings = [*TINY, *(w for key, n in longer.items() for w in ("--set", f"{key}={n}"))]
    command = [sys.executable, "-m", "traceclass.cli", "run", "mountain-car", "--quiet"]
    program = Program(
        [*command, "--out", str(folder / "run"), *settings], cwd=folder.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return program, folder / "run" / "unfinished" / "chain" / "kl-pcn-0"


def end_of(program: Program) -> str:
    output, errors = program.communicate(timeout=300)
    assert program.returncode == 3, errors
    assert output == ""
    assert len(errors.splitlines()) == 1, errors
    assert errors.startswith("traceclass: ")
    return errors


def test_a_run_directory_removed_under_the_command(tmp_path):
    program, store = at_work(tmp_path)
    with program:
        wait_for(lambda: len(chunks(store)) >= 3, program)
        shutil.rmtree(tmp_path / "run")
        assert "is gone" in end_of(program)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("fault", ["full", "read-only", "away"])
def test_a_disk_that_fails_under_the_command(fault, mounts):
    place = mounts.tmpfs("disk", 64 * MIB)
    program, store = at_work(place)
    with program:
        with paused(program, store, after=3):
            if fault == "full":
                fill(place)
            elif fault == "read-only":
                mounts.add("--bind", place, at=place)
                _system("mount", "-o", "remount,bind,ro", place)
            else:
                mounts.remove(place)
        words = end_of(program)
    wanted = {"full": "make room", "read-only": "make it writable", "away": "is gone"}
    assert wanted[fault] in words
    if fault != "away":
        assert len(chunks(store)) >= 3


# -- two versions ------------------------------------------------------------------------------


def other_version(folder: Path, **changed: tuple[str, str, str]) -> dict[str, str]:
    """A copy of the package with some lines changed; the environment of processes that use it."""
    copy = folder / "other" / "traceclass"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in changed.values():
        text = (copy / file).read_text(encoding="utf-8")
        assert text.count(old) == 1
        (copy / file).write_text(text.replace(old, new), encoding="utf-8")
    return {"PYTHONPATH": str(folder / "other")}


VERSION = ("version.py", f'"{tc.__version__}"', '"7.5.3"')
FORMAT = ("sampling/files.py", "\nFORMAT = 2\nREADABLE = (1, 2)\n",
          "\nFORMAT = 3\nREADABLE = (1, 2, 3)\n")  # fmt: skip


def killed_after(path: Path, number: int, **environment: object) -> None:
    with started(path, **environment) as program:
        wait_for(lambda: len(chunks(path)) >= number, program)
        program.kill()


def test_two_versions_go_on_with_one_store_in_turns(undisturbed, tmp_path):
    """Of one format: whoever goes on, and whoever ends, the draws are the same."""
    other = other_version(tmp_path, version=VERSION)
    path = tmp_path / "run"
    killed_after(path, 20, **other)
    assert '"7.5.3"' in (path / "manifest.json").read_text()
    killed_after(path, 60)
    killed_after(path, 90, **other)
    assert checksum(path) == undisturbed
    assert checksum(path, **other) == undisturbed


def test_two_versions_at_once_are_refused_one_of_them(undisturbed, tmp_path):
    other = other_version(tmp_path, version=VERSION)
    path = tmp_path / "run"
    with started(path, **other) as program:
        wait_for(lambda: len(chunks(path)) >= 5, program)
        assert "is being written by another process" in ended(started(path), code=2)
        assert ended(program) == undisturbed


def test_a_store_of_a_newer_format_is_refused_by_name_and_left(tmp_path):
    newer = other_version(tmp_path, version=VERSION, format=FORMAT)
    path = tmp_path / "run"
    whole = checksum(path, DRAWS=NUM_SAMPLES, **newer)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    words = ended(started(path, DRAWS=NUM_SAMPLES), code=2)
    assert re.search(r"has format '3', written by version '7\.5\.3' of traceclass", words)
    assert "Use a newer version" in words
    with pytest.raises(tc.StoreError, match=r"version '7\.5\.3'"):
        tc.open_run(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert checksum(path, DRAWS=NUM_SAMPLES, **newer) == whole


def test_a_newer_version_goes_on_with_a_store_of_this_one(undisturbed, tmp_path):
    """And this one then says which version to use."""
    newer = other_version(tmp_path, version=VERSION, format=FORMAT)
    path = tmp_path / "run"
    killed_after(path, 60)
    assert checksum(path, **newer) == undisturbed
    assert "version '7.5.3'" in ended(started(path), code=2)
