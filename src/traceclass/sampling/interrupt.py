"""Ctrl-C and SIGTERM: first the work at hand is brought to safety, then the run stops."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Generator
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A run that stopped on a signal, with all its draws committed."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.signal_number = signal_number


class Pending:
    """The signal that asked to stop, if one did."""

    number: int | None = None


@contextlib.contextmanager
def deferred_signals() -> Generator[Pending, None, None]:
    """Note the first Ctrl-C or SIGTERM instead of acting on it; a second one acts at once.

    Python hands signals to the main thread only: elsewhere they keep their meaning.
    """
    pending = Pending()
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return

    def note(number: int, _: FrameType | None) -> None:
        pending.number = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.stderr.write("\nfinishing the chunk; once more stops at once.\n")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
