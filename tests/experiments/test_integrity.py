"""Files of a run are as they were written, or named; nothing of a user's is written over."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess

import pytest
import xarray as xr
from linear import linear_gaussian
from tiny_run import in_this_process

import traceclass as tc
from traceclass.run_directory import netcdf

pytestmark = pytest.mark.xdist_group("cli")

CELL = "kl-pcn-0"


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished run, to be damaged."""
    path = tmp_path / "run"
    shutil.copytree(finished[0], path)
    return path


def files_of(path):
    return sorted(file for file in path.rglob("*") if file.is_file())


def flip(file, place: int, bits: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= bits
    file.write_bytes(content)


def test_a_run_is_whole_and_sha256sum_agrees(finished):
    path, _ = finished
    answer = in_this_process("verify", path, cwd=path)
    assert answer.exit_code == 0, answer.stderr
    said = dict(line.split(": ", 1) for line in answer.stdout.splitlines())
    assert set(said) == {file.relative_to(path).as_posix() for file in files_of(path)}
    assert set(said.values()) == {"whole"}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=path, check=True)


def test_any_flipped_byte_is_named(copy):
    """Ten places of every file, each of them named by `verify`, and by no other name."""
    chosen = random.Random(0)
    for file in files_of(copy):
        name, whole = file.relative_to(copy).as_posix(), file.read_bytes()
        for place in {chosen.randrange(len(whole)) for _ in range(10)}:
            flip(file, place, 1 << chosen.randrange(8))
            answer = in_this_process("verify", copy, cwd=copy)
            file.write_bytes(whole)
            assert answer.exit_code == 2, (name, place)
            assert answer.stderr.count("\n") == 1
            assert f"files are not whole: {name}\n" in answer.stderr


@pytest.mark.parametrize(
    "name", ["config.json", "versions.json", "results.json", "arrays.nc", "trace.nc", "SHA256SUMS"]
)
def test_a_report_of_a_changed_file_is_refused(name, copy):
    page = (copy / "report.html").read_bytes()
    flip(copy / name, (copy / name).stat().st_size // 2, 1)
    answer = in_this_process("report", copy, cwd=copy)
    assert answer.exit_code == 2
    assert answer.stderr.count("\n") == 1
    assert name in answer.stderr
    assert (copy / "report.html").read_bytes() == page


def edit_failures(path) -> None:
    results = json.loads((path / "results.json").read_text())
    results["rows"][0]["failures"] = {"mean": 19.0, "error": 0.7, "each": [19.0]}
    (path / "results.json").write_text(json.dumps(results, indent=2) + "\n")


def test_edited_numbers_are_used_by_force_alone_and_the_page_says_so(copy):
    edit_failures(copy)
    refused = in_this_process("report", copy, cwd=copy)
    assert refused.exit_code == 2
    assert re.search(r"results\.json is not as it was written: it was edited", refused.stderr)
    answer = in_this_process("report", copy, "--force", cwd=copy)
    assert answer.exit_code == 0, answer.stderr
    assert "results.json: not as written" in " ".join(answer.stdout.split())
    assert "results.json: not as written" in (copy / "report.html").read_text()
    # A page drawn by force does not make the numbers whole.
    assert in_this_process("verify", copy, cwd=copy).exit_code == 2
    assert in_this_process("report", copy, cwd=copy).exit_code == 2


def test_a_report_drawn_again_keeps_the_sums(copy, drawn):
    before = (copy / "SHA256SUMS").read_text()
    assert in_this_process("report", copy, cwd=copy).exit_code == 0
    assert in_this_process("verify", copy, cwd=copy).exit_code == 0
    data = [line for line in before.splitlines()[1:] if "report.html" not in line]
    assert set(data) <= set((copy / "SHA256SUMS").read_text().splitlines())


@pytest.mark.parametrize("kind", ["no sums", "by force"])
def test_a_damaged_netcdf_file_ends_in_one_line(kind, copy):
    """HDF5 might run in circles or crash: it reads such a file in a process of its own."""
    whole = (copy / "arrays.nc").read_bytes()
    (copy / "arrays.nc").write_bytes(whole[: len(whole) // 3])
    if kind == "no sums":
        (copy / "SHA256SUMS").unlink()
    answer = in_this_process("report", copy, *(["--force"] * (kind == "by force")), cwd=copy)
    assert answer.exit_code == 2
    assert answer.stderr.count("\n") == 1
    assert "arrays.nc is damaged" in answer.stderr


def crashed(*_):
    return subprocess.CompletedProcess([], -signal.SIGSEGV, "", "")


def endless(_, seconds):
    raise subprocess.TimeoutExpired([], seconds)


@pytest.mark.parametrize(
    ("end", "words"),
    [(crashed, "reading it crashed (SIGSEGV)"), (endless, "reading it did not end within")],
)
def test_a_reader_that_does_not_answer_ends_in_one_line(end, words, copy, monkeypatch):
    monkeypatch.setattr(netcdf, "in_a_process", end)
    # Files that are as they were written are read as before, without another process.
    assert in_this_process("report", copy, cwd=copy).exit_code == 0
    (copy / "SHA256SUMS").unlink()
    answer = in_this_process("report", copy, cwd=copy)
    assert answer.exit_code == 2
    assert answer.stderr.count("\n") == 1
    assert f"trace.nc is damaged: {words}" in answer.stderr


def test_a_reader_is_killed_in_time():
    with pytest.raises(subprocess.TimeoutExpired):
        netcdf.in_a_process(["60"], 0.01)


def test_numbers_that_are_not_there_are_no_bug_where_files_may_be_damaged(copy):
    (copy / "arrays.nc").write_bytes(xr.Dataset().to_netcdf(engine="h5netcdf"))
    answer = in_this_process("report", copy, "--force", cwd=copy)
    assert answer.exit_code == 2
    assert answer.stderr.count("\n") == 1
    assert "arrays.nc may be damaged" in answer.stderr


def test_an_edited_setting_is_not_resumed(copy):
    config = json.loads((copy / "config.json").read_text())
    config["settings"]["num_episodes"] += 1
    (copy / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    answer = in_this_process("run", "mountain-car", "--out", copy, "--resume", cwd=copy)
    assert answer.exit_code == 2
    assert "config.json" in answer.stderr
    assert "edited or damaged" in answer.stderr


@pytest.mark.long
def test_a_directory_without_sums_is_read_with_a_warning(copy):
    """As earlier versions wrote it."""
    (copy / "SHA256SUMS").unlink()
    config = json.loads((copy / "config.json").read_text())
    del config["sha256"]
    (copy / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    answer = in_this_process("report", copy, cwd=copy)
    assert answer.exit_code == 0, answer.stderr
    assert "whose files have no checksums" in " ".join(answer.stdout.split())
    assert not (copy / "SHA256SUMS").exists()
    checked = in_this_process("verify", copy, cwd=copy)
    assert checked.exit_code == 0
    assert "only chunks could be verified" in checked.stderr
    said = dict(line.split(": ", 1) for line in checked.stdout.splitlines())
    assert said["results.json"] == "not known, it has no checksum"
    assert said[f"chain/{CELL}/manifest.json"] == "whole"
    more = ["run", "mountain-car", "--out", copy, "--resume", "--quiet"]
    assert in_this_process(*more, cwd=copy).exit_code == 0
    assert in_this_process("verify", copy, cwd=copy).exit_code == 0


def test_a_missing_and_a_foreign_file_are_named(copy):
    (copy / "trace.nc").unlink()
    (copy / "notes.txt").write_text("mine")
    answer = in_this_process("verify", copy, cwd=copy)
    assert answer.exit_code == 2
    assert "trace.nc: it is missing" in answer.stdout
    assert "notes.txt: SHA256SUMS does not name it" in answer.stdout


def test_a_store_is_verified_by_its_own_checksums(copy):
    store = copy / "chain" / CELL
    answer = in_this_process("verify", store, cwd=copy)
    assert answer.exit_code == 0, answer.stderr
    first = store / "chunk-00000000.tc"
    for file in (first, store / "manifest.json"):
        whole = file.read_bytes()
        flip(file, len(whole) - 2, 1)
        assert f"not whole: {file.name}" in in_this_process("verify", store, cwd=copy).stderr
        file.write_bytes(whole)
    assert in_this_process("verify", copy / "figures", cwd=copy).exit_code == 2
    assert in_this_process("verify", copy / "nowhere", cwd=copy).exit_code == 2


def test_a_damaged_chunk_is_seen_by_whoever_reads_it(tmp_path):
    """Not the last one, whose state is read in any case."""
    store = tmp_path / "store"
    tc.sample(
        linear_gaussian()[0], tc.pcn, step_size=0.4, num_warmup=0, num_samples=8, chunk_size=2,
        store=store, progress=False,
    )  # fmt: skip
    first = store / "chunk-00000000.tc"
    flip(first, first.stat().st_size // 2, 1)
    answer = in_this_process("status", store, cwd=tmp_path)
    assert answer.exit_code == 2, answer.stdout
    assert first.name in answer.stderr
    assert exported(store, tmp_path / "draws.nc").exit_code == 2
    with pytest.raises(tc.StoreError, match=first.name):
        tc.open_run(store).summary()


# -- files that a user asks for ----------------------------------------------------------------


def exported(run, target, *options):
    return in_this_process("export", run, target, *options, cwd=run.parent)


def test_export_replaces_a_plain_file_when_told(finished, tmp_path):
    target = tmp_path / "draws.nc"
    assert exported(finished[0], target).exit_code == 0
    target.write_text("mine")
    answer = exported(finished[0], target)
    assert answer.exit_code == 2
    assert "is there already" in answer.stderr
    assert target.read_text() == "mine"
    assert exported(finished[0], target, "--overwrite").exit_code == 0
    assert target.stat().st_size > 1000
    assert {file.name for file in tmp_path.iterdir()} == {"draws.nc"}


def test_export_never_writes_into_the_run(copy):
    before = {file: file.read_bytes() for file in files_of(copy)}
    for name in ("results.json", "new.nc", f"chain/{CELL}/chunk-00000000.tc"):
        for options in ([], ["--overwrite"]):
            answer = exported(copy, copy / name, *options)
            assert answer.exit_code == 2
            assert "inside the run itself" in answer.stderr
    assert {file: file.read_bytes() for file in files_of(copy)} == before


@pytest.mark.parametrize("kind", ["link", "broken link", "pipe", "directory"])
def test_export_leaves_what_is_no_plain_file(kind, finished, tmp_path):
    target, victim = tmp_path / "draws.nc", tmp_path / "victim"
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "directory":
        target.mkdir()
    else:
        target.symlink_to(victim)
    if kind == "link":
        victim.write_text("mine")
    before = target.lstat()
    for options in ([], ["--overwrite"]):
        answer = exported(finished[0], target, *options)
        assert answer.exit_code == 2, answer.stderr
        assert answer.stderr.count("\n") == 1
    assert target.lstat().st_ino == before.st_ino
    assert victim.exists() == (kind == "link")


def test_export_into_a_missing_folder_is_a_mistake(finished, tmp_path):
    answer = exported(finished[0], tmp_path / "nowhere" / "draws.nc")
    assert answer.exit_code == 2
    assert "there is no directory" in answer.stderr


def test_two_at_once_do_not_replace_each_other(finished, tmp_path, monkeypatch):
    """A file that comes while ours is being written stays."""
    run = tc.open_run(finished[0] / "chain" / CELL)
    target = tmp_path / "draws.nc"
    real = run.to_arviz()

    def late(_):
        target.write_text("another's")
        return real

    monkeypatch.setattr(type(run), "to_arviz", late)
    with pytest.raises(tc.StoreError, match="is there already"):
        run.to_netcdf(target)
    assert target.read_text() == "another's"
    with pytest.raises(tc.StoreError, match="inside the run itself"):
        run.to_netcdf(finished[0] / "chain" / CELL / "mine.nc")


def test_a_file_system_without_links_is_written_to_all_the_same(finished, tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    target = tmp_path / "draws.nc"
    assert exported(finished[0], target).exit_code == 0
    before = target.read_bytes()
    assert exported(finished[0], target).exit_code == 2
    assert target.read_bytes() == before


def test_more_draws_renew_the_sums(copy):
    more = ["run", "mountain-car", "--out", copy, "--resume", "--set", "num_samples=16", "--force"]
    answer = in_this_process(*more, "--set", "max_samples=16", cwd=copy.parent)
    assert answer.exit_code == 0, answer.stderr
    assert in_this_process("verify", copy, cwd=copy).exit_code == 0
