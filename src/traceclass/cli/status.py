"""`traceclass status DIR`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from traceclass.cli.outcomes import told_apart

if TYPE_CHECKING:
    from traceclass.sampling.store import RunStatus


def status(
    directory: Annotated[Path, typer.Argument(help="a run directory, finished or not")],
) -> None:
    """How far a run is, and how good its draws are: progress, acceptance, ESS, time left."""
    with told_apart():
        from traceclass.sampling.files import DamagedFileError
        from traceclass.sampling.store import run_status

        cells = stores_in(directory)
        damages = []
        for name, store in cells.items():
            found = run_status(store)
            for line in _lines(found) if len(cells) == 1 else [f"{name}: {_brief(found)}"]:
                typer.echo(line)
            damages += [found.damage] if found.damage is not None else []
        if damages:
            raise DamagedFileError(f"{damages[0]} --resume makes the rest again.")


def stores_in(directory: Path) -> dict[str, Path]:
    """The run stores in a run directory by name, or the directory itself if it is one."""
    from traceclass.run_directory.claim import UNFINISHED, DirectoryError, chain_of, described
    from traceclass.sampling.store import MANIFEST

    if not directory.is_dir():
        raise DirectoryError(f"{directory} is not a directory; give the --out of an earlier run.")
    if (directory / MANIFEST).exists():
        return {directory.name: directory}
    chain, run = chain_of(directory), described(directory)
    found = sorted(chain.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_ctime_ns)
    if not found:
        what = "is not a run: give the --out of an earlier run, or the store of one"
        if run is not None:
            what = f"holds a run of {run['experiment']}, which has no chains"
            what += " yet" if (directory / UNFINISHED).exists() else ""
        raise DirectoryError(f"{directory} {what}.")
    return {file.parent.name: file.parent for file in found}


def _brief(status: RunStatus) -> str:
    """One line for one of several runs."""
    if status.is_running:
        state = "going on"
    else:
        state = "finished" if status.is_finished else "stopped"
    if status.run is None:
        return f"{state}, warm-up {status.warmup_done} of {status.num_warmup}"
    from traceclass.sampling.diagnostics import worst_of

    worst = [worst_of(values) for values in status.run.draws.values()]
    return (
        f"{state}, {status.num_draws} of {status.asked} draws, acceptance "
        f"{status.run.acceptance_rate:.3f}, smallest ESS {min(e for e, _ in worst):.0f}, largest "
        f"R-hat {max(r for _, r in worst):.3f}" + ("" if status.damage is None else ", damaged")
    )


def _lines(status: RunStatus) -> Iterator[str]:
    from traceclass.sampling.diagnostics import worst_of
    from traceclass.sampling.progress import duration
    from traceclass.sampling.store import MANIFEST

    ended = "finished" if status.is_finished else "stopped; --resume goes on with it"
    yield f"run: {'going on' if status.is_running else ended}"
    yield f"warm-up: {status.warmup_done} of {status.num_warmup} steps"
    run = status.run
    if run is not None:
        yield f"draws: {status.num_draws} of {status.asked}, {run.num_chains} chains"
        yield f"acceptance rate: {run.acceptance_rate:.3f}, step size {run.step_size:.4g}"
        for name, values in run.draws.items():
            ess, rhat = worst_of(values)
            yield f"{name}: smallest ESS {ess:.0f}, largest R-hat {rhat:.3f}"
        left = status.seconds_left
        if left and status.is_running:
            yield f"left: {duration(left)}"
    if status.forced:
        yield f"warning: it was resumed by force {status.forced} times; see {MANIFEST}"
