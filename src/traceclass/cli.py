"""The command line: `traceclass list | run NAME | report DIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pydantic
import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

import traceclass
from traceclass.experiments import EXPERIMENTS, Config, Experiment
from traceclass.experiments.claim import DirectoryError, claimed
from traceclass.experiments.directory import write_run
from traceclass.report import render, terminal_summary

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Infer unknown functions from data: the paper's experiments, and their reports.",
)
BAD_INPUT = 2
INTERRUPTED = 130


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
    preset: Annotated[str, typer.Option(help="quick or paper")] = "quick",
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="seed of data, chains and rollouts")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="run directory [runs/NAME-PRESET-SEED]")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a setting")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="replace a run in the same place")] = False,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    """Run an experiment and write its run directory, with figures and report.html."""
    experiment = _experiment(name)
    try:
        config = _configuration(experiment, preset, seed, settings or [])
        path = out or Path("runs") / f"{experiment.name}-{preset}-{config.seed}"
        traceclass.use_cpu_devices()
        problem = experiment.build(config)
        with claimed(path, overwrite=overwrite):
            result = experiment.run(problem, config, not quiet)
            write_run(path, experiment, preset, config, result, render)
    except (ValueError, TypeError, OverflowError, MemoryError, DirectoryError) as error:
        _refuse(error)
    except KeyboardInterrupt:
        typer.echo("traceclass: interrupted; nothing was written.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _print_summary(path)


@app.command("report")
def report_run(
    directory: Annotated[Path, typer.Argument(help="a run directory")],
) -> None:
    """Draw figures and report.html of a run again, from its stored files."""
    try:
        render(directory)
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
    experiment: Experiment, preset: str, seed: str | None, settings: list[str]
) -> Config:
    """The preset with the user's changes, validated as a whole."""
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
    try:
        # As JSON: there a list may stand for a tuple, while "2" or true is still not a number.
        return type(chosen).model_validate_json(json.dumps(chosen.model_dump() | changes))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise ValueError(f"setting {key}={changes[key]!r}: {first['msg']}.") from error


def _parsed(text: str) -> Any:
    """A setting's value: JSON if it is JSON, numbers between commas, or else the text itself."""
    for candidate in (text, f"[{text}]" if "," in text else text):
        try:
            return json.loads(candidate)
        except json.JSONDecodeError:
            continue
    return text


def _print_summary(path: Path) -> None:
    rows, headline, warnings = terminal_summary(path)
    console = Console(highlight=False)
    table = RichTable(*rows.heads, box=box.SIMPLE if console.is_terminal else box.ASCII2)
    for row in rows.rows:
        table.add_row(*row)
    console.print(table)
    console.print(headline)
    for warning in warnings:
        console.print(f"warning: {warning}")
    console.print(f"report: {path / 'report.html'}", soft_wrap=True)


def _refuse(error: Exception) -> NoReturn:
    """One line on standard error, exit code 2."""
    message = " ".join(str(error).split())
    typer.echo(f"traceclass: {message}", err=True)
    raise typer.Exit(BAD_INPUT)


if __name__ == "__main__":
    sys.exit(main())
