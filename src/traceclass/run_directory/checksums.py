"""SHA256SUMS: the checksum of every file of a run directory, written when all are there.

    # SHA-256 of the lines below: 5e1f...
    9b74...  config.json
    0c1d...  chain/tcnn-pcn-0/chunk-00000000.tc

It is what `sha256sum --check SHA256SUMS` reads, and its first line is the checksum of the others.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from traceclass.errors import UserValueError
from traceclass.run_directory.claim import CHECKPOINT, LOCK, SUMS, UNFINISHED, DirectoryError
from traceclass.sampling.files import StoreError, opened, read_arrays, write_file
from traceclass.sampling.store import LOCK as STORE_LOCK
from traceclass.sampling.stored import CHUNK, MANIFEST, check_manifest

_HEAD = "# SHA-256 of the lines below: "
# A line is a checksum and a name; this is room for a million of them.
_LARGEST = 2**28


class Verdict(NamedTuple):
    """What is known of one file: what is wrong with it, if something is, or that nothing is known.

    Nothing is known of files that have no checksum, as in directories of earlier versions.
    """

    name: str
    wrong: str | None
    is_known: bool = True

    def __str__(self) -> str:
        return self.wrong or ("whole" if self.is_known else "not known, it has no checksum")


def write_sums(path: Path, sums: Mapping[str, str]) -> None:
    """Write the checksums of files, by their names, to the directory `path`."""
    body = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()
    head = f"{_HEAD}{hashlib.sha256(body).hexdigest()}\n".encode()
    write_file(path / SUMS, [head, body])


def renew_sums(path: Path, names: Iterable[str]) -> None:
    """Take in what was drawn again; all other files keep the checksums they had."""
    sums = read_sums(path)
    if sums is None:  # an earlier version wrote the run: what was not summed then stays so
        return
    data = {name: sum_ for name, sum_ in sums.items() if not _is_drawn(name)}
    write_sums(path, data | sums_of(path, names))


def _is_drawn(name: str) -> bool:
    return name == "report.html" or name.startswith("figures/")


def read_sums(path: Path) -> dict[str, str] | None:
    """The checksums in the directory `path`; None if an earlier version wrote it, without any."""
    if not os.path.lexists(path / SUMS):
        return None
    with opened(path / SUMS) as file:
        text = file.read(_LARGEST)
    head, _, body = text.partition(b"\n")
    if head != f"{_HEAD}{hashlib.sha256(body).hexdigest()}".encode():
        raise DirectoryError(f"{path / SUMS} is damaged: its own checksum is another.")
    pairs = (line.split("  ", 1) for line in body.decode().splitlines())
    return {name: digest for digest, name in pairs}


def sums_of(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Checksums of these files of the directory `path`, by name."""
    return {name: _digest(path / name) for name in names}


def _digest(file: Path) -> str:
    with opened(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def files_in(path: Path) -> list[str]:
    """The files below `path` that belong to a run, by their names from there."""
    found = []
    for folder, _, names in os.walk(path):
        place = Path(folder).relative_to(path)
        if place.parts[:1] == (UNFINISHED,):
            continue
        found += [(place / name).as_posix() for name in names if name not in (LOCK, STORE_LOCK)]
    return sorted(name for name in found if name != SUMS)


def altered(path: Path, names: Iterable[str]) -> list[str]:
    """Those of the files that are not as they were written; none where nothing is known."""
    sums = read_sums(path)
    if sums is None:
        return []
    return [name for name in names if _wrong_with(path, name, sums) is not None]


def _wrong_with(path: Path, name: str, sums: Mapping[str, str]) -> str | None:
    if not os.path.lexists(path / name):
        return "it is missing" if name in sums else None
    if name not in sums:
        return f"{SUMS} does not name it"
    try:
        return None if _digest(path / name) == sums[name] else "it is not as it was written"
    except StoreError as error:
        return str(error)


def verdicts(path: Path) -> Iterator[Verdict]:
    """What is known of every file of a run directory, or of a run store, one after the other."""
    if not path.is_dir():
        raise DirectoryError(f"{path} is not a directory; give the --out of an earlier run.")
    names = files_in(path)
    if not any(Path(name).name in (MANIFEST, "config.json", CHECKPOINT) for name in names):
        raise UserValueError(f"{path} holds no run: there is nothing to verify.")
    try:
        sums = read_sums(path)
    except DirectoryError as error:
        yield Verdict(SUMS, str(error))
        return
    if sums is not None:
        yield Verdict(SUMS, None)
    every: set[str] = {*names, *(sums or {})}
    for name in sorted(every):
        wrong = _wrong_with(path, name, sums) if sums is not None else None
        is_known = sums is not None or _sums_itself(path / name)
        yield Verdict(name, wrong or _wrong_inside(path / name), is_known)


def _sums_itself(file: Path) -> bool:
    return file.name == MANIFEST or CHUNK.fullmatch(file.name) is not None


def _wrong_inside(file: Path) -> str | None:
    """What a file of a run store says of itself by its own checksums."""
    try:
        if CHUNK.fullmatch(file.name):
            read_arrays(file, [])
        elif file.name == MANIFEST:
            check_manifest(file.parent)
        elif not stat.S_ISREG(file.lstat().st_mode):
            return "it is not a plain file"
    except StoreError as error:
        return str(error)
    return None
