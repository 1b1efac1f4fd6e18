"""Files that a user asks for: whole or not at all, and never in place of something else."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from traceclass.sampling.files import TEMPORARY, StoreError, WriteError, reason

# What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


@contextlib.contextmanager
def new_file(
    path: Path, *, overwrite: bool, own: Sequence[Path] = ()
) -> Generator[Path, None, None]:
    """A place to write a file for a user; it is renamed to `path` when the block ends well.

    What is there already stays, unless it is to be overwritten and is a plain file. Nothing is
    written into a folder of `own`, which the library keeps in order itself, and links are not
    followed.
    """
    _check_target(path, overwrite=overwrite, own=own)
    try:
        with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=TEMPORARY) as folder:
            temporary = Path(folder) / path.name
            yield temporary
            if overwrite:
                temporary.replace(path)
            else:
                _put(temporary, path)
    except FileExistsError as error:
        raise StoreError(_there_already(path)) from error
    except (OSError, WriteError) as error:
        raise WriteError(f"cannot write {path} ({reason(error)}).") from error


def _put(temporary: Path, path: Path) -> None:
    """Give a file its name, if nothing has come to that place meanwhile."""
    try:
        # Unlike a rename, a link never takes the place of anything.
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(error.errno, "there already", str(path)) from error
        temporary.rename(path)


def _check_target(path: Path, *, overwrite: bool, own: Sequence[Path]) -> None:
    parent = path.absolute().parent
    if not parent.is_dir():
        raise StoreError(f"{path} cannot be written: there is no directory {parent}.")
    if any(parent.resolve().is_relative_to(folder.resolve()) for folder in own):
        raise StoreError(f"{path} is inside the run itself; choose a place outside of it.")
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise StoreError(_there_already(path))
    if not stat.S_ISREG(path.lstat().st_mode):
        raise StoreError(f"{path} is not a plain file and is left as it is; choose another name.")


def _there_already(path: Path) -> str:
    return f"{path} is there already; choose another name, or ask to overwrite it."
