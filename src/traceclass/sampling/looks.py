"""Calls of the compiled program while draws are made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from traceclass.sampling.chunk import Tally
from traceclass.sampling.progress import ess_so_far
from traceclass.sampling.run import TALLY

if TYPE_CHECKING:
    from traceclass.sampling.session import Session

# One call of the compiled program is the time between two looks at the progress bar.
_SECONDS_PER_LOOK = 1.0


class Looks:
    """How large calls are, and what is shown of them."""

    def __init__(self, session: Session):
        self._session = session
        self._size = session.chunk_size or 1
        self._first, self._began = session.draws_done, time.monotonic()
        self._seconds = session.seconds["sampling"]
        self._ess, self._ess_time, self._ess_draws = None, self._began, 0
        self._accepted, self._tried = 0.0, 0

    def advance(self, goal: int) -> None:
        """Some draws more, at most up to `goal`."""
        session, began = self._session, time.monotonic()
        done = session.draws_done
        # With a chunk size, chunks end at its multiples, wherever the run was taken up.
        cut = goal if session.chunk_size is None else done - done % session.chunk_size
        cut += 0 if session.chunk_size is None else session.chunk_size
        size = min(self._size, session.program.capacity, goal - done, cut - done)
        tally, draws = session.advance(
            session.num_warmup + done * session.thin, size, session.thin, keep=True
        )
        if "position" in draws:
            every = session.position_every
            draws["position"] = draws["position"][:, -done % every :: every]
        session.pending.append(draws | {TALLY + n: a for n, a in tally._asdict().items()})
        session.draws_done = done = done + size
        now = time.monotonic()
        session.seconds["sampling"] = self._seconds + now - self._began
        if session.chunk_size is None:
            # Not more than double: the first chunk is too short to time well.
            pace = _SECONDS_PER_LOOK / max(now - began, 1e-6)
            self._size = max(1, int(size * min(2.0, pace)))
        self._show(tally, goal, now)
        session.look(cut=done in (cut, goal))

    def _show(self, tally: Tally, goal: int, now: float) -> None:
        session = self._session
        done, lead = session.draws_done, session.lead
        self._accepted += float(tally.acceptance_rate[..., lead].sum())
        self._tried += int(tally.tried[..., lead].sum())
        # Rarer and rarer, because each time takes longer.
        is_time = now - self._ess_time > 2.0 and done > 1.25 * self._ess_draws
        if session.progress.wants_ess and is_time:
            self._ess, self._ess_draws = ess_so_far(session.history("log_likelihood")), done
            self._ess_time = time.monotonic()
        left = (now - self._began) * (goal - done) / (done - self._first)
        rate = self._accepted / max(self._tried, 1)
        steps = done * session.thin, goal * session.thin
        session.show("sampling", *steps, rate, self._ess, left)
