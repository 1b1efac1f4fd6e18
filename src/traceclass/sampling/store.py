"""The run store: a directory of immutable chunks from which a run goes on, or is opened.

manifest.json    what the run is (see `identity`), and what was forced on it
chunk-N.tc       draws, counters, the full state of all chains and of the adaptation after them
lock             held by the process that writes; the operating system frees it on death

A chunk is written to a temporary name, flushed and renamed: it is whole, or not there. The last
good one is all that is needed to go on, to the same draws bit for bit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from traceclass.errors import UserValueError
from traceclass.posterior import Posterior, require_posterior
from traceclass.sampling.files import (
    TEMPORARY,
    DamagedFileError,
    Held,
    StoreError,
    WriteError,
    flush_directory,
    is_locked,
    locked,
    read_arrays,
    remedy,
    write_arrays,
    write_json,
)
from traceclass.sampling.identity import (
    Identity,
    differences,
    model_differences,
    word_differences,
)
from traceclass.sampling.run import Run
from traceclass.sampling.stored import (
    CHUNK,
    DRAWS,
    MANIFEST,
    POSITION,
    Chunk,
    Contents,
    Manifest,
    StoredDraws,
    contents_of,
    moments_in,
    read_manifest,
)
from traceclass.validation import require_path
from traceclass.version import __version__

LOCK = "lock"
_NO_WORDS: Mapping[str, str] = MappingProxyType({})
# For headers, and for the states of chains that every chunk holds.
_ROOM = 1.05


class RunStatus(NamedTuple):
    """How far a stored run is."""

    is_running: bool
    warmup_done: int
    num_warmup: int
    num_draws: int
    asked: int
    run: Run | None
    damage: str | None
    forced: int

    @property
    def is_finished(self) -> bool:
        is_warm = self.warmup_done == self.num_warmup
        return is_warm and self.num_draws >= self.asked > 0

    @property
    def seconds_left(self) -> float | None:
        """How long sampling will take at the pace so far; None if nothing is known of it."""
        if self.run is None or not self.num_draws:
            return None
        left = max(self.asked - self.num_draws, 0)
        return self.run.sampling_seconds / self.num_draws * left


def open_run(path: str | os.PathLike[str], posterior: Posterior | None = None) -> Run:
    """Open the run in the directory `path`, as far as it has come; it may be being written.

    Draws are read from disk when they are asked for, and their checksums compared.

    Parameters
    ----------
    path : path
        The `store` that was given to `tc.sample`.
    posterior : Posterior, optional
        The one it was sampled from; another one is refused. It is needed only to evaluate the
        function at new points.

    Returns
    -------
    Run
        The same as `tc.sample` returned, or would have returned so far.
    """
    path = require_path(path, "path")
    if posterior is not None:
        _check_posterior(path, posterior)
    status = run_status(path)
    if status.damage is not None:
        raise DamagedFileError(f"{status.damage} Resume the run to make the rest again.")
    if status.run is None:
        raise StoreError(
            f"{path} has no draws yet (warm-up step {status.warmup_done} of {status.num_warmup}); "
            "resume it, or open it later."
        )
    return dataclasses.replace(status.run, posterior=posterior)


def _check_posterior(path: Path, posterior: Posterior) -> None:
    """Refuse another posterior than the one that the draws in `path` are from."""
    require_posterior(posterior)
    manifest = read_manifest(path)
    unlike = model_differences(manifest.identity, manifest.words, posterior)
    if unlike:
        raise StoreError(
            f"{path} was sampled from another posterior: {'; '.join(unlike)}. Open it with the one "
            "it was sampled from."
        )


def run_status(path: str | os.PathLike[str]) -> RunStatus:
    """How far the run in the directory `path` is, and what is wrong with it.

    Checksums of draws are compared when they are read, those of warm-up here: nobody else does.
    """
    path = Path(path)
    manifest = read_manifest(path)
    contents = _verified(contents_of(path, manifest), with_draws=False)
    meta: dict[str, Any] = {}
    run = None
    try:
        if contents.chunks:
            meta, arrays = contents.last()
            if contents.num_draws:
                run = _run(contents, meta, arrays)
        return RunStatus(
            is_running=is_locked(path / LOCK),
            warmup_done=int(meta.get("warmup_done", 0)),
            num_warmup=int(manifest.identity["num_warmup"]),
            num_draws=contents.num_draws,
            asked=int(meta.get("asked", 0)),
            run=run,
            damage=contents.damage,
            forced=len(manifest.forced),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DamagedFileError(f"{path} is damaged: it lacks {error}.") from error


def _run(contents: Contents, meta: dict[str, Any], arrays: dict[str, Any]) -> Run:
    return Run(
        posterior=None,
        recorded=StoredDraws(contents.chunks),
        last_positions=arrays[POSITION],
        running_moments=moments_in(arrays, [str(name) for name in meta["moments"]]),
        num_samples=contents.num_draws,
        **meta["description"],
    )


class Store:
    """A run directory held for writing; made by `opened_for_writing`."""

    def __init__(self, path: Path, manifest: Manifest, contents: Contents, lock: Held):
        self.path = path
        self.contents = contents
        self._manifest = manifest
        self._lock = lock

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
        self._require_directory(done)
        path = self.path / f"chunk-{number:08d}.tc"
        described = {
            "run": self._manifest.tag,
            "number": number,
            "first_draw": done,
            "num_draws": draws["log_likelihood"].shape[1] if draws else 0,
            "time": time.time(),
        }
        named = {DRAWS + name: array for name, array in draws.items()}
        try:
            write_arrays(path, dict(meta) | described, named | dict(state))
        except WriteError as error:
            self._require_directory(done)  # it may have gone since
            raise WriteError(
                f"{error} All before draw {done} is kept: {remedy(error)}, then go on with resume."
            ) from error
        self.contents.chunks.append(Chunk(path, done, described["num_draws"]))

    def _require_directory(self, done: int) -> None:
        """Refuse to write where the run is no longer, or where another has taken its place.

        Who deletes the lock alone does no harm, as long as nobody else takes it.
        """
        if self._lock.is_there():
            return
        if os.path.lexists(self._lock.path) or not self._is_ours():
            raise WriteError(
                f"{self.path} is gone: it was removed or replaced under the run, or its disk was "
                f"taken away, with the {done} draws in it. If it comes back, go on with resume."
            )

    def _is_ours(self) -> bool:
        try:
            return read_manifest(self.path).tag == self._manifest.tag
        except StoreError:
            return False


def num_stored(path: Path) -> int:
    """Draws that a run to be resumed has in the directory `path`; 0 if there is none."""
    if not os.path.lexists(path / MANIFEST):
        return 0
    return contents_of(path, read_manifest(path)).num_draws


def check_room(path: Path, num_bytes: int) -> None:
    """Refuse a run of which what is still to be written would not fit the disk."""
    parent = next(p for p in (path, *path.absolute().parents) if p.exists())
    total, _, free = shutil.disk_usage(parent)
    # What has no size, such as /proc, is no disk; writing will say what is wrong.
    if total and num_bytes * _ROOM > free:
        raise UserValueError(
            f"the draws would take {num_bytes / 2**30:.3g} GiB in {path}, and {free / 2**30:.3g} "
            "GiB are free. Keep fewer draws, or positions of every k-th only (store_positions=k), "
            "or none (store_positions=False)."
        )


@contextlib.contextmanager
def opened_for_writing(
    path: Path,
    identity: Identity,
    words: Mapping[str, str] = _NO_WORDS,
    *,
    resume: bool,
    force: bool,
) -> Generator[Store, None, None]:
    """Hold the run directory `path`, new or to be gone on with, until the block ends.

    `words` say what the posterior was made from, for whoever opens the run with another one.
    Chunks from the first damaged one on are set aside; `Store.contents.damage` names it.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise StoreError(f"{path} is not a directory; choose another place for the run.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with locked(path / LOCK) as held:
            if not held:
                raise StoreError(f"{path} is being written by another process; wait for it.")
            manifest = _claimed(path, identity, words, resume=resume, force=force)
            contents = _verified(contents_of(path, manifest))
            _set_aside(path, len(contents.chunks))
            yield Store(path, manifest, contents, held)
    except OSError as error:
        raise WriteError(f"cannot write to {path} ({error.strerror or error}).") from error


def _claimed(
    path: Path, identity: Identity, words: Mapping[str, str], *, resume: bool, force: bool
) -> Manifest:
    """The manifest of a held directory: a new one, or the old one if the run is the same."""
    present = {entry.name for entry in path.iterdir()} - {LOCK}
    present = {name for name in present if not name.startswith(TEMPORARY)}
    if MANIFEST not in present:
        if present:
            raise StoreError(
                f"{path} holds something that is not a run (e.g. {min(present)!r}); it is left as "
                "it is. Choose another place."
            )
        manifest = Manifest(identity, [], dict(words))
        _write_manifest(path, manifest)
        return manifest
    if not resume:
        raise StoreError(f"{path} already holds a run; go on with it by resume, or choose another.")
    manifest = read_manifest(path)
    unlike = differences(manifest.identity, identity)
    if unlike:
        # What can be said in words comes before the digests.
        unlike = word_differences(manifest.words, words) + unlike
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
    content = manifest._asdict() | manifest.checksums | {"version": __version__}
    write_json(path / MANIFEST, content)


def _verified(contents: Contents, *, with_draws: bool = True) -> Contents:
    """The chunks up to the first whose data do not have the checksum they had."""
    for number, chunk in enumerate(contents.chunks):
        try:
            if with_draws or not chunk.num_draws:
                read_arrays(chunk.path, [])
        except StoreError as error:
            return Contents(contents.chunks[:number], str(error))
    return contents


def _name_aside(file: Path) -> Path:
    """A name that nothing has; a clock may have been set back to a moment that was there before."""
    stamp = time.time_ns()
    while os.path.lexists(file.parent / f"damaged-{stamp}-{file.name}"):
        stamp += 1
    return file.parent / f"damaged-{stamp}-{file.name}"


def _set_aside(path: Path, number: int) -> None:
    """Take what a crash left, and chunks from `number` on, out of the way."""
    moved = False
    for entry in list(path.iterdir()):
        match = CHUNK.fullmatch(entry.name)
        if entry.name.startswith(TEMPORARY):
            entry.unlink()
        elif match is not None and int(match[1]) >= number:
            entry.rename(_name_aside(entry))
            moved = True
    if moved:
        flush_directory(path)
