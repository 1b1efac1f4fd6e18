"""The right to write a run directory: checked before the work, held until it is done."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from traceclass.errors import UserError
from traceclass.sampling.files import StoreError, WriteError, locked, read_json, write_file

LOCK, CHAIN, UNFINISHED = ".lock", "chain", "unfinished"
SUMS = "SHA256SUMS"
# What the directory of a training has in place of config.json; see `training_files`.
CHECKPOINT = "checkpoint.npz"
_SUM = "sha256"
FILES = ("config.json", "versions.json", "results.json", "trace.nc", "arrays.nc", "report.html")
ENTRIES = frozenset((*FILES, SUMS, "figures", CHAIN))


class DirectoryError(UserError):
    """A run directory that cannot be used, said in one sentence."""


@contextmanager
def claimed(path: Path, *, overwrite: bool = False, resume: bool = False) -> Iterator[None]:
    """Hold `path` for one run: made if it is not there, locked, and empty or to be written to.

    Another run on the same place is refused while this one lasts; the lock dies with the process.
    If the block fails before a chain has begun, what was made here is taken away again.
    """
    made: list[Path] = []
    is_at_work = False
    try:
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise DirectoryError(f"{path} is not a directory; choose another --out.")
        _make(path, made)
        with locked(path / LOCK) as held:
            if not held:
                raise DirectoryError(f"another run is being written to {path}; wait for it.")
            _check_content(path, overwrite=overwrite, resume=resume)
            with _undone_if_refused(path):
                is_at_work = True
                yield
                is_at_work = False
    except OSError as error:
        if is_at_work:  # an error of the work itself, not of the place
            raise
        raise DirectoryError(
            f"cannot write to {path} ({error.strerror or error}); choose another --out."
        ) from error
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # not empty: the run is there
                folder.rmdir()


@contextmanager
def _undone_if_refused(path: Path) -> Iterator[None]:
    """Leave the description of the run as it was, if the new one was refused before any work."""
    folder = path / UNFINISHED
    config = folder / "config.json"
    before = config.read_bytes() if config.is_file() and not config.is_symlink() else None
    try:
        yield
    except BaseException as error:
        # What was at work when it stopped, or when a bug stopped it, is kept: --resume goes on.
        was_refused = isinstance(error, UserError) and not isinstance(error, WriteError)
        if was_refused or not chain_of(path).exists():
            if before is not None:
                with suppress(WriteError):  # the disk may be what stopped the run
                    write_file(config, [before])
            elif not (folder / CHAIN).exists():
                shutil.rmtree(folder, ignore_errors=True)
        raise


def _make(path: Path, made: list[Path]) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            with suppress(FileExistsError):  # another process was faster
                folder.mkdir()
                made.append(folder)


def _check_content(path: Path, *, overwrite: bool, resume: bool) -> None:
    present = {entry.name for entry in path.iterdir()} - {LOCK}
    if not present:
        return
    is_run = present <= ENTRIES | {UNFINISHED} and described(path) is not None
    if not is_run or any((path / name).is_symlink() for name in present):
        raise DirectoryError(
            f"{path} holds something that is not a run; it is left as it is. Choose another --out."
        )
    if overwrite:
        shutil.rmtree(path / UNFINISHED, ignore_errors=True)
    elif not resume:
        what = "an unfinished run" if UNFINISHED in present else "a run"
        raise DirectoryError(
            f"{path} already holds {what}; go on with it by --resume, choose another --out, or "
            "replace it with --overwrite."
        )


def described(path: Path) -> dict[str, Any] | None:
    """The experiment, preset and settings of the run in `path`, of the unfinished one first."""
    for file in (path / UNFINISHED / "config.json", path / "config.json"):
        try:
            config = read_json(file)
        except StoreError:
            continue
        if isinstance(config, dict) and {"experiment", "preset", "settings"} <= config.keys():
            return config
    return None


def summed(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description with the checksum of what it says, for config.json."""
    plain = {name: value for name, value in description.items() if name != _SUM}
    text = json.dumps(plain, sort_keys=True).encode()
    return plain | {_SUM: hashlib.sha256(text).hexdigest()}


def is_as_written(description: Mapping[str, Any]) -> bool:
    """Whether a description has the checksum of what it says; those of older versions have none."""
    return _SUM not in description or summed(description) == dict(description)


def chain_of(path: Path) -> Path:
    """Where the chain of the run in `path` is: its store, or that of the unfinished run."""
    finished, unfinished = path / CHAIN, path / UNFINISHED / CHAIN
    return unfinished if unfinished.exists() or not finished.exists() else finished
