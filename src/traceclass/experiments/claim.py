"""The right to write a run directory: checked before the work, held until it is done."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"
FILES = ("config.json", "versions.json", "results.json", "trace.nc", "arrays.nc", "report.html")
ENTRIES = frozenset((*FILES, "figures"))


class DirectoryError(Exception):
    """A run directory that cannot be used, said in one sentence."""


@contextmanager
def claimed(path: Path, *, overwrite: bool) -> Iterator[None]:
    """Hold `path` for one run: made if it is not there, locked, and empty or to be overwritten.

    Another run on the same place is refused while this one lasts; the lock dies with the process.
    If the block fails, what was made here is taken away again.
    """
    made: list[Path] = []
    try:
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise DirectoryError(f"{path} is not a directory; choose another --out.")
        _make(path, made)
        with (path / LOCK).open("w") as lock:
            _lock(lock, path)
            try:
                _check_content(path, overwrite=overwrite)
                yield
            finally:
                (path / LOCK).unlink(missing_ok=True)
    except OSError as error:
        raise DirectoryError(
            f"cannot write to {path} ({error.strerror or error}); choose another --out."
        ) from error
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # not empty: the run is there
                folder.rmdir()


def _make(path: Path, made: list[Path]) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir()
            made.append(folder)


def _lock(lock: object, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyright: ignore[reportArgumentType]
    except BlockingIOError as error:
        raise DirectoryError(f"another run is being written to {path}; wait for it.") from error


def _check_content(path: Path, *, overwrite: bool) -> None:
    present = {entry.name for entry in path.iterdir()} - {LOCK}
    if not present:
        return
    if not (present <= ENTRIES and _is_config_of_a_run(path / "config.json")):
        raise DirectoryError(
            f"{path} holds something that is not a run; it is left as it is. Choose another --out."
        )
    if not overwrite:
        raise DirectoryError(
            f"{path} already holds a run; choose another --out, or replace it with --overwrite."
        )


def _is_config_of_a_run(path: Path) -> bool:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"experiment", "preset", "settings"} <= config.keys()
