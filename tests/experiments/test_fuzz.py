"""Every file reader, on ten thousand files that chance has changed: an answer, or one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import traceclass as tc
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
