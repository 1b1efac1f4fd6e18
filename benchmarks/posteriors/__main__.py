"""Effective samples per second of our kernels and of BlackJAX's best, on nine posteriors.

    python -m benchmarks.posteriors [--seconds 60] [--posteriors ...] [--kernels ...]
    python -m benchmarks.posteriors --table

Cells are stored one by one in `--out`, and those that are there are not run again: a run that was
stopped goes on by the same command. `--retry` runs those again that failed, e.g. because something
else ended their process. `--table` makes the page and its figure from that file alone.
Every cell is a process of its own, so that one that fails, hangs or runs out of memory is a line of
the table that says so.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.posteriors import page
from benchmarks.posteriors.cells import (
    AUTHORS_CHEETAH,
    KERNELS,
    OWN_DATA,
    POSTERIORS,
    Cell,
    applies,
    is_done,
    read,
    write,
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of sampling, for each cell")
    parser.add_argument("--limit", type=float, default=60.0, help="minutes after which a cell ends")
    parser.add_argument("--posteriors", nargs="*", choices=list(POSTERIORS))
    parser.add_argument("--kernels", nargs="*", default=list(KERNELS), choices=list(KERNELS))
    parser.add_argument("--out", type=Path, default=Path("docs/posteriors.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/posteriors.md"))
    parser.add_argument("--retry", action="store_true", help="run cells that failed once more")
    parser.add_argument("--table", action="store_true", help="make the page only")
    parser.add_argument(
        "--data", type=Path, help="NAME_data.npy, target last, with NAME_test.npy beside it"
    )
    parser.add_argument(
        "--cheetah", type=Path, help="folder with the authors' HC_data.npy and HC_actions.npy"
    )
    return parser.parse_args()


def chosen(given: argparse.Namespace) -> list[str]:
    """The posteriors by name; those of the user's data are run whenever there are data."""
    names = list(POSTERIORS) if given.posteriors is None else given.posteriors
    if given.cheetah is not None:
        names = [AUTHORS_CHEETAH if name == "half-cheetah" else name for name in names]
    if given.data is not None:
        names = [*names, OWN_DATA + given.data.name.removesuffix("_data.npy")]
    return names


def run_cell(posterior: str, kernel: str, given: argparse.Namespace) -> Cell:
    """What a process finds about one cell, or the reason why it has found nothing."""
    command = [sys.executable, "-m", "benchmarks.posteriors.cell", posterior, kernel]
    command.append(str(given.seconds))
    for name in ("data", "cheetah"):
        if getattr(given, name) is not None:
            command += [f"--{name}", str(getattr(given, name))]
    cell: Cell = {"posterior": posterior, "kernel": kernel}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=60 * given.limit, check=False
        )
    except subprocess.TimeoutExpired:
        return cell | {"failed": f"not done after {given.limit:g} minutes"}
    if answer.returncode != 0:
        sys.stderr.write(answer.stderr)
        return cell | {"failed": reason(answer.returncode, answer.stderr)}
    return cell | json.loads(answer.stdout.splitlines()[-1])


def reason(code: int, said: str) -> str:
    """Why a process ended: the signal that ended it, or the last line of its traceback."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # JAX adds remarks on its traceback after the error; the error begins a line with its name.
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (errors or lines or [f"exit code {code}"])[-1][:200]


def in_words(cell: Cell) -> str:
    """One line for the terminal."""
    if page.has_failed(cell):
        return f"failed: {cell['failed']}"
    return (
        f"{page.ess_per_second(cell):.3g} effective samples per second, R-hat "
        f"{cell['rhat']['worst']}, warm-up {cell['warmup_seconds']:.0f} s"
    )


def run_all(given: argparse.Namespace) -> None:
    """Every cell that is asked for and not stored yet, one after the other."""
    stored = read(given.out)
    if given.retry:
        stored = [cell for cell in stored if not page.has_failed(cell)]
        write(given.out, stored)
    wanted = [
        (posterior, kernel)
        for posterior in chosen(given)
        for kernel in given.kernels
        if applies(kernel, posterior) and not is_done(stored, posterior, kernel)
    ]
    for number, (posterior, kernel) in enumerate(wanted, 1):
        began = time.monotonic()
        cell = run_cell(posterior, kernel, given)
        # Read again: another run may have stored cells of other posteriors in the meantime.
        write(given.out, [*read(given.out), cell])
        print(
            f"{number}/{len(wanted)} {posterior}, {kernel}: {in_words(cell)} "
            f"({time.monotonic() - began:.0f} s in all)",
            flush=True,
        )


def main() -> None:
    given = arguments()
    if not given.table:
        run_all(given)
    cells = read(given.out)
    page.write(cells, given.page)
    print(f"{given.page} and its figure are made from {len(cells)} cells of {given.out}")


if __name__ == "__main__":
    main()
