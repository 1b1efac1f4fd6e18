"""`traceclass export DIR FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from traceclass.cli.outcomes import told_apart


def export(
    directory: Annotated[Path, typer.Argument(help="a run directory, finished or not")],
    file: Annotated[Path, typer.Argument(help="the netCDF file to write")],
    cell: Annotated[
        str | None, typer.Option(help="which one, of a run of several; see `status`")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="replace a file of that name")] = False,
) -> None:
    """Write the draws of a run to a netCDF file, as ArviZ reads them."""
    with told_apart():
        from traceclass.cli.status import stores_in
        from traceclass.errors import UserValueError
        from traceclass.sampling.files import write_netcdf
        from traceclass.sampling.new_file import new_file
        from traceclass.sampling.store import open_run

        cells = stores_in(directory)
        if cell is None and len(cells) == 1:
            cell = next(iter(cells))
        if cell not in cells:
            what = "it has several; choose one with --cell" if cell is None else f"no cell {cell!r}"
            raise UserValueError(f"{directory}: {what}; there is {', '.join(cells)}.")
        draws = open_run(cells[cell]).to_arviz()
        with new_file(file, overwrite=overwrite, own=[directory]) as temporary:
            write_netcdf(temporary, draws)
    typer.echo(f"draws: {file}")
