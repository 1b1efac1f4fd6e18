"""A run that is stopped after a step of warm-up, as a kill would end it, with all committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small import sampled

from traceclass.sampling.session import Session


class StopError(Exception):
    """Raised in mid-run."""


def stopped_in_warm_up(
    monkeypatch: pytest.MonkeyPatch, step: int, store: Path, **settings: Any
) -> None:
    """Run `small.sampled` into `store` until so many steps of warm-up are done."""
    look = Session.look

    def looking(session: Session, *, cut: bool) -> None:
        look(session, cut=cut)
        if session.warmup_done == step:
            session._commit()
            raise StopError

    with monkeypatch.context() as patched:
        patched.setattr(Session, "look", looking)
        with pytest.raises(StopError):
            sampled(store, **settings)
