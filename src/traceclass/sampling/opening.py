"""`tc.open_run`: a stored run, finished or not, as a `Run`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple

from traceclass.posterior import Posterior
from traceclass.sampling.files import DamagedFileError, StoreError, is_locked
from traceclass.sampling.moments import Moments
from traceclass.sampling.run import Run
from traceclass.sampling.store import LOCK, Contents, StoredDraws, contents_of, read_manifest


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
        """Of sampling at the pace so far."""
        if self.run is None or not self.num_draws:
            return None
        left = max(self.asked - self.num_draws, 0)
        return self.run.sampling_seconds / self.num_draws * left


def open_run(path: str | os.PathLike[str], posterior: Posterior | None = None) -> Run:
    """The run in the directory `path`, as far as it has come; it may be being written.

    Draws are read from disk when they are asked for, and their checksums compared. `posterior`
    (the one it was sampled from) is needed only to evaluate the function at new points.
    """
    status = run_status(path)
    if status.damage is not None:
        raise DamagedFileError(f"{status.damage} Resume the run to make it anew from there.")
    if status.run is None:
        raise StoreError(
            f"{path} has no draws yet (warm-up step {status.warmup_done} of {status.num_warmup}); "
            "open it later."
        )
    return dataclasses.replace(status.run, posterior=posterior)


def run_status(path: str | os.PathLike[str]) -> RunStatus:
    """How far the run in the directory `path` is, and what is wrong with it."""
    path = Path(path)
    manifest = read_manifest(path)
    contents = contents_of(path, manifest)
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
    moments = {
        str(name): Moments(
            *(arrays[f"chains.moments[{name!r}].{field}"] for field in Moments._fields)
        )
        for name in meta["moments"]
    }
    return Run(
        posterior=None,
        recorded=StoredDraws(contents.chunks),
        last_positions=_last_positions(arrays),
        running_moments=moments,
        num_samples=contents.num_draws,
        **meta["description"],
    )


def _last_positions(arrays: dict[str, Any]) -> Any:
    """Where the chains were; of a tempered one, the replica at the posterior."""
    if "chains.state.replicas.position" in arrays:
        return arrays["chains.state.replicas.position"][:, 0]
    return arrays["chains.state.position"]
