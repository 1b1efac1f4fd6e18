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
from traceclass.experiments.claim import ENTRIES, DirectoryError

_LIBRARIES = ("jax", "jaxlib", "blackjax", "equinox", "numpy", "scipy", "arviz-stats", "xarray")


class StoredRun(NamedTuple):
    """What a run directory holds."""

    path: Path
    config: dict[str, Any]
    versions: dict[str, Any]
    results: dict[str, Any]
    trace: xr.DataTree | None
    arrays: xr.Dataset


def write_run(
    path: Path,
    experiment: Experiment,
    preset: str,
    config: Config,
    result: Result,
    render: Callable[[Path], None],
) -> None:
    """Write all files of a run into a claimed directory, in place of an older run.

    They are made in a folder inside it and moved at the end, the older ones out of the way first
    and deleted last: at no moment is a whole run missing. `render` draws figures and page into a
    directory that already holds the data files.
    """
    with tempfile.TemporaryDirectory(dir=path, prefix=".new-") as temporary:
        new, old = Path(temporary) / "new", Path(temporary) / "old"
        new.mkdir()
        old.mkdir()
        described = {"experiment": experiment.name, "preset": preset}
        _write_json(new / "config.json", described | {"settings": config.model_dump()})
        _write_json(new / "versions.json", versions())
        _write_json(new / "results.json", result.numbers)
        if result.trace is not None:
            result.trace.to_netcdf(new / "trace.nc", engine="h5netcdf")
        result.arrays.to_netcdf(new / "arrays.nc", engine="h5netcdf")
        render(new)
        for name in sorted(ENTRIES):
            if (path / name).exists():
                (path / name).rename(old / name)
        for entry in sorted(new.iterdir()):
            entry.rename(path / entry.name)


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
    except (ValueError, OSError, KeyError) as error:
        reason = " ".join(str(error).split())
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
