"""Files of the store: whole or absent, every damage seen, nothing believed before it is checked."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from traceclass.sampling.files import (
    DamagedFileError,
    StoreError,
    WriteError,
    is_locked,
    locked,
    read_arrays,
    read_header,
    read_json,
    write_arrays,
    write_json,
)

ARRAYS = {
    "draws/x": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "counts": np.array([[1, -2]], dtype=np.int32),
    "flag": np.array(True),
    "none": np.zeros((0, 3)),
}


@pytest.fixture
def file(tmp_path) -> Path:
    write_arrays(tmp_path / "a.tc", {"number": 3, "rate": 0.1}, ARRAYS)
    return tmp_path / "a.tc"


def test_arrays_come_back_bit_for_bit(file):
    meta, arrays = read_arrays(file)
    assert meta == {"number": 3, "rate": 0.1}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
    assert [p.name for p in file.parent.iterdir()] == ["a.tc"]


def test_one_array_is_read_without_the_others(file):
    _, arrays = read_arrays(file, ["counts"])
    assert list(arrays) == ["counts"]
    with pytest.raises(DamagedFileError, match="no array 'missing'"):
        read_arrays(file, ["missing"])


def test_arrays_that_are_not_plain_numbers_are_not_written(tmp_path):
    with pytest.raises(TypeError, match="not a plain number"):
        write_arrays(tmp_path / "a.tc", {}, {"x": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_every_bit_flip_and_truncation_is_detected_and_named(tmp_path):
    """200 of them, at random, and each byte of the prefix besides."""
    path = tmp_path / "a.tc"
    size = write_arrays(path, {"number": 3}, {"x": np.random.default_rng(0).normal(size=300)})
    whole = path.read_bytes()
    assert len(whole) == size
    rng = np.random.default_rng(1)
    damages = [bytearray(whole) for _ in range(148)]
    for number, damaged in enumerate(damages):
        byte = number if number < 48 else int(rng.integers(size))
        damaged[byte] ^= 1 << int(rng.integers(8))
    damages += [bytearray(whole[: int(rng.integers(size))]) for _ in range(50)]
    damages += [bytearray(whole + b"\0"), bytearray(b"")]
    assert len(damages) == 200
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"a\.tc"):
            read_arrays(path)


def hostile(header: dict, data: bytes = b"") -> bytes:
    """A file whose checksums are right and whose header lies."""
    header = {"format": 1, "meta": {}, "sha256": hashlib.sha256(data).hexdigest()} | header
    text = json.dumps(header).encode()
    return (
        b"trcclass" + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text + data
    )


def array(**changes) -> dict:
    return {"arrays": [{"name": "x", "dtype": "float64", "shape": [1]} | changes]}


HOSTILE = {
    "empty": b"",
    "text": b"hello, world" * 100,
    "pickle": pickle.dumps({"x": os.getcwd}),
    "npy with objects": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'shape': (1,)}",
    "zip": b"PK\x03\x04" + bytes(200),
    "header of 2^63 bytes": b"trcclass" + (2**63).to_bytes(8, "little") + bytes(100),
    "header larger than the file": b"trcclass" + (500).to_bytes(8, "little") + bytes(100),
    "header that is not JSON": b"trcclass" + (1).to_bytes(8, "little")
    + hashlib.sha256(b"{").digest() + b"{",
    "header of brackets": b"trcclass" + (10**5).to_bytes(8, "little")
    + hashlib.sha256(b"[" * 10**5).digest() + b"[" * 10**5,
    "objects": hostile(array(dtype="object")),
    "strings": hostile(array(dtype="<U1000000000")),
    "voids": hostile(array(dtype="V8")),
    "unknown dtype": hostile(array(dtype=["a", "b"])),
    "a terabyte": hostile(array(shape=[2**37])),
    "overflowing shape": hostile(array(shape=[2**40, 2**40, 2**40])),
    "negative shape": hostile(array(shape=[-1])),
    "negative and negative": hostile(array(shape=[-1, -8])),
    "fractional shape": hostile(array(shape=[0.5])),
    "true as shape": hostile(array(shape=[True]), bytes(8)),
    "shape that is no list": hostile(array(shape=8)),
    "many dimensions": hostile(array(shape=[1] * 1000)),
    "no arrays": hostile({"arrays": None}),
    "meta that is no mapping": hostile(array() | {"meta": 3}, bytes(8)),
    "another format": hostile(array() | {"format": 99}, bytes(8)),
    "wrong data": hostile(array() | {"sha256": "0" * 64}, bytes(8)),
    "too much data": hostile(array(), bytes(800)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_little_memory(name, tmp_path):
    path = tmp_path / "chunk-00000000.tc"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(StoreError) as refused:
            read_arrays(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()
    assert "chunk-00000000.tc" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_links_pipes_and_directories_are_not_read(file, tmp_path):
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "/dev/zero", "nowhere"):
        with pytest.raises(StoreError):
            read_header(tmp_path / name)
        with pytest.raises(StoreError):
            read_json(tmp_path / name)


def test_large_or_broken_json_is_refused(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(StoreError, match="no such file of a run is that large"):
        read_json(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DamagedFileError, match="not JSON"):
        read_json(path)


def test_a_link_is_replaced_and_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for name in ("a.json", ".new-a.json"):
        (tmp_path / name).symlink_to(victim)
    write_json(tmp_path / "a.json", {"x": 1})
    assert victim.read_text() == "kept"
    assert not (tmp_path / "a.json").is_symlink()
    assert read_json(tmp_path / "a.json") == {"x": 1}


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_leaves_the_old_file(call, code, file, monkeypatch):
    before = file.read_bytes()

    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(f"traceclass.sampling.files.os.{call}", refuse)
        with pytest.raises(WriteError, match=os.strerror(code)):
            write_arrays(file, {}, {"x": np.zeros(3)})
    assert file.read_bytes() == before
    assert [p.name for p in file.parent.iterdir()] == ["a.tc"]


def test_a_lock_is_held_once_and_freed(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock) as first:
        assert first
        assert is_locked(lock)
        with locked(lock) as second:
            assert not second
        assert is_locked(lock)
    assert not is_locked(lock)
    assert list(tmp_path.iterdir()) == []
    with locked(lock) as again:
        assert again


def test_a_lock_file_that_was_left_behind_is_no_lock(tmp_path):
    (tmp_path / "lock").write_text("")
    assert not is_locked(tmp_path / "lock")
    with locked(tmp_path / "lock") as held:
        assert held


def test_a_lock_behind_a_link_is_neither_taken_nor_asked(tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    (tmp_path / "nowhere").symlink_to(tmp_path / "new")
    for name in ("lock", "nowhere"):
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)), locked(tmp_path / name):
            pass
        assert not is_locked(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lock", "nowhere", "victim"]
    assert (tmp_path / "victim").read_text() == "kept"


def test_asking_for_a_lock_makes_no_file_and_needs_no_right_to_write(tmp_path, monkeypatch):
    assert not is_locked(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []
    real = os.open

    def read_only(path, flags, *arguments):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *arguments)

    with locked(tmp_path / "lock"), monkeypatch.context() as patched:
        patched.setattr("traceclass.sampling.files.os.open", read_only)
        assert is_locked(tmp_path / "lock")
        with pytest.raises(PermissionError), locked(tmp_path / "lock"):
            pass


def test_a_lock_dies_with_its_process(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from traceclass.sampling.files import locked\n"
        "with locked(Path(sys.argv[1])) as held: print(bool(held), flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert is_locked(tmp_path / "lock")
        with locked(tmp_path / "lock") as second:
            assert not second
        holder.kill()
    assert not is_locked(tmp_path / "lock")
    with locked(tmp_path / "lock") as again:
        assert again


def test_importing_needs_no_posix(tmp_path):
    """Without what only POSIX systems have, once other packages have been imported with it."""
    code = (
        "import jax, os, sys; sys.modules['fcntl'] = None\n"
        "for name in ('O_NOFOLLOW', 'O_NONBLOCK', 'O_CLOEXEC', 'O_DIRECTORY', 'sysconf'):\n"
        "    delattr(os, name)\n"
        "import traceclass\n"
        "from pathlib import Path\n"
        "from traceclass.sampling.files import read_json, write_json\n"
        "from traceclass.validation import physical_memory\n"
        "write_json(Path(sys.argv[1]), 3); print(read_json(Path(sys.argv[1])), physical_memory())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == ["3", str(sys.maxsize)]


def test_a_lock_on_a_deleted_file_is_not_taken(tmp_path, monkeypatch):
    """Whoever opened the file before it was deleted must not go on beside its successor."""
    lock, path_of = tmp_path / "lock", os.open
    opened = []

    def open_and_lose(path, *arguments, **named):
        descriptor = path_of(path, *arguments, **named)
        if not opened and Path(path) == lock:
            lock.unlink()
        opened.append(path)
        return descriptor

    monkeypatch.setattr("traceclass.sampling.files.os.open", open_and_lose)
    with locked(lock) as held:
        assert held
        assert len(opened) == 2
        assert lock.exists()
