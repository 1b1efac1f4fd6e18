r"""Files of a run store: arrays with checksums, written whole or not at all, and a lock.

A file of arrays is, byte after byte,

    magic (8) | size of the header (8, little-endian) | SHA-256 of the header (32) | header | data

The header is JSON: `format`, the `version` of the library that wrote it, the arrays' names, dtypes
and shapes in the order of the data, the SHA-256 of the data, and `meta`, plain values. The data are
little-endian. Nothing is allocated before the sizes that a header claims have been compared with
the size of the file, and nothing in it can be executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import lock_descriptor

from traceclass.errors import UserError
from traceclass.version import __version__

# Format 1 named the arrays of a chunk by the text that JAX has for a path; see `stored`.
FORMAT = 2
READABLE = (1, 2)
_MAGIC = b"trcclass"
_PREFIX = len(_MAGIC) + 8 + 32
# A header names arrays; one of this size is not ours.
_LARGEST_HEADER = 2**20
_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES = frozenset(
    ("bool", "float16", "float32", "float64", "complex64", "complex128", *_INTEGERS)
)


def _flags(*names: str) -> int:
    """Flags of `os.open` by name; those that this system does not have are left out."""
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


_READ_ONLY = _flags("O_RDONLY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
_NEW = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
_READ_WRITE = _flags("O_RDWR", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
_LOCK = _READ_WRITE | os.O_CREAT
# Seconds before each attempt to take a lock: whoever asks `is_locked` holds it for an instant.
_PAUSES = (0.0, 0.02, 0.1)
TEMPORARY = ".new-"


class StoreError(UserError):
    """A run store that cannot be used as asked, said in one sentence."""


class DamagedFileError(StoreError):
    """A file that is not what was once written."""


class UnknownFormatError(StoreError):
    """A file that a newer version of the library wrote, in a format that this one cannot read."""


class WriteError(StoreError):
    """The disk refused: it is full, read-only or broken."""


# What to do about a refusal of the disk, by its reason.
_REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.ENOENT: "bring the directory back",
    errno.ENOTDIR: "bring the directory back",
}


def reason(error: OSError | WriteError) -> str:
    """What the system said, in its own few words."""
    cause = error.__cause__ if isinstance(error, WriteError) else error
    return getattr(cause, "strerror", None) or str(error)


def remedy(error: OSError | WriteError) -> str:
    """What to do about it, in a few words."""
    cause = error.__cause__ if isinstance(error, WriteError) else error
    return _REMEDIES.get(getattr(cause, "errno", None) or 0, "see to the disk")


class Entry(NamedTuple):
    """One array of a file, and where its bytes begin."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def num_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


class Header(NamedTuple):
    """What a file says of itself."""

    format: int
    meta: dict[str, Any]
    entries: dict[str, Entry]
    sha256: str
    data_offset: int


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> int:
    """Write a file of arrays, whole or not at all; returns its size."""
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise TypeError(f"{name!r} holds {array.dtype}, which is not a plain number.")
    contiguous = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    data = [array.reshape(-1).view(np.uint8).data for array in contiguous.values()]
    checksum = hashlib.sha256()
    for part in data:
        checksum.update(part)
    header = json.dumps(
        {
            "format": FORMAT,
            "version": __version__,
            "meta": dict(meta),
            "arrays": [
                {"name": name, "dtype": array.dtype.name, "shape": arrays[name].shape}
                for name, array in contiguous.items()
            ],
            "sha256": checksum.hexdigest(),
        },
        allow_nan=False,
    ).encode()
    prefix = _MAGIC + len(header).to_bytes(8, "little") + hashlib.sha256(header).digest()
    write_file(path, [prefix, header, *data])
    return len(prefix) + len(header) + sum(part.nbytes for part in data)


def read_header(path: Path) -> Header:
    """The header of a file of arrays, after every size in it has been compared with the file's."""
    with opened(path) as file:
        return _header(path, file)


def read_arrays(path: Path, names: Any = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The meta values and the named arrays (None: all), after the checksum of all data agreed."""
    with opened(path) as file:
        header = _header(path, file)
        wanted = set(header.entries) if names is None else set(names)
        missing = wanted - set(header.entries)
        if missing:
            raise DamagedFileError(f"{path} has no array {sorted(missing)[0]!r}.")
        checksum, arrays = hashlib.sha256(), {}
        for name, entry in header.entries.items():
            if name in wanted:
                array = np.empty(entry.shape, entry.dtype)
                _fill(path, file, array.reshape(-1).view(np.uint8).data, checksum)
                arrays[name] = array
            else:
                _skim(path, file, entry.num_bytes, checksum)
        if checksum.hexdigest() != header.sha256:
            raise DamagedFileError(f"{path} is damaged: its checksum is not that of its data.")
        return header.meta, arrays


def _header(path: Path, file: Any) -> Header:
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(_PREFIX)
    if len(prefix) < _PREFIX or not prefix.startswith(_MAGIC):
        raise DamagedFileError(
            f"{path} is damaged, or not a file of a run: it does not begin as one."
        )
    length = int.from_bytes(prefix[len(_MAGIC) : len(_MAGIC) + 8], "little")
    if length > min(_LARGEST_HEADER, size - _PREFIX):
        raise DamagedFileError(f"{path} is damaged: its header claims {length} bytes.")
    text = file.read(length)
    if hashlib.sha256(text).digest() != prefix[-32:]:
        raise DamagedFileError(f"{path} is damaged: its header has another checksum.")
    try:
        header = json.loads(text)
        check_format(path, header["format"], header.get("version"))
        entries, offset = {}, _PREFIX + length
        for described in header["arrays"]:
            entry = _entry(described, offset)
            entries[str(described["name"])] = entry
            offset += entry.num_bytes
        found = Header(
            header["format"],
            dict(header["meta"]),
            entries,
            str(header["sha256"]),
            _PREFIX + length,
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedFileError(
            f"{path} is damaged: its header makes no sense ({error})."
        ) from error
    if offset != size:
        raise DamagedFileError(
            f"{path} is damaged: its header claims {offset} bytes, the file has {size}."
        )
    return found


def check_format(path: Path, found: Any, version: Any) -> None:
    """Refuse a format that this version of the library cannot read."""
    if found in READABLE:
        return
    writer = "an unknown version" if version is None else f"version {str(version)[:20]!r}"
    raise UnknownFormatError(
        f"{path} has format {str(found)[:20]!r}, written by {writer} of traceclass; this version, "
        f"{__version__}, reads formats {' and '.join(map(str, READABLE))}. Use a newer version."
    )


def _entry(described: dict[str, Any], offset: int) -> Entry:
    dtype, shape = described["dtype"], described["shape"]
    if dtype not in _DTYPES:
        raise ValueError(f"dtype {dtype!r}")
    if not all(type(n) is int and 0 <= n < 2**48 for n in shape) or len(shape) > 32:
        raise ValueError(f"shape {shape!r}")
    return Entry(np.dtype(dtype).newbyteorder("<"), tuple(shape), offset)


def _fill(path: Path, file: Any, buffer: memoryview, checksum: Any) -> None:
    if file.readinto(buffer) != len(buffer):
        raise DamagedFileError(f"{path} is damaged: it ends too early.")
    checksum.update(buffer)


def _skim(path: Path, file: Any, num_bytes: int, checksum: Any) -> None:
    """Take bytes into the checksum without keeping them."""
    block = memoryview(bytearray(min(num_bytes, 2**20)))
    while num_bytes:
        part = block[: min(num_bytes, len(block))]
        _fill(path, file, part, checksum)
        num_bytes -= len(part)


@contextlib.contextmanager
def opened(path: Path) -> Generator[Any, None, None]:
    """A plain file, open for reading; links, pipes and devices are refused."""
    try:
        descriptor = os.open(path, _READ_ONLY)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StoreError(f"{path} is not a plain file.")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}).") from error


def read_json(path: Path, largest: int = 2**24) -> Any:
    """The content of a JSON file of bounded size."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise StoreError(f"{path} has {size} bytes; no such file of a run is that large.")
        text = file.read(largest)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged: it is not JSON ({error}).") from error


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_file(path, [json_bytes(content)])


def json_bytes(content: Any) -> bytes:
    """JSON as the library lays it out."""
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def write_netcdf(path: Path, content: Any) -> None:
    """Write an xarray dataset or tree to a netCDF file, whole or not at all.

    HDF5 makes it in memory: on a disk that fills up it may leave half a file without an error.
    """
    write_file(path, [content.to_netcdf(engine="h5netcdf")])


def write_file(path: Path, parts: list[Any]) -> None:
    """Write bytes to a new name, flush, rename, flush the directory.

    A crash leaves the old file or the new one, and at most a temporary file beside it. Links are
    replaced, not followed.
    """
    temporary = path.parent / f"{TEMPORARY}{path.name}"
    try:
        descriptor = _open_new(temporary)
        try:
            for part in parts:
                _write_all(descriptor, memoryview(part))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        flush_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise WriteError(f"cannot write {path} ({error.strerror or error}).") from error


def _open_new(path: Path) -> int:
    """A new file; one left over by a crash is replaced."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return os.open(path, _NEW, 0o644)


def _write_all(descriptor: int, part: memoryview) -> None:
    while part.nbytes:
        part = part[os.write(descriptor, part) :]


def flush_directory(path: Path) -> None:
    """Make a rename in this directory last, where the system can flush directories."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, _flags("O_RDONLY", "O_DIRECTORY", "O_CLOEXEC"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Held(NamedTuple):
    """A lock file that this process holds."""

    path: Path
    descriptor: int

    def is_there(self) -> bool:
        """Whether the file still has its name: its directory was neither removed nor replaced."""
        return _is_at(self.path, self.descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Generator[Held | None, None, None]:
    """Try to hold the lock file `path`; None if another process does. It is freed on death.

    The file is deleted at the end, while it is held. So whoever gets a lock compares the locked
    file with the one that is there now: a lock on a deleted file means nothing. The lock itself is
    filelock's, taken on a descriptor that is opened here, so that links are not followed and there
    is no fallback to a lock that would outlive its process.
    """
    attempts = (_try_lock(path, pause) for pause in _PAUSES)
    descriptor = next((held for held in attempts if held is not None), None)
    try:
        yield None if descriptor is None else Held(path, descriptor)
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)


def _try_lock(path: Path, pause: float) -> int | None:
    time.sleep(pause)
    descriptor = os.open(path, _LOCK, 0o644)
    try:
        if lock_descriptor(descriptor, blocking=False) and _is_at(path, descriptor):
            return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`; nothing is created."""
    return all(_is_held(path, pause) for pause in _PAUSES)


def _is_held(path: Path, pause: float) -> bool:
    time.sleep(pause)
    # A network file system locks only files that are open for writing; a folder of somebody else
    # may let us read only.
    for flags in (_READ_WRITE, _READ_ONLY):
        try:
            descriptor = os.open(path, flags)
        except OSError:
            continue
        try:
            return not lock_descriptor(descriptor, blocking=False)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return False
