"""A run directory: plain JSON and netCDF files, complete or absent.

config.json    experiment, preset and every setting
versions.json  versions of Python and of the libraries, and the commit
results.json   the numbers
trace.nc       the recorded draws, as ArviZ reads them
arrays.nc      what else the figures need
figures/, report.html   drawn from the files above
chain/         the run store, from which the chain can be resumed
SHA256SUMS     the checksums of all of these

Until the numbers are there, config.json, chain/ and the results so far are in unfinished/. Figures
and page are drawn last, from files that are safe already.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

from traceclass.run_directory.checksums import altered, files_in, sums_of, write_sums
from traceclass.run_directory.claim import (
    CHAIN,
    ENTRIES,
    SUMS,
    UNFINISHED,
    DirectoryError,
    chain_of,
    summed,
)
from traceclass.run_directory.netcdf import copies_of, read_dataset, read_tree
from traceclass.sampling.files import (
    StoreError,
    WriteError,
    read_json,
    reason,
    remedy,
    write_json,
    write_netcdf,
)
from traceclass.version import __version__

RESULTS = "results.json"
_NETCDF = ("trace.nc", "arrays.nc")
# What version 0.1 called some numbers of its results.
_RENAMED = {
    "steps_a_second": "steps_per_second",
    "level_ess_per_second": "log_likelihood_ess_per_second",
    "level_ess_per_step": "log_likelihood_ess_per_step",
    "steps_per_level_ess": "steps_per_log_likelihood_ess",
}
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


class Stored(NamedTuple):
    """What a finished run directory holds; reports are made from this and from nothing else."""

    path: Path
    config: dict[str, Any]
    versions: dict[str, Any]
    results: Any  # as the experiment's `Results` says
    trace: Any  # an xr.DataTree of the recorded draws, or None
    arrays: xr.Dataset
    # Files that are not as they were written, and whether that is known of them
    altered: tuple[str, ...] = ()
    is_summed: bool = False


@contextlib.contextmanager
def doubted(stored: Stored, *, re_raise: bool = True) -> Generator[None, None, None]:
    """What cannot be made of files that may be damaged is no bug: one line names them.

    Any other error is raised as it is, or passed over for who has noted it already.
    """
    try:
        yield
    except Exception as error:
        if stored.altered or not stored.is_summed:
            files = ", ".join(stored.altered) or "a file, none of which has a checksum,"
            reason = " ".join(f"{type(error).__name__} {error}".split())
            raise DirectoryError(
                f"{stored.path} cannot be reported: {files} may be damaged ({reason}). Make the "
                "run again."
            ) from error
        if re_raise:
            raise


def begin(path: Path, description: Mapping[str, Any], *, resume: bool) -> Path:
    """Say what is being run in a claimed directory, and where its chains are to be stored.

    `description` has the experiment, its preset and its settings.
    """
    (path / UNFINISHED).mkdir(exist_ok=True)
    _write_json(path / UNFINISHED / "config.json", summed(_without_nonfinite(dict(description))))
    return chain_of(path) if resume else path / UNFINISHED / CHAIN


def keep(path: Path, numbers: Mapping[str, Any]) -> None:
    """Keep the results so far, in case that the rest of the run fails."""
    _write_json(path / UNFINISHED / RESULTS, {"is_complete": False, **numbers})


def commit(
    path: Path, numbers: Mapping[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> None:
    """Write the data files of a run that was begun, in place of an older run.

    They are made in a folder inside it and moved at the end, the older ones out of the way first
    and deleted last. If one of them cannot be moved, all go back to where they were.
    """
    try:
        _write(path, numbers, trace, arrays)
    except (OSError, WriteError) as error:
        raise WriteError(
            f"cannot write the results to {path} ({reason(error)}). The chain is kept: "
            f"{remedy(error)}, then go on with --resume."
        ) from error


def _write(
    path: Path, numbers: Mapping[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> None:
    folder = Path(tempfile.mkdtemp(dir=path / UNFINISHED, prefix=".new-"))
    new, old = folder / "new", folder / "old"
    new.mkdir()
    old.mkdir()
    shutil.copyfile(path / UNFINISHED / "config.json", new / "config.json")
    _write_json(new / "versions.json", versions())
    _write_json(new / RESULTS, numbers)
    if trace is not None:
        write_netcdf(new / "trace.nc", trace)
    write_netcdf(new / "arrays.nc", arrays)
    chain = path / UNFINISHED / CHAIN
    _write_sums(new, chain if chain.exists() else path / CHAIN)
    moves = [
        (path / name, old / name)
        for name in sorted(ENTRIES)
        if (path / name).exists() and (name != CHAIN or chain.exists())
    ]
    moves += [(file, path / file.name) for file in sorted(new.iterdir())]
    # The draws are moved last, and nothing is deleted before all is in its place.
    moves += [(chain, path / CHAIN)] if chain.exists() else []
    _move(moves)
    shutil.rmtree(path / UNFINISHED)


def _write_sums(new: Path, chain: Path) -> None:
    """Checksums of the data files in `new`, and of the chain that they will stand beside."""
    sums = sums_of(new, files_in(new))
    if chain.exists():
        sums |= {f"{CHAIN}/{name}": sum_ for name, sum_ in sums_of(chain, files_in(chain)).items()}
    write_sums(new, sums)


def _move(moves: Sequence[tuple[Path, Path]]) -> None:
    """Make all of these moves, or none of them."""
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            target.rename(source)
        raise


def read_run(path: Path, *, force: bool = False, with_arrays: bool = True) -> Stored:
    """The files of a run directory, or an error that says which one is missing or unreadable.

    A file that is not as it was written is refused, or by force named in `altered`. Without arrays,
    the trace and the arrays are left out: they are not needed for the numbers.
    """
    if not path.is_dir():
        raise DirectoryError(f"{path} is not a directory; give the --out of an earlier run.")
    missing = [
        name
        for name in ("config.json", "versions.json", RESULTS, "arrays.nc")
        if not (path / name).is_file()
    ]
    if missing:
        raise DirectoryError(f"{path} is not a finished run: it lacks {', '.join(missing)}.")
    is_summed = (path / SUMS).exists()
    unlike = altered(path, ("config.json", "versions.json", RESULTS, *_NETCDF))
    if unlike and not force:
        raise DirectoryError(
            f"{path / unlike[0]} is not as it was written: it was edited or damaged. Make the run "
            "again, or use --force, which says so on the page."
        )
    present = [name for name in _NETCDF if (path / name).is_file()]
    doubtful = [name for name in present if not is_summed or name in unlike]
    try:
        stored = Stored(
            path,
            read_json(path / "config.json"),
            read_json(path / "versions.json"),
            _renamed(read_json(path / RESULTS)),
            *(_read_arrays(path, doubtful) if with_arrays else (None, xr.Dataset())),
            tuple(unlike),
            is_summed,
        )
    except (StoreError, ValueError, OSError, KeyError, RuntimeError) as error:
        words = " ".join(str(error).split())
        raise DirectoryError(f"{path} cannot be read: {words}") from error
    require_keys(path / "config.json", stored.config, ("experiment", "preset", "settings"))
    return stored


def require_keys(file: Path, content: Any, keys: Iterable[str]) -> None:
    """Refuse a file that lacks what every file of its kind has."""
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing:
        raise DirectoryError(
            f"{file} is not that of a finished run: it has no {', '.join(map(repr, missing))}. It "
            "was edited, or another version wrote it."
        )


def _renamed(content: Any) -> Any:
    """The results of an older version under today's names."""
    if isinstance(content, dict):
        return {_RENAMED.get(key, key): _renamed(value) for key, value in content.items()}
    return [_renamed(value) for value in content] if isinstance(content, list) else content


def _read_arrays(path: Path, doubtful: Sequence[str]) -> tuple[xr.DataTree | None, xr.Dataset]:
    """Trace, if there is one, and arrays; what may be damaged is not opened in this process."""
    trace, arrays = path / "trace.nc", path / "arrays.nc"
    with copies_of([path / name for name in doubtful]) as copies:
        tree = read_tree(copies.get(trace, trace)) if trace.is_file() else None
        return tree, read_dataset(copies.get(arrays, arrays))


def versions() -> dict[str, Any]:
    """What a result was made with."""
    return {
        "traceclass": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def _commit() -> str | None:
    """The commit of the source tree, if the package runs from one."""
    git = shutil.which("git")
    root = Path(__file__).parents[3]
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
