"""A run directory: plain JSON and netCDF files, complete or absent.

config.json    experiment, preset and every setting
versions.json  versions of Python and of the libraries, and the commit
results.json   the numbers
trace.nc       the recorded draws, as ArviZ reads them
arrays.nc      what else the figures need
figures/, report.html   drawn from the files above
chain/         the run store, from which the chain can be resumed

Until all of it is there, config.json and chain/ are in unfinished/.
"""

from __future__ import annotations

import importlib.metadata
import math
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

import traceclass
from traceclass.experiments.base import Config, Experiment, Result
from traceclass.experiments.claim import CHAIN, ENTRIES, UNFINISHED, DirectoryError, chain_of
from traceclass.sampling.files import StoreError, WriteError, read_json, write_json

_LIBRARIES = (
    "jax",
    "jaxlib",
    "blackjax",
    "equinox",
    "numpy",
    "scipy",
    "arviz-stats",
    "xarray",
    "scikit-learn",
)


class StoredRun(NamedTuple):
    """What a run directory holds."""

    path: Path
    config: dict[str, Any]
    versions: dict[str, Any]
    results: dict[str, Any]
    trace: xr.DataTree | None
    arrays: xr.Dataset


def begin_run(
    path: Path, experiment: Experiment, preset: str, config: Config, *, resume: bool
) -> Path:
    """Say what is being run in a claimed directory, and where its chain is to be stored."""
    (path / UNFINISHED).mkdir(exist_ok=True)
    described = {"experiment": experiment.name, "preset": preset}
    _write_json(path / UNFINISHED / "config.json", described | {"settings": config.model_dump()})
    return chain_of(path) if resume else path / UNFINISHED / CHAIN


def write_run(path: Path, result: Result, render: Callable[[Path], None]) -> None:
    """Write all files of a run that was begun, in place of an older run.

    They are made in a folder inside it and moved at the end, the older ones out of the way first
    and deleted last: at no moment is a whole run missing. `render` draws figures and page into a
    directory that already holds the data files.
    """
    try:
        _write_run(path, result, render)
    except OSError as error:
        raise WriteError(
            f"cannot write the results to {path} ({error.strerror or error}). The chain is kept: "
            "make room, then go on with --resume."
        ) from error


def _write_run(path: Path, result: Result, render: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=path / UNFINISHED, prefix=".new-") as temporary:
        new, old = Path(temporary) / "new", Path(temporary) / "old"
        new.mkdir()
        old.mkdir()
        shutil.copyfile(path / UNFINISHED / "config.json", new / "config.json")
        _write_json(new / "versions.json", versions())
        _write_json(new / "results.json", result.numbers)
        if result.trace is not None:
            result.trace.to_netcdf(new / "trace.nc", engine="h5netcdf")
        result.arrays.to_netcdf(new / "arrays.nc", engine="h5netcdf")
        render(new)
        if (path / UNFINISHED / CHAIN).exists():
            (path / UNFINISHED / CHAIN).rename(new / CHAIN)
        for name in sorted(ENTRIES):
            if (path / name).exists() and (name != CHAIN or (new / CHAIN).exists()):
                (path / name).rename(old / name)
        for entry in sorted(new.iterdir()):
            entry.rename(path / entry.name)
    shutil.rmtree(path / UNFINISHED)


def read_run(path: Path) -> StoredRun:
    """The files of a run directory, or an error that says which one is missing or unreadable."""
    if not path.is_dir():
        raise DirectoryError(f"{path} is not a directory; give the --out of an earlier run.")
    missing = [
        name
        for name in ("config.json", "versions.json", "results.json", "arrays.nc")
        if not (path / name).is_file()
    ]
    if missing:
        raise DirectoryError(f"{path} is not a finished run: {', '.join(missing)} is missing.")
    try:
        return StoredRun(
            path,
            read_json(path / "config.json"),
            read_json(path / "versions.json"),
            read_json(path / "results.json"),
            _read_trace(path / "trace.nc"),
            _read_arrays(path / "arrays.nc"),
        )
    except (StoreError, ValueError, OSError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise DirectoryError(f"{path} cannot be read: {reason}") from error


def _read_trace(path: Path) -> xr.DataTree | None:
    if not path.is_file():
        return None
    _check_claims(path)
    return xr.load_datatree(path, engine="h5netcdf")


def _read_arrays(path: Path) -> xr.Dataset:
    _check_claims(path)
    return xr.load_dataset(path, engine="h5netcdf")


def _check_claims(path: Path) -> None:
    """Refuse a netCDF file that unfolds to much more than its size; ours are not compressed."""
    import h5py

    claimed = 0

    def add(_: str, item: Any) -> None:
        nonlocal claimed
        claimed += item.nbytes if isinstance(item, h5py.Dataset) else 0

    with h5py.File(path, "r") as file:
        if any(
            isinstance(file.get(name, getlink=True), (h5py.ExternalLink, h5py.SoftLink))
            for name in file
        ):
            raise ValueError(f"{path.name} links to other files.")
        file.visititems(add)
    if claimed > 4 * path.stat().st_size + 2**20:
        raise ValueError(f"{path.name} claims {claimed} bytes, far more than the file has.")


def versions() -> dict[str, Any]:
    """What a result was made with."""
    return {
        "traceclass": traceclass.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def _commit() -> str | None:
    """The commit of the source tree, if the package runs from one."""
    git = shutil.which("git")
    root = Path(traceclass.__file__).parents[2]
    if git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "rev-parse", "HEAD"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return answer.stdout.strip() or None


def _write_json(path: Path, content: Any) -> None:
    write_json(path, _without_nonfinite(content))


def _without_nonfinite(content: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for both."""
    if isinstance(content, dict):
        return {key: _without_nonfinite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nonfinite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
