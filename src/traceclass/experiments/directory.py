"""A run directory: plain JSON and netCDF files, complete or absent.

config.json    experiment, preset and every setting
versions.json  versions of Python and of the libraries, and the commit
results.json   the numbers
trace.nc       the recorded draws, as ArviZ reads them
arrays.nc      what else the figures need
figures/, report.html   drawn from the files above
"""

from __future__ import annotations

import importlib.metadata
import json
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

_LIBRARIES = ("jax", "jaxlib", "blackjax", "equinox", "numpy", "scipy", "arviz-stats", "xarray")


class StoredRun(NamedTuple):
    """What a run directory holds."""

    path: Path
    config: dict[str, Any]
    versions: dict[str, Any]
    results: dict[str, Any]
    trace: xr.DataTree | None
    arrays: xr.Dataset


class DirectoryError(Exception):
    """A run directory that cannot be used, said in one sentence."""


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a place that holds something already, or where nothing can be written."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise DirectoryError(f"{path} is not a directory; choose another --out.")
    if path.is_dir() and any(path.iterdir()):
        if not (path / "config.json").exists():
            raise DirectoryError(
                f"{path} is not empty and holds no run; it is left as it is. Choose another --out."
            )
        if not overwrite:
            raise DirectoryError(
                f"{path} already holds a run; choose another --out, or replace it with --overwrite."
            )
    existing = next(p for p in (path.parent, *path.parent.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryDirectory(dir=existing, prefix=".traceclass-"):
            pass
    except OSError as error:
        raise DirectoryError(
            f"cannot write to {existing} ({error.strerror}); choose another --out."
        ) from error


def write_run(
    path: Path,
    experiment: Experiment,
    preset: str,
    config: Config,
    result: Result,
    render: Callable[[Path], None],
) -> None:
    """Write all files beside `path` and move them there at the end: a run is whole or not there.

    `render` draws figures and page into a directory that already holds the data files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        described = {"experiment": experiment.name, "preset": preset}
        _write_json(new / "config.json", described | {"settings": config.model_dump()})
        _write_json(new / "versions.json", versions())
        _write_json(new / "results.json", result.numbers)
        if result.trace is not None:
            result.trace.to_netcdf(new / "trace.nc", engine="h5netcdf")
        result.arrays.to_netcdf(new / "arrays.nc", engine="h5netcdf")
        render(new)
        if path.exists():
            path.rename(Path(temporary) / "old")
        new.rename(path)


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
            json.loads((path / "config.json").read_text(encoding="utf-8")),
            json.loads((path / "versions.json").read_text(encoding="utf-8")),
            json.loads((path / "results.json").read_text(encoding="utf-8")),
            _read_trace(path / "trace.nc"),
            xr.load_dataset(path / "arrays.nc", engine="h5netcdf"),
        )
    except (ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DirectoryError(f"{path} cannot be read: {reason}") from error


def _read_trace(path: Path) -> xr.DataTree | None:
    return xr.load_datatree(path, engine="h5netcdf") if path.is_file() else None


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
    text = json.dumps(_without_nonfinite(content), indent=2, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _without_nonfinite(content: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for both."""
    if isinstance(content, dict):
        return {key: _without_nonfinite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nonfinite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
