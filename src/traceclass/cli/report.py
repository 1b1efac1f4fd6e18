"""`traceclass report DIR`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from traceclass.cli.outcomes import BUG, tell_bug, told_apart


def report(
    directory: Annotated[Path, typer.Argument(help="a run directory")],
    force: Annotated[
        bool, typer.Option(help="use edited or damaged files too; the page says so")
    ] = False,
) -> None:
    """Draw figures and report.html of a run again, from its stored files."""
    draw_and_summarise(directory, force=force)


def draw_and_summarise(directory: Path, *, force: bool = False) -> None:
    """Draw the page of a finished run and print its main table; exit code 1 if a figure failed."""
    with told_apart():
        from traceclass.experiments.rendering import render

        failed = render(directory, force=force)
        _print_summary(directory, force=force)
    if failed:
        for error in failed.values():
            tell_bug(error)
        names = ", ".join(failed)
        typer.echo(f"traceclass: not drawn: {names}. The results and all else are there.", err=True)
        raise typer.Exit(BUG)


def _print_summary(path: Path, *, force: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    from traceclass.experiments.rendering import terminal_summary

    rows, headline, warnings = terminal_summary(path, force=force)
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE if console.is_terminal else box.ASCII2)
    for title in rows.titles:
        table.add_column(title, overflow="fold")
    for row in rows.rows:
        table.add_row(*row)
    # The least width at which no word has to be cut.
    if Measurement.get(console, console.options.update(max_width=10_000), table).minimum > (
        console.width
    ):
        for line in as_list(rows.titles, rows.rows):
            console.print(line, soft_wrap=True)
    else:
        console.print(table)
    console.print(headline)
    for warning in warnings:
        console.print(f"warning: {warning}")
    console.print(f"report: {path / 'report.html'}", soft_wrap=True)


def as_list(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table for a narrow terminal: the first cell of a row, and below it the others, by title."""
    for first, *others in rows:
        yield first
        named = zip(titles[1:], others, strict=True)
        yield from (f"  {title}: {cell}" for title, cell in named if cell not in ("", "-"))
