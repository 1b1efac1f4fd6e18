"""The command line: `traceclass list | run NAME | status DIR | export DIR FILE | report DIR`.

And `traceclass train-expert ENVIRONMENT`, which makes the expert that demonstrates.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NoReturn, get_origin

import pydantic
import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

import traceclass
from traceclass.control.extras import MissingExtra
from traceclass.experiments import EXPERIMENTS, Chains, Config, Experiment
from traceclass.experiments.claim import DirectoryError, chain_of, claimed, described
from traceclass.experiments.directory import begin_run, write_run
from traceclass.report import render, terminal_summary
from traceclass.sampling.files import StoreError, WriteError
from traceclass.sampling.interrupt import Interrupted
from traceclass.sampling.progress import duration
from traceclass.sampling.store import MANIFEST, RunStatus, open_run, run_status
from traceclass.sampling.until import Until, worst_of
from traceclass.training import ENVIRONMENTS, search_of, summary, train_expert
from traceclass.training_files import CHECKPOINT

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Infer unknown functions from data: the paper's experiments, and their reports.",
)
BAD_INPUT = 2
NOT_WRITTEN = 3
INTERRUPTED = 130
# What a user can set right; the message says how.
MISTAKES = (
    *(ValueError, TypeError, OverflowError, MemoryError),
    *(DirectoryError, StoreError, MissingExtra),
)


@app.command("list")
def list_experiments() -> None:
    """Name the experiments, their presets and their settings."""
    console = Console(soft_wrap=True)
    for experiment in EXPERIMENTS.values():
        console.print(f"{experiment.name}: {experiment.summary}", highlight=False)
        for preset, config in experiment.presets.items():
            settings = ", ".join(
                f"{name}={json.dumps(value)}" for name, value in config.model_dump().items()
            )
            console.print(f"  {preset}: {settings}", highlight=False)


@app.command("run")
def run_experiment(
    name: Annotated[str, typer.Argument(help="an experiment of `traceclass list`")],
    preset: Annotated[str | None, typer.Option(help="quick or paper [quick]")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="seed of data, chains and rollouts")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="run directory [runs/NAME-PRESET-SEED]")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a setting")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="replace a run in the same place")] = False,
    resume: Annotated[
        bool, typer.Option(help="go on with the run in the same place, or have more draws of it")
    ] = False,
    force: Annotated[
        bool, typer.Option(help="resume though versions or settings differ; it is put on record")
    ] = False,
    until: Annotated[
        list[str] | None,
        typer.Option(metavar="ess=N|rhat=X", help="go on beyond num_samples until this is reached"),
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option(metavar="N", help="at most so many draws a chain with --until")
    ] = None,
    max_time: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="at most so long with --until")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    """Run an experiment and write its run directory, with figures and report.html.

    Ctrl-C stops it after the chunk at hand; --resume then goes on to the same draws.
    """
    experiment = _experiment(name)
    path = out
    try:
        if resume and overwrite:
            raise ValueError("--resume goes on with a run and --overwrite replaces it: choose one.")
        preset, config = _configuration(
            experiment, preset, seed, settings or [], out if resume else None, force=force
        )
        path = out or Path("runs") / f"{experiment.name}-{preset}-{config.seed}"
        goal = _until(until or [], max_samples, max_time)
        if goal is not None and not experiment.has_chains:
            raise ValueError(f"{experiment.name} has no chains; leave out --until.")
        if goal is not None and not experiment.takes_until:
            raise ValueError(
                f"{experiment.name} takes no --until: its chains begin where others end. Set the "
                "number of its steps instead."
            )
        traceclass.use_cpu_devices()
        problem = experiment.build(config)
        with claimed(path, overwrite=overwrite, resume=resume), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            chain = begin_run(path, experiment, preset, config, resume=resume)
            chains = Chains(not quiet, chain, resume, force, goal)
            write_run(path, experiment.run(problem, config, chains), render)
    except WriteError as error:
        _refuse(error, NOT_WRITTEN)
    except MISTAKES as error:
        _refuse(error)
    except KeyboardInterrupt as error:
        is_kept = path is not None and described(path) is not None
        _stop(error, f"traceclass run {experiment.name} --out {path} --resume", is_kept)
    _print_summary(path)


@app.command("train-expert")
def train(
    environment: Annotated[str, typer.Argument(help=", ".join(ENVIRONMENTS))],
    out: Annotated[Path | None, typer.Option(help="directory [experts/ENVIRONMENT]")] = None,
    iterations: Annotated[
        int | None,
        typer.Option(metavar="N", help="of the search [100]; its actions are set at the 60th"),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="seed of the search")] = None,
    resume: Annotated[
        bool,
        typer.Option(help="go on from the checkpoint in the same place, or to more iterations"),
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="replace an expert in the same place")] = False,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    """Train the expert whose demonstrations others learn from, and write it with its curve.

    Ctrl-C stops it; --resume then goes on from the last trial, to the same expert.
    """
    path = out or Path("experts") / environment
    try:
        if environment not in ENVIRONMENTS:
            known = ", ".join(ENVIRONMENTS)
            raise ValueError(f"unknown environment {environment!r}; there is {known}.")
        asked = {"num_iterations": iterations, "seed": seed}
        changes = {name: value for name, value in asked.items() if value is not None}
        search = search_of(path, changes, resume=resume)
        expert = train_expert(path, search, resume=resume, overwrite=overwrite, progress=not quiet)
    except WriteError as error:
        _refuse(error, NOT_WRITTEN)
    except MISTAKES as error:
        _refuse(error)
    except KeyboardInterrupt as error:
        command = f"traceclass train-expert {environment} --out {quote(str(path))} --resume"
        _stop(error, command, (path / CHECKPOINT).exists())
    for line in (*summary(expert), f"expert: {path}"):
        typer.echo(line)


@app.command("status")
def show_status(
    directory: Annotated[Path, typer.Argument(help="a run directory, finished or not")],
) -> None:
    """How far a run is, and how good its draws are: progress, acceptance, ESS, time left."""
    try:
        cells = _cells(directory)
        for name, store in cells.items():
            status = run_status(store)
            lines = _status_lines(status) if len(cells) == 1 else [f"{name}: {_brief(status)}"]
            for line in lines:
                typer.echo(line)
    except (StoreError, DirectoryError) as error:
        _refuse(error)


@app.command("export")
def export_run(
    directory: Annotated[Path, typer.Argument(help="a run directory, finished or not")],
    file: Annotated[Path, typer.Argument(help="the netCDF file to write")],
    cell: Annotated[
        str | None, typer.Option(help="which one, of a run of several; see `status`")
    ] = None,
) -> None:
    """Write the draws of a run to a netCDF file, as ArviZ reads them."""
    try:
        open_run(_chosen_cell(directory, cell)).to_netcdf(file)
    except OSError as error:
        _refuse(WriteError(f"cannot write {file} ({error.strerror or error})."), NOT_WRITTEN)
    except (StoreError, DirectoryError, ValueError) as error:
        _refuse(error)
    typer.echo(f"draws: {file}")


@app.command("report")
def report_run(
    directory: Annotated[Path, typer.Argument(help="a run directory")],
) -> None:
    """Draw figures and report.html of a run again, from its stored files."""
    try:
        render(directory)
    except WriteError as error:
        _refuse(error, NOT_WRITTEN)
    except DirectoryError as error:
        _refuse(error)
    _print_summary(directory)


def main() -> None:
    """Entry point of the `traceclass` command."""
    app()


def _experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        _refuse(ValueError(f"unknown experiment {name!r}; there is {known}."))
    return EXPERIMENTS[name]


def _configuration(
    experiment: Experiment,
    preset: str | None,
    seed: str | None,
    settings: list[str],
    resumed: Path | None,
    *,
    force: bool,
) -> tuple[str, Config]:
    """The preset with the user's changes; of a run to be resumed its own, changed as it may be."""
    stored = None if resumed is None else described(resumed)
    if stored is None:
        preset = preset or "quick"
        return preset, _changed(experiment, preset, None, seed, settings)
    if stored["experiment"] != experiment.name:
        raise ValueError(
            f"{resumed} holds a run of {stored['experiment']}, this is {experiment.name}; choose "
            "another --out."
        )
    config = _changed(experiment, str(stored["preset"]), stored["settings"], seed, settings)
    wanted = config.model_dump()
    if preset is not None and preset != stored["preset"]:
        raise ValueError(f"{resumed} holds a run of preset {stored['preset']}, this is {preset}.")
    for key, value in json.loads(config.model_dump_json()).items():
        there = stored["settings"].get(key)
        # More draws are what a finished run may be resumed for.
        if there != value and key != "num_samples" and not force:
            raise ValueError(
                f"{resumed} was run with {key}={there}, this is {key}={wanted[key]}; leave it out, "
                "or choose another --out."
            )
    return str(stored["preset"]), config


def _changed(
    experiment: Experiment,
    preset: str,
    stored: dict[str, Any] | None,
    seed: str | None,
    settings: list[str],
) -> Config:
    """The preset, or stored settings, with the user's changes, validated as a whole."""
    if preset not in experiment.presets:
        known = ", ".join(experiment.presets)
        raise ValueError(f"unknown preset {preset!r} of {experiment.name}; there is {known}.")
    chosen = experiment.presets[preset]
    changes: dict[str, Any] = {} if seed is None else {"seed": _parsed(seed)}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set takes KEY=VALUE, got {text!r}.")
        if key not in type(chosen).model_fields:
            known = ", ".join(type(chosen).model_fields)
            raise ValueError(f"unknown setting {key!r} of {experiment.name}; there is {known}.")
        changes[key] = _parsed(value)
        if get_origin(type(chosen).model_fields[key].annotation) is tuple:
            changes[key] = _listed(changes[key])
    try:
        # As JSON: there a list may stand for a tuple, while "2" or true is still not a number.
        begun = chosen.model_dump() if stored is None else stored
        return type(chosen).model_validate_json(json.dumps(begun | changes))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        value = changes.get(key, (stored or {}).get(key))
        raise ValueError(f"setting {key}={value!r}: {first['msg']}.") from error


def _parsed(text: str) -> Any:
    """A setting's value: JSON if it is JSON, numbers between commas, or else the text itself."""
    for candidate in (text, f"[{text}]" if "," in text else text):
        try:
            return json.loads(candidate)
        except json.JSONDecodeError:
            continue
    return text


def _listed(value: Any) -> Any:
    """A setting of several values: words between commas, or one value alone."""
    if isinstance(value, str):
        return value.split(",")
    return value if isinstance(value, list) else [value]


def _until(texts: list[str], max_samples: int | None, max_time: float | None) -> Until | None:
    """--until ess=400 --until rhat=1.01, and what bounds it."""
    if not texts:
        if max_samples is not None or max_time is not None:
            raise ValueError("--max-samples and --max-time bound --until, which is missing.")
        return None
    wanted: dict[str, Any] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if key not in ("ess", "rhat") or not isinstance(_parsed(value), (int, float)):
            raise ValueError(f"--until takes ess=NUMBER or rhat=NUMBER, got {text!r}.")
        wanted[key] = float(value)
    if max_samples is not None:
        wanted["max_samples"] = max_samples
    return Until(**wanted, max_time=max_time)


def _cells(directory: Path) -> dict[str, Path]:
    """The run stores in a run directory by name, or the directory itself if it is one."""
    if (directory / MANIFEST).exists():
        return {directory.name: directory}
    chain = chain_of(directory)
    found = sorted(chain.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_ctime_ns)
    if not found:
        raise DirectoryError(f"{directory} holds no chains: {chain} has no run store.")
    return {file.parent.name: file.parent for file in found}


def _chosen_cell(directory: Path, cell: str | None) -> Path:
    cells = _cells(directory)
    if cell is None and len(cells) == 1:
        return next(iter(cells.values()))
    if cell not in cells:
        what = "it has several; choose one with --cell" if cell is None else f"no cell {cell!r}"
        raise ValueError(f"{directory}: {what}; there is {', '.join(cells)}.")
    return cells[cell]


def _brief(status: RunStatus) -> str:
    """One line for one of several runs."""
    if status.is_running:
        state = "going on"
    else:
        state = "finished" if status.is_finished else "stopped"
    if status.run is None:
        return f"{state}, warm-up {status.warmup_done} of {status.num_warmup}"
    worst = [worst_of(values) for values in status.run.draws.values()]
    return (
        f"{state}, {status.num_draws} of {status.asked} draws, acceptance "
        f"{status.run.acceptance_rate:.3f}, smallest ESS {min(e for e, _ in worst):.0f}, largest "
        f"R-hat {max(r for _, r in worst):.3f}" + ("" if status.damage is None else ", damaged")
    )


def _status_lines(status: RunStatus) -> Iterator[str]:
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
    if status.damage is not None:
        yield f"warning: {status.damage}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"traceclass: {message}", err=True)


def _stop(error: KeyboardInterrupt, command: str, is_kept: bool) -> NoReturn:
    """Say what is kept and how to go on; 128 and the number of the signal is the exit code."""
    if isinstance(error, Interrupted):
        typer.echo(f"traceclass: {error} Go on with: {command}", err=True)
        raise typer.Exit(128 + error.signal_number) from None
    if is_kept:
        typer.echo(f"traceclass: interrupted. Go on with: {command}", err=True)
    else:
        typer.echo("traceclass: interrupted; nothing was written.", err=True)
    raise typer.Exit(INTERRUPTED) from None


def _print_summary(path: Path) -> None:
    rows, headline, warnings = terminal_summary(path)
    console = Console(highlight=False)
    table = RichTable(box=box.SIMPLE if console.is_terminal else box.ASCII2)
    for head in rows.heads:
        table.add_column(head, overflow="fold")
    for row in rows.rows:
        table.add_row(*row)
    console.print(table)
    console.print(headline)
    for warning in warnings:
        console.print(f"warning: {warning}")
    console.print(f"report: {path / 'report.html'}", soft_wrap=True)


def _refuse(error: Exception, code: int = BAD_INPUT) -> NoReturn:
    """One line on standard error, and the exit code."""
    message = " ".join(str(error).split())
    typer.echo(f"traceclass: {message}", err=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    sys.exit(main())
