"""Parameters of a test of which `make test` runs some, and `make test-long` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def by_night(parameters: Iterable[Any], *, long: Iterable[Any]) -> list[Any]:
    """All of `parameters`, those that are also in `long` marked as such.

    For a check that is the same for all of them: some are enough to see it fail in `make test`.
    """
    late, everything = list(long), list(parameters)
    assert all(one in everything for one in late), late
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.long)
        if one in late
        else one
        for one in everything
    ]
