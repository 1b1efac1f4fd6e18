"""`traceclass verify DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from traceclass.cli.outcomes import told_apart


def verify(
    directory: Annotated[Path, typer.Argument(help="a run directory, or the store of a run")],
) -> None:
    """Read every file of a run, and say of each whether it is as it was written."""
    with told_apart():
        from traceclass.errors import UserValueError
        from traceclass.run_directory.checksums import SUMS, verdicts

        wrong, names = [], []
        for verdict in verdicts(directory):
            names.append(verdict.name)
            typer.echo(f"{verdict.name}: {verdict}")
            if verdict.wrong is not None:
                wrong.append(verdict.name)
        if wrong:
            named = ", ".join(wrong[:3]) + (", ..." if len(wrong) > 3 else "")
            raise UserValueError(f"{len(wrong)} of {len(names)} files are not whole: {named}")
        if SUMS not in names and "config.json" in names:
            typer.echo(
                f"traceclass: {directory} has no {SUMS}, so that only chunks could be verified.",
                err=True,
            )
