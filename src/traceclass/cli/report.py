"""`traceclass report DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from traceclass.cli.outcomes import BUG, tell_bug, told_apart


def report(
    directory: Annotated[Path, typer.Argument(help="a run directory")],
) -> None:
    """Draw figures and report.html of a run again, from its stored files."""
    draw_and_summarise(directory)


def draw_and_summarise(directory: Path) -> None:
    """Draw the page of a finished run and print its main table; exit code 1 if a figure failed."""
    with told_apart():
        from traceclass.experiments.rendering import render

        failed = render(directory)
        _print_summary(directory)
    if failed:
        for error in failed.values():
            tell_bug(error)
        names = ", ".join(failed)
        typer.echo(f"traceclass: not drawn: {names}. The results and all else are there.", err=True)
        raise typer.Exit(BUG)


def _print_summary(path: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from traceclass.experiments.rendering import terminal_summary

    rows, headline, warnings = terminal_summary(path)
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE if console.is_terminal else box.ASCII2)
    for title in rows.titles:
        table.add_column(title, overflow="fold")
    for row in rows.rows:
        table.add_row(*row)
    console.print(table)
    console.print(headline)
    for warning in warnings:
        console.print(f"warning: {warning}")
    console.print(f"report: {path / 'report.html'}", soft_wrap=True)
