"""Every file reader, on ten thousand files that chance has changed: an answer, or one line."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import traceclass as tc
from traceclass.run_directory import netcdf
from traceclass.run_directory.checksums import SUMS, read_sums, write_sums
from traceclass.run_directory.claim import DirectoryError, described, is_as_written, summed
from traceclass.sampling.files import read_arrays, read_json, write_arrays, write_json
from traceclass.sampling.store import run_status
from traceclass.sampling.stored import Manifest, read_manifest

COUNT = 10_000


def changed(content: bytes, chosen: random.Random) -> bytes:
    """A few bits flipped, a piece cut out, doubled, moved or filled, or the end cut off."""
    data = bytearray(content)
    for _ in range(chosen.choice((1, 1, 1, 2, 5))):
        a, b = sorted(chosen.randrange(len(data) + 1) for _ in range(2))
        b = min(b, a + chosen.choice((1, 4, 64, 1 << 20)))
        kind = chosen.randrange(6)
        if kind == 0 and a < len(data):
            data[a] ^= 1 << chosen.randrange(8)
        elif kind == 1:
            del data[a:b]
        elif kind == 2:
            data[a:a] = data[a:b]
        elif kind == 3:
            data[a:b] = bytes(b - a)
        elif kind == 4:
            data[a:b] = chosen.choice((b"\xff", b"9", b"-", b'"', b"{[", b"1e999"))
        else:
            del data[b:]
        if not data:
            data = bytearray(chosen.randbytes(3))
    return bytes(data)


def check(file: Path, read: Callable[[], object], errors: tuple[type[Exception], ...]) -> None:
    """Whatever stands in `file`: `read` answers, or raises one of `errors` in one line."""
    whole, chosen, refused = file.read_bytes(), random.Random(0), []
    for _ in range(COUNT):
        file.write_bytes(changed(whole, chosen))
        try:
            read()
        except errors as error:
            refused.append(str(error))
    assert len(refused) > 0.5 * COUNT
    assert not [text for text in refused if "\n" in text]
    file.write_bytes(whole)
    read()


@pytest.mark.long
def test_chunks(tmp_path):
    file = tmp_path / "chunk-00000000.tc"
    arrays = {"draws/a": np.arange(12.0).reshape(2, 6), "chains/n": np.int32([[1], [2]])}
    write_arrays(file, {"run": "x", "number": 0}, arrays)
    check(file, lambda: read_arrays(file), (tc.StoreError,))


@pytest.mark.long
def test_manifests(tmp_path):
    manifest = Manifest({"seed": 0, "num_warmup": 3}, [], {"prior": "Series"})
    write_json(tmp_path / "manifest.json", manifest._asdict() | manifest.checksums)
    check(tmp_path / "manifest.json", lambda: read_manifest(tmp_path), (tc.StoreError,))
    check(tmp_path / "manifest.json", lambda: run_status(tmp_path), (tc.StoreError,))


@pytest.mark.long
def test_sums(tmp_path):
    write_sums(tmp_path, {"config.json": "0" * 64, "chain/a/chunk-00000000.tc": "1" * 64})
    check(tmp_path / SUMS, lambda: read_sums(tmp_path), (tc.UserError,))


@pytest.mark.long
def test_descriptions(tmp_path):
    """What is no description of a run is none; what is one has its checksum, or says it has not."""
    file = tmp_path / "config.json"
    write_json(file, summed({"experiment": "e", "preset": "quick", "settings": {"seed": 0}}))

    def read():
        found = described(tmp_path)
        if found is None or not is_as_written(found):
            raise DirectoryError("not as it was written")

    check(file, read, (DirectoryError,))
    check(file, lambda: read_json(file), (tc.StoreError,))


# -- netCDF: HDF5 runs in circles or crashes on some of these, in a process that is not ours -----

# Forks of a process that has imported everything take milliseconds; a new one takes a second.
WARM = """
import os, signal, sys
from traceclass.run_directory import netcdf
for line in sys.stdin:
    if os.fork() == 0:
        signal.alarm(20)
        sys.stderr = open(sys.argv[1], "w")
        code = 1
        try:
            netcdf.main(line.rstrip("\\n").split("\\t"))
            code = 0
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
# Seconds of processor time for one small file; those that end take hundredths of one.
ENOUGH = 1


@contextlib.contextmanager
def warm_reader(folder: Path):
    """What `netcdf.in_a_process` does, in a fork of one process."""
    errors, alone = folder / "errors", {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WARM, str(errors)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=os.environ | alone,
    ) as reader:  # fmt: skip
        assert reader.stdin is not None
        assert reader.stdout is not None

        def in_a_fork(arguments, _):
            errors.write_text("")
            reader.stdin.write("\t".join([str(ENOUGH), *arguments[1:]]) + "\n")
            reader.stdin.flush()
            code = int(reader.stdout.readline())
            return subprocess.CompletedProcess([], code, "", errors.read_text(errors="replace"))

        yield in_a_fork
        reader.stdin.close()


def small_trace() -> xr.DataTree:
    """Groups, numbers, truth values and text, as a run directory has them."""
    rng = np.random.default_rng(0)
    draws = xr.Dataset(
        {"x": (("chain", "draw", "dim"), rng.normal(size=(2, 5, 3)).astype(np.float32)),
         "is_accepted": (("chain", "draw"), rng.uniform(size=(2, 5)) < 0.5),
         "label": ("dim", ["a", "bc", "d"])},
        coords={"chain": [0, 1], "draw": np.arange(5)}, attrs={"library": "traceclass"},
    )  # fmt: skip
    return xr.DataTree.from_dict({"kl-pcn/posterior": draws, "kl-pcn/sample_stats": draws[["x"]]})


def read_copy(file: Path) -> xr.DataTree:
    with netcdf.copies_of([file]) as copies:
        return netcdf.read_tree(copies[file])


def test_a_copy_of_a_netcdf_file_holds_the_same(tmp_path):
    file = tmp_path / "trace.nc"
    small_trace().to_netcdf(file, engine="h5netcdf")
    xr.testing.assert_identical(read_copy(file), netcdf.read_tree(file))


@pytest.mark.long
def test_netcdf(tmp_path, monkeypatch):
    file = tmp_path / "trace.nc"
    small_trace().to_netcdf(file, engine="h5netcdf")
    with warm_reader(tmp_path) as in_a_fork:
        monkeypatch.setattr(netcdf, "in_a_process", in_a_fork)
        check(file, lambda: read_copy(file), (ValueError,))
