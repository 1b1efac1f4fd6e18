"""The run store: a directory of immutable chunks from which a run goes on, or is read.

manifest.json    what the run is (see `identity`), and what was forced on it
chunk-N.tc       draws, counters, the full state of all chains and of the adaptation after them
lock             held by the process that writes; the operating system frees it on death

A chunk is written to a temporary name, flushed and renamed: it is whole, or not there. The last
good one is all that is needed to go on, to the same draws bit for bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from traceclass.errors import UserValueError
from traceclass.sampling.files import (
    TEMPORARY,
    DamagedFileError,
    Entry,
    StoreError,
    WriteError,
    flush_directory,
    locked,
    read_arrays,
    read_header,
    read_json,
    write_arrays,
    write_json,
)
from traceclass.sampling.identity import Identity, differences

MANIFEST, LOCK = "manifest.json", "lock"
_CHUNK = re.compile(r"chunk-(\d{8})\.tc")
_DRAWS = "draws/"
# For headers, and for the states of chains that every chunk holds.
_ROOM = 1.05


class Chunk(NamedTuple):
    """One committed piece of a run; its header is read again when it is needed."""

    path: Path
    first_draw: int
    num_draws: int


class Contents(NamedTuple):
    """The chunks of a run that follow one another, and what is wrong with the next, if it is."""

    chunks: list[Chunk]
    damage: str | None

    @property
    def num_draws(self) -> int:
        return self.chunks[-1].first_draw + self.chunks[-1].num_draws if self.chunks else 0

    def last(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Meta values and arrays of the last chunk, without its draws."""
        path = self.chunks[-1].path
        names = read_header(path).entries
        return read_arrays(path, [name for name in names if not name.startswith(_DRAWS)])


class Manifest(NamedTuple):
    """What a run is, and where a user forced it to go on though it was not the same."""

    identity: Identity
    forced: list[dict[str, Any]]

    @property
    def tag(self) -> str:
        """A name of the run that its chunks carry."""
        return _sha256(self.identity)

    @property
    def checksum(self) -> str:
        return _sha256(self._asdict())


def _sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class StoredDraws(Mapping[str, np.ndarray]):
    """Draws by name, (chains, draws, ...), read from the chunks each time they are asked for."""

    def __init__(self, chunks: Sequence[Chunk]):
        self._chunks = [chunk for chunk in chunks if chunk.num_draws]
        first = read_header(self._chunks[0].path).entries if self._chunks else {}
        self._like = {
            name.removeprefix(_DRAWS): entry
            for name, entry in first.items()
            if name.startswith(_DRAWS)
        }

    def __getitem__(self, name: str) -> np.ndarray:
        like = self._like[name]
        stored = _DRAWS + name
        sizes = [self._size(chunk, stored, like) for chunk in self._chunks]
        whole = np.empty((like.shape[0], sum(sizes), *like.shape[2:]), like.dtype)
        done = 0
        for chunk, size in zip(self._chunks, sizes, strict=True):
            part = read_arrays(chunk.path, [stored])[1][stored]
            whole[:, done : done + size] = part
            done += size
        return whole

    def _size(self, chunk: Chunk, stored: str, like: Entry) -> int:
        """Draws of one array in a chunk; all its other sizes are those of the first chunk's."""
        entry = read_header(chunk.path).entries.get(stored)
        if entry is None or _besides_draws(entry) != _besides_draws(like):
            raise DamagedFileError(f"{chunk.path} is damaged: {stored!r} is not like the others.")
        return entry.shape[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._like)

    def __len__(self) -> int:
        return len(self._like)


def _besides_draws(entry: Entry) -> tuple[Any, ...]:
    """All that must agree between chunks, or joining small ones could claim any memory."""
    return (entry.dtype, len(entry.shape), entry.shape[0], entry.shape[2:])


class Store:
    """A run directory held for writing; made by `opened_for_writing`."""

    def __init__(self, path: Path, manifest: Manifest, contents: Contents):
        self.path = path
        self.contents = contents
        self._manifest = manifest

    @property
    def draws(self) -> StoredDraws:
        return StoredDraws(self.contents.chunks)

    def commit(
        self,
        meta: Mapping[str, Any],
        draws: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray],
    ) -> None:
        """Add a chunk; on return it will survive the machine."""
        number, done = len(self.contents.chunks), self.contents.num_draws
        path = self.path / f"chunk-{number:08d}.tc"
        described = {
            "run": self._manifest.tag,
            "number": number,
            "first_draw": done,
            "num_draws": draws["log_likelihood"].shape[1] if draws else 0,
            "time": time.time(),
        }
        named = {_DRAWS + name: array for name, array in draws.items()}
        try:
            write_arrays(path, dict(meta) | described, named | dict(state))
        except WriteError as error:
            raise WriteError(
                f"{error} All before draw {done} is kept: make room, then go on with resume."
            ) from error
        self.contents.chunks.append(Chunk(path, done, described["num_draws"]))


def check_room(path: Path, num_bytes: int) -> None:
    """Refuse a run whose draws would not fit the disk."""
    parent = next(p for p in (path, *path.absolute().parents) if p.exists())
    free = shutil.disk_usage(parent).free
    if num_bytes * _ROOM > free:
        raise UserValueError(
            f"the draws would take {num_bytes / 2**30:.3g} GiB in {path}, and {free / 2**30:.3g} "
            "GiB are free. Keep fewer draws, or positions of every k-th only (store_positions=k), "
            "or none (store_positions=False)."
        )


@contextlib.contextmanager
def opened_for_writing(
    path: Path, identity: Identity, *, resume: bool, force: bool
) -> Iterator[Store]:
    """Hold the run directory `path`, new or to be gone on with, until the block ends.

    Chunks from the first damaged one on are set aside; `Store.contents.damage` names it.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise StoreError(f"{path} is not a directory; choose another place for the run.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with locked(path / LOCK) as held:
            if not held:
                raise StoreError(f"{path} is being written by another process; wait for it.")
            manifest = _claimed(path, identity, resume=resume, force=force)
            contents = _verified(contents_of(path, manifest))
            _set_aside(path, len(contents.chunks))
            yield Store(path, manifest, contents)
    except OSError as error:
        raise WriteError(f"cannot write to {path} ({error.strerror or error}).") from error


def _claimed(path: Path, identity: Identity, *, resume: bool, force: bool) -> Manifest:
    """The manifest of a held directory: a new one, or the old one if the run is the same."""
    present = {entry.name for entry in path.iterdir()} - {LOCK}
    present = {name for name in present if not name.startswith(TEMPORARY)}
    if MANIFEST not in present:
        if present:
            raise StoreError(
                f"{path} holds something that is not a run (e.g. {min(present)!r}); it is left as "
                "it is. Choose another place."
            )
        manifest = Manifest(identity, [])
        _write_manifest(path, manifest)
        return manifest
    if not resume:
        raise StoreError(f"{path} already holds a run; go on with it by resume, or choose another.")
    manifest = read_manifest(path)
    unlike = differences(manifest.identity, identity)
    if unlike and not force:
        raise StoreError(
            f"{path} holds another run: {'; '.join(unlike)}. Go on with the same arguments, choose "
            "another place, or force it (the draws are then of two different runs)."
        )
    if unlike:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        chunks = len(contents_of(path, manifest).chunks)
        forced = {"time": now, "after_chunks": chunks, "differences": unlike}
        manifest = manifest._replace(forced=[*manifest.forced, forced])
        _write_manifest(path, manifest)
    return manifest


def _write_manifest(path: Path, manifest: Manifest) -> None:
    write_json(path / MANIFEST, manifest._asdict() | {"sha256": manifest.checksum})


def read_manifest(path: Path) -> Manifest:
    """The manifest of a run directory."""
    if not path.is_dir():
        raise StoreError(f"{path} is not a directory; give the store of a run.")
    if not os.path.lexists(path / MANIFEST):
        raise StoreError(f"{path} is not the store of a run: it has no {MANIFEST}.")
    content = read_json(path / MANIFEST)
    try:
        manifest = Manifest(dict(content["identity"]), list(content["forced"]))
        checksum = content["sha256"]
    except (TypeError, KeyError, ValueError) as error:
        raise DamagedFileError(f"{path / MANIFEST} is damaged: it lacks {error}.") from error
    if checksum != manifest.checksum:
        raise DamagedFileError(f"{path / MANIFEST} is damaged: its checksum is another.")
    return manifest


def contents_of(path: Path, manifest: Manifest) -> Contents:
    """Chunks by their headers, up to the first that is missing or is not what it should be."""
    numbers = sorted(
        int(match[1]) for match in map(_CHUNK.fullmatch, os.listdir(path)) if match is not None
    )
    chunks: list[Chunk] = []
    for number in range(numbers[-1] + 1 if numbers else 0):
        file = path / f"chunk-{number:08d}.tc"
        try:
            chunks.append(_checked_chunk(file, chunks, manifest))
        except StoreError as error:
            return Contents(chunks, str(error))
    return Contents(chunks, None)


def _checked_chunk(file: Path, before: list[Chunk], manifest: Manifest) -> Chunk:
    """The chunk in `file`, if it is the next after `before`."""
    header = read_header(file)
    first_draw = Contents(before, None).num_draws
    wanted = {"run": manifest.tag, "number": len(before), "first_draw": first_draw}
    for name, value in wanted.items():
        if header.meta.get(name) != value:
            raise DamagedFileError(
                f"{file} is not the next of this run: its {name} is {header.meta.get(name)!r}, "
                f"not {value!r}."
            )
    num_draws = header.meta.get("num_draws")
    shapes = {
        entry.shape[1:2]
        for name, entry in header.entries.items()
        if name.startswith(_DRAWS) and name != _DRAWS + "position"
    }
    is_short = any(
        len(entry.shape) < 2 for name, entry in header.entries.items() if name.startswith(_DRAWS)
    )
    if is_short or not isinstance(num_draws, int) or (shapes or {(0,)}) != {(num_draws,)}:
        raise DamagedFileError(f"{file} is damaged: its draws differ in number.")
    return Chunk(file, first_draw, num_draws)


def _verified(contents: Contents) -> Contents:
    """The same after the checksums of all data were computed again."""
    for number, chunk in enumerate(contents.chunks):
        try:
            read_arrays(chunk.path, [])
        except StoreError as error:
            return Contents(contents.chunks[:number], str(error))
    return contents


def _set_aside(path: Path, number: int) -> None:
    """Take what a crash left, and chunks from `number` on, out of the way."""
    moved = False
    for entry in list(path.iterdir()):
        match = _CHUNK.fullmatch(entry.name)
        if entry.name.startswith(TEMPORARY):
            entry.unlink()
        elif match is not None and int(match[1]) >= number:
            entry.rename(path / f"damaged-{time.time_ns()}-{entry.name}")
            moved = True
    if moved:
        flush_directory(path)
