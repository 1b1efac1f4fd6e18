"""The errors that a user can set right; every other error is a bug and keeps its traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake that the user can mend: one line that says what was wrong, and what to do.

    The command line prints that line alone, with exit code 2. `UserValueError` and `UserTypeError`
    are also the built-in errors that callers of a Python function expect.
    """


class UserValueError(UserError, ValueError):
    """An argument has the right type and a value that cannot be used."""


class UserTypeError(UserError, TypeError):
    """An argument has a type that cannot be used."""


class UserRuntimeError(UserError, RuntimeError):
    """A call that comes at the wrong time."""
