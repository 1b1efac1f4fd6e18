"""netCDF files: opened if they are known to be whole, otherwise copied by another process first.

HDF5 trusts what it reads. On a damaged file it may run in circles, ask for all the memory, or take
the process down with it. So a file that has no checksum, or a wrong one, is read by a process of
its own, within limits of time and memory, which writes what it found to a new file:

    python -m traceclass.run_directory.netcdf SECONDS SOURCE TARGET [SOURCE TARGET ...]

Only that new file is opened here.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import xarray as xr

# Python and xarray start within a few seconds on a busy machine; ten times that is no hang.
_SECONDS_TO_START = 30
# A slow network disk; reading and writing takes much less.
_BYTES_PER_SECOND = 10 * 2**20


def read_tree(file: Path) -> xr.DataTree:
    """All groups of a netCDF file that is known to be whole."""
    _check_claims(file)
    return xr.load_datatree(file, engine="h5netcdf")


def read_dataset(file: Path) -> xr.Dataset:
    """The one group of a netCDF file that is known to be whole."""
    _check_claims(file)
    return xr.load_dataset(file, engine="h5netcdf")


@contextmanager
def copies_of(files: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Where the content of files that may be damaged can be read; each a new file, gone at the end.

    A file that cannot be read is a ValueError that names it.
    """
    if not files:
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        copies = {file: Path(folder) / f"{number}.nc" for number, file in enumerate(files)}
        num_bytes = sum(file.stat().st_size for file in files)
        _copy(copies, _SECONDS_TO_START + math.ceil(num_bytes / _BYTES_PER_SECOND))
        yield copies


def _copy(copies: Mapping[Path, Path], seconds: int) -> None:
    words = [str(path.absolute()) for pair in copies.items() for path in pair]
    try:
        answer = in_a_process([str(seconds), *words], seconds)
    except subprocess.TimeoutExpired:
        reason = f"reading it did not end within {seconds} s"
    else:
        if answer.returncode == 0:
            return
        reason = _reason(answer)
    # The copies are made in order: the first that is not whole is the one.
    culprit = next((file for file, copy in copies.items() if not copy.exists()), None)
    raise ValueError(f"{culprit.name if culprit else 'a netCDF file'} is damaged: {reason}.")


def in_a_process(arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """This module as a program, killed after so many seconds."""
    # Safe path (-P): a file of the working directory must not take the place of a library.
    command = [sys.executable, "-P", "-m", __name__, *arguments]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
    )


def _reason(answer: subprocess.CompletedProcess[str]) -> str:
    """Why the program failed: the signal that ended it, or the last line it wrote."""
    if answer.returncode == -getattr(signal, "SIGXCPU", math.inf):
        return "reading it did not end in time"
    if answer.returncode < 0:
        return f"reading it crashed ({signal.Signals(-answer.returncode).name})"
    lines = answer.stderr.split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "no reason was given")
    return said.rstrip(".")


def _check_claims(path: Path) -> None:
    """Refuse a netCDF file that unfolds to much more than its size, or has data elsewhere.

    Ours are not compressed, and in one file.
    """
    claimed = 0
    with h5py.File(path, "r") as file:
        for item in _datasets(file):
            if item.is_virtual or item.external:
                raise ValueError(f"{path.name} has its data in other files.")
            claimed += item.nbytes
    if claimed > 4 * path.stat().st_size + 2**20:
        raise ValueError(f"{path.name} claims {claimed} bytes, far more than the file has.")


def _datasets(file: h5py.File) -> Iterator[h5py.Dataset]:
    """All datasets of a file, whose groups must not lead elsewhere or back to where one was."""
    groups: list[Any] = [file["/"]]
    seen = set(groups)  # h5py compares objects by their place in the file
    while groups:
        group = groups.pop()
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link to another place.")
            item = group[name]
            if isinstance(item, h5py.Group):
                if item in seen:
                    raise ValueError(f"{name!r} leads back to where one was.")
                seen.add(item)
                groups.append(item)
            elif isinstance(item, h5py.Dataset):
                yield item


def _limit(seconds: int) -> None:
    """Bound the time and memory of this process, where the system can; no core is dumped."""
    if os.name != "posix":
        return
    import resource

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory))
    for what, most in (*wanted, (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, hard))


def main(arguments: Sequence[str]) -> None:
    """Copy netCDF files, each under its own name only when all of it was read and written."""
    _limit(int(arguments[0]))
    for source, target in zip(arguments[1::2], arguments[2::2], strict=True):
        content = read_tree(Path(source)).to_netcdf(engine="h5netcdf")
        unfinished = Path(f"{target}.unfinished")
        unfinished.write_bytes(content)
        unfinished.rename(target)


if __name__ == "__main__":
    main(sys.argv[1:])
