"""`traceclass train-expert ENVIRONMENT`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from traceclass.cli.outcomes import stop, told_apart


def train_expert(
    environment: Annotated[str, typer.Argument(help="half-cheetah")],
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
    with told_apart():
        from traceclass import training
        from traceclass.errors import UserValueError
        from traceclass.training_files import CHECKPOINT

        if environment not in training.ENVIRONMENTS:
            known = ", ".join(training.ENVIRONMENTS)
            raise UserValueError(f"unknown environment {environment!r}; there is {known}.")
        asked = {"num_iterations": iterations, "seed": seed}
        changes = {name: value for name, value in asked.items() if value is not None}
        try:
            search = training.search_of(path, changes, resume=resume)
            expert = training.train_expert(
                path, search, resume=resume, overwrite=overwrite, progress=not quiet
            )
        except KeyboardInterrupt as error:
            command = f"traceclass train-expert {environment} --out {quote(str(path))} --resume"
            stop(error, command, (path / CHECKPOINT).exists())
    for line in (*training.summary(expert), f"expert: {path}"):
        typer.echo(line)
