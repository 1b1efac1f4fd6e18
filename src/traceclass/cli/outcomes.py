"""How a command ends: done, refused in one line, interrupted, or stopped by a bug.

Exit codes: 0 done, 1 a bug, 2 a mistake that the user can mend, 3 the disk refused, and 128 plus
the signal's number after an interruption.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import typer

BUG, BAD_INPUT, NOT_WRITTEN = 1, 2, 3
# Exit codes above this are those of a signal.
_SIGNALLED = 128
_SECONDS_TO_NEXT_LOOK = 0.1
# Functions that Python, and JAX, have called while garbage is collected.
_COLLECTING = ("__del__", "_xla_gc_callback")


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: in words, and with nothing left lying about."""

    signal_number = signal.SIGTERM


def heed_signals() -> None:
    """Have Ctrl-C and SIGTERM end a command in words; a run with chains heeds signals itself.

    A signal that whoever started the process wants ignored stays so, as Ctrl-C of background jobs.
    """
    for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raising(error))


def _raising(error: type[KeyboardInterrupt]) -> Callable[[int, FrameType | None], None]:
    """A handler that raises, later where that would do no good, and again if it got lost.

    Libraries drop errors here and there, for instance where Python collects garbage. An error that
    is on its way, or whose way is being cleaned, is not lost.
    """

    def heed(_: int, frame: FrameType | None) -> None:
        can_wait = hasattr(signal, "setitimer")
        if can_wait:
            signal.signal(signal.SIGALRM, heed)
            signal.setitimer(signal.ITIMER_REAL, _SECONDS_TO_NEXT_LOOK)
        if not can_wait or not (
            isinstance(sys.exception(), KeyboardInterrupt) or _cannot_be_left(frame)
        ):
            raise error

    return heed


def _cannot_be_left(frame: FrameType | None) -> bool:
    """Whether an error would crash the process, as compiled modules do if an import fails halfway.

    What is raised while Python collects garbage would be printed, and dropped.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name in _COLLECTING:
            return True
        frame = frame.f_back
    return False


@contextmanager
def ended_in_words() -> Iterator[None]:
    """The process as a whole: an interruption that no command has seen, and a safe end after one.

    Threads that compile may still be at work then, and Python's way of ending would pull the ground
    from under them.
    """
    try:
        yield
    except SystemExit as end:
        # Typer's own answer to Ctrl-C, which says nothing.
        cause = getattr(end.__context__, "__cause__", None)
        code = end.code
        if isinstance(cause, KeyboardInterrupt):
            typer.echo("traceclass: interrupted; nothing was written.", err=True)
            code = _code_of(cause)
        if isinstance(code, int) and code > _SIGNALLED:
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
        raise


@contextmanager
def told_apart() -> Iterator[None]:
    """One line for what the user can mend; the traceback, and what to send, for everything else."""
    try:
        with _errors_told_apart():
            yield
    except KeyboardInterrupt as error:
        typer.echo("traceclass: interrupted.", err=True)
        raise typer.Exit(_code_of(error)) from None


@contextmanager
def _errors_told_apart() -> Iterator[None]:
    # These take a second to import, in which a signal may come.
    from traceclass.errors import UserError
    from traceclass.sampling.files import WriteError

    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` does; Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(_SIGNALLED + signal.SIGPIPE) from None
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
    if hasattr(signal, "setitimer"):  # it has arrived: no need to look again
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _SIGNALLED + getattr(error, "signal_number", signal.SIGINT)
