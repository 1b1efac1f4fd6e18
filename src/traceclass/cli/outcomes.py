"""How a command ends: done, refused in one line, interrupted, or stopped by a bug.

Exit codes: 0 done, 1 a bug, 2 a mistake that the user can mend, 3 the disk refused, and 128 plus
the signal's number after an interruption.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

BUG, BAD_INPUT, NOT_WRITTEN = 1, 2, 3


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: in words, and with nothing left lying about."""

    signal_number = signal.SIGTERM


def heed_signals() -> None:
    """Have SIGTERM raise `Terminated`; a run that has begun its chains heeds signals itself."""

    def terminate(*_: object) -> NoReturn:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)


@contextmanager
def told_apart() -> Iterator[None]:
    """One line for what the user can mend; the traceback, and what to send, for everything else."""
    from traceclass.errors import UserError
    from traceclass.sampling.files import WriteError

    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt as error:
        typer.echo("traceclass: interrupted.", err=True)
        raise typer.Exit(_code_of(error)) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` does; Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(128 + signal.SIGPIPE) from None
    except WriteError as error:
        refuse(error, NOT_WRITTEN)
    except UserError as error:
        refuse(error)
    except MemoryError as error:
        refuse(MemoryError(f"this needs more memory than there is ({error}); ask for less."))
    except Exception as error:
        tell_bug(error)
        raise typer.Exit(BUG) from None


def refuse(error: Exception, code: int = BAD_INPUT) -> NoReturn:
    """One line on standard error, and the exit code."""
    typer.echo(f"traceclass: {' '.join(str(error).split())}", err=True)
    raise typer.Exit(code)


def tell_bug(error: BaseException) -> None:
    """The traceback, and one line that says whose fault it is and what to send."""
    from traceclass.version import __version__

    traceback.print_exception(error, file=sys.stderr)
    typer.echo(
        f"traceclass: this is a bug of traceclass {__version__}, not a mistake of yours. Please "
        "report it with the lines above and the command that you gave.",
        err=True,
    )


def stop(error: KeyboardInterrupt, command: str, is_kept: bool) -> NoReturn:
    """Say what is kept and how to go on; 128 and the number of the signal is the exit code."""
    from traceclass.sampling.interrupt import Interrupted

    if isinstance(error, Interrupted):
        typer.echo(f"traceclass: {error} Go on with: {command}", err=True)
    elif is_kept:
        typer.echo(f"traceclass: interrupted. Go on with: {command}", err=True)
    else:
        typer.echo("traceclass: interrupted; nothing was written.", err=True)
    raise typer.Exit(_code_of(error)) from None


def _code_of(error: KeyboardInterrupt) -> int:
    return 128 + getattr(error, "signal_number", signal.SIGINT)
