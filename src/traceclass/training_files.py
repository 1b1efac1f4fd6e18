"""The directory of a training: one checkpoint, from which all else in it follows.

checkpoint.npz   settings, the search's state, its trials so far
weights.npy, mean.npy, scale.npy, actions.npy, provenance.json   the best expert so far
curve.csv, curve.png   the trials
SHA256SUMS       the checksums of all of these

Every file is written whole or not at all, and nothing in it can be executed.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from traceclass.control.linear_expert import LinearExpert
from traceclass.control.random_search import Search, SearchState, begin
from traceclass.run_directory.checksums import altered, files_in, sums_of, write_sums
from traceclass.run_directory.claim import CHECKPOINT, LOCK, SUMS, DirectoryError
from traceclass.sampling.files import (
    TEMPORARY,
    DamagedFileError,
    StoreError,
    WriteError,
    locked,
    write_file,
)

CURVE, FIGURE = "curve.csv", "curve.png"
EXPERT = ("weights.npy", "mean.npy", "scale.npy", "actions.npy", "provenance.json")
COLUMNS = (
    *("iteration", "discretised_distance", "continuous_distance", "discretised_falls"),
    *("continuous_falls", "least_share", "largest_share", "score"),
)
_ENTRIES = frozenset((CHECKPOINT, CURVE, FIGURE, SUMS, *EXPERT))
_STATE = "state_"


class Training(NamedTuple):
    """A search, where it is, and its trials so far."""

    search: Search
    state: SearchState
    trials: tuple[Mapping[str, float], ...] = ()

    def after(self, state: SearchState, figures: Mapping[str, float]) -> Training:
        """The training with another state, and one more trial if there was one."""
        trial = {column: figures[column] for column in COLUMNS if figures}
        return Training(self.search, state, (*self.trials, trial) if trial else self.trials)

    @property
    def best_trial(self) -> Mapping[str, float] | None:
        """The trial of the best expert so far: the first with the highest score."""
        return max(self.trials, key=lambda trial: trial["score"], default=None)


@contextmanager
def held(directory: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Hold `directory` for one training: made if it is not there, locked, and ours to write to."""
    try:
        if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
            raise DirectoryError(f"{directory} is not a directory; choose another --out.")
        if resume:
            _require_checkpoint(directory)
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory / LOCK) as is_held:
            if not is_held:
                raise DirectoryError(
                    f"another training is being written to {directory}; wait for it."
                )
            if not resume:
                _make_room(directory, overwrite=overwrite)
            yield
    except OSError as error:
        raise DirectoryError(
            f"cannot write to {directory} ({error.strerror or error}); choose another --out."
        ) from error


def _make_room(directory: Path, *, overwrite: bool) -> None:
    """Refuse a directory that holds something; with `overwrite`, empty that of a training."""
    present = [entry for entry in directory.iterdir() if entry.name != LOCK]
    ours = [entry for entry in present if entry.name.removeprefix(TEMPORARY) in _ENTRIES]
    if len(ours) < len(present) or any(not e.is_file() or e.is_symlink() for e in present):
        raise DirectoryError(
            f"{directory} holds something that is not a trained expert; it is left as it is. "
            "Choose another --out."
        )
    if present and not overwrite:
        raise DirectoryError(
            f"{directory} already holds an expert; go on with it by --resume, choose another "
            "--out, or replace it with --overwrite."
        )
    for entry in present:
        entry.unlink()


def _require_checkpoint(directory: Path) -> None:
    if not (directory / CHECKPOINT).is_file():
        raise StoreError(
            f"{directory} has no {CHECKPOINT} to go on from; train without --resume, or choose "
            "another --out."
        )


@contextmanager
def summing(directory: Path) -> Iterator[None]:
    """Change files of a training; there are no checksums of them until all are written."""
    (directory / SUMS).unlink(missing_ok=True)
    yield
    ours = [name for name in files_in(directory) if name in _ENTRIES]
    write_sums(directory, sums_of(directory, ours))


def write_checkpoint(directory: Path, training: Training) -> None:
    """All of a training, in one file."""
    state = training.state._asdict()
    rows = [[trial[column] for column in COLUMNS] for trial in training.trials]
    arrays: dict[str, Any] = {_STATE + name: np.asarray(part) for name, part in state.items()}
    arrays["trials"] = np.array(rows).reshape(-1, len(COLUMNS))
    arrays["settings"] = np.array(json.dumps(dataclasses.asdict(training.search)))
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_file(directory / CHECKPOINT, [content.getbuffer()])


def read_checkpoint(directory: Path) -> Training:
    """What `write_checkpoint` wrote; never unpickles, and refuses what does not fit."""
    _require_checkpoint(directory)
    file = directory / CHECKPOINT
    if altered(directory, [CHECKPOINT]):
        raise DamagedFileError(
            f"{file} is not as it was written: it was edited or damaged. Train again with "
            "--overwrite, or choose another --out."
        )
    try:
        arrays = _arrays(file)
        search = _search(json.loads(str(arrays["settings"])))
        state, trials = _state(search, arrays), _trials(arrays["trials"])
    except (
        *(OSError, EOFError, ValueError, TypeError, KeyError, MemoryError),
        *(zipfile.BadZipFile, NotImplementedError, RecursionError),
    ) as error:
        reason = " ".join(str(error).split())
        raise DamagedFileError(
            f"{file} is damaged, or of another version: {reason or type(error).__name__}. Train "
            "again with --overwrite, or choose another --out."
        ) from error
    return Training(search, state, trials)


def _arrays(file: Path) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(file):
        raise ValueError("it is no archive of arrays")
    with np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _search(settings: Any) -> Search:
    known = {field.name for field in dataclasses.fields(Search)}
    if not isinstance(settings, dict) or settings.keys() != known:
        differ = ", ".join(sorted(set(settings) ^ known))
        raise ValueError(f"its settings are not those there are now ({differ})")
    settings["requantise_at"] = tuple(settings["requantise_at"])
    return Search(**settings)


def _state(search: Search, arrays: Mapping[str, np.ndarray]) -> SearchState:
    parts: dict[str, Any] = {}
    for name, like in begin(search)._asdict().items():
        part, wanted = arrays[_STATE + name], np.asarray(like)
        if part.shape != wanted.shape or part.dtype != wanted.dtype:
            raise ValueError(f"{name} should be {wanted.dtype}{list(wanted.shape)}")
        if np.isnan(part).any():
            raise ValueError(f"{name} is not a number somewhere")
        parts[name] = part
    parts["iteration"] = int(parts["iteration"])
    if not 0 <= parts["iteration"] <= search.num_iterations:
        raise ValueError(f"iteration {parts['iteration']} of {search.num_iterations}")
    return SearchState(**parts)


def _trials(rows: np.ndarray) -> tuple[dict[str, float], ...]:
    trials: list[dict[str, float]] = [dict(zip(COLUMNS, row, strict=True)) for row in rows.tolist()]
    for trial in trials:
        trial["iteration"] = int(trial["iteration"])
    return tuple(trials)


def write_curve(directory: Path, trials: tuple[Mapping[str, float], ...]) -> None:
    """Write one line per trial."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(trials)
    write_file(directory / CURVE, [text.getvalue().encode()])


def write_expert(directory: Path, expert: LinearExpert) -> None:
    """The files of `LinearExpert.save`, each replaced as a whole."""
    try:
        with tempfile.TemporaryDirectory() as temporary:
            expert.save(Path(temporary))
            for name in EXPERT:
                write_file(directory / name, [(Path(temporary) / name).read_bytes()])
    except OSError as error:
        raise WriteError(
            f"cannot write the expert to {directory} ({error.strerror or error})."
        ) from error
