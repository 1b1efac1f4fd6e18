"""`traceclass verify DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from traceclass.cli.outcomes import told_apart


def verify(
    directory: Annotated[
        Path, typer.Argument(help="a run directory, the store of a run, or an expert's")
    ],
) -> None:
    """Read every file of a run, and say of each whether it is as it was written."""
    with told_apart():
        from traceclass.errors import UserValueError
        from traceclass.run_directory.checksums import verdicts
        from traceclass.run_directory.claim import CHECKPOINT, SUMS

        wrong, names = [], []
        for verdict in verdicts(directory):
            names.append(verdict.name)
            typer.echo(f"{verdict.name}: {verdict}")
            if verdict.wrong is not None:
                wrong.append(verdict.name)
        if wrong:
            named = ", ".join(wrong[:3]) + (", ..." if len(wrong) > 3 else "")
            raise UserValueError(f"{len(wrong)} of {len(names)} files are not whole: {named}")
        if SUMS not in names and {"config.json", CHECKPOINT} & set(names):
            what = "only chunks" if "config.json" in names else "nothing"
            typer.echo(
                f"traceclass: {directory} has no {SUMS}, so that {what} could be verified.",
                err=True,
            )
