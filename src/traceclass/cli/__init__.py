"""The command line: one module per command.

Importing this package imports nothing heavy: `traceclass --help` answers before JAX could start.
Each command imports what it needs when it is called.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from traceclass.cli.export import export
from traceclass.cli.listing import listing
from traceclass.cli.outcomes import ended_in_words, heed_signals
from traceclass.cli.report import report
from traceclass.cli.run import run
from traceclass.cli.status import status
from traceclass.cli.train_expert import train_expert
from traceclass.cli.verify import verify

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Infer unknown functions from data: the paper's experiments, and their reports.",
)
app.command("list")(listing)
app.command("run")(run)
app.command("train-expert")(train_expert)
app.command("status")(status)
app.command("export")(export)
app.command("verify")(verify)
app.command("report")(report)


def _version(is_asked: bool) -> None:
    if is_asked:
        from traceclass.version import __version__

        typer.echo(f"traceclass {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Entry point of the `traceclass` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Where a terminal cannot show a sign, another stands for it.
            stream.reconfigure(errors="replace")
    heed_signals()
    with ended_in_words():
        app()
