"""What a user sees while work goes on: a bar on a terminal, an occasional line in a file."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import NamedTuple, Protocol, TextIO

import numpy as np

from traceclass.errors import UserTypeError
from traceclass.validation import shortened

# A log file wants few lines; a terminal is redrawn by rich at its own pace.
SECONDS_BETWEEN_LINES = 30.0
# One call of the compiled program is the time between two looks at the progress bar.
_SECONDS_PER_CALL = 1.0
# An effective sample size is computed for the progress bar when this many seconds have passed and
# there are a quarter more draws: each time takes longer.
_SECONDS_BETWEEN_ESS, _GROWTH_BETWEEN_ESS = 2.0, 1.25


class Shown(Protocol):
    """How far some work is: `str` of it is a line of text, `words()` stand beside a bar."""

    @property
    def phase(self) -> str: ...

    @property
    def steps_done(self) -> int: ...

    @property
    def steps_total(self) -> int: ...

    def words(self) -> list[str]: ...


class Status(NamedTuple):
    """How far a run is."""

    phase: str
    steps_done: int
    steps_total: int
    acceptance_rate: float
    step_size: float | None
    ess: float | None
    seconds_left: float | None

    def __str__(self) -> str:
        share = self.steps_done / max(self.steps_total, 1)
        ess = "" if self.ess is None else f", ESS {self.ess:.0f}"
        step = "" if self.step_size is None else f", step size {self.step_size:.4g}"
        left = "" if self.seconds_left is None else f", {duration(self.seconds_left)} left"
        return (
            f"{self.phase:8s} {share:4.0%}  acceptance {self.acceptance_rate:.3f}{step}{ess}{left}"
        )

    def words(self) -> list[str]:
        """The same in a few short words."""
        words = [f"acc {self.acceptance_rate:.2f}"]
        if self.step_size is not None:
            words.append(f"step {self.step_size:.3g}")
        if self.ess is not None:
            words.append(f"ESS {self.ess:.0f}")
        if self.seconds_left is not None:
            words.append(f"{duration(self.seconds_left)} left")
        return words


@dataclasses.dataclass
class Pace:
    """How fast the draws of this call of `sample` come, and what is shown of them."""

    # Draws of the next call of the program.
    size: int
    first_draw: int
    seconds_before: float
    began: float = dataclasses.field(default_factory=time.monotonic)
    accepted: float = 0.0
    tried: int = 0
    ess: float | None = None
    ess_draws: int = 0

    def __post_init__(self):
        self.ess_time = self.began

    @property
    def acceptance_rate(self) -> float:
        return self.accepted / max(self.tried, 1)

    def wants_ess(self, now: float, done: int) -> bool:
        is_time = now - self.ess_time > _SECONDS_BETWEEN_ESS
        return is_time and done > _GROWTH_BETWEEN_ESS * self.ess_draws

    def adjust(self, size: int, seconds: float) -> None:
        """Set the size of the next call after one of `size` draws that took `seconds`."""
        # Not more than double: the first call is too short to time well.
        growth = min(2.0, _SECONDS_PER_CALL / max(seconds, 1e-6))
        self.size = max(1, int(size * growth))


class Progress(Protocol):
    """Something that shows how far work is; `wants_ess` says if the cost of an ESS is worth it."""

    wants_ess: bool

    def show(self, status: Shown) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    wants_ess = False

    def show(self, status: Shown) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """Plain lines for a pipe or a file: one every 30 s, and the last status when it closes."""

    wants_ess = True

    def __init__(self, stream: TextIO, label: str = ""):
        self._stream, self._label = stream, label
        self._last_time = time.monotonic()
        self._pending: Shown | None = None

    def show(self, status: Shown) -> None:
        self._pending = status
        if time.monotonic() - self._last_time >= SECONDS_BETWEEN_LINES:
            self._write()

    def close(self) -> None:
        # The closing line is not bound by the pause: it is the only one of a short run.
        if self._pending is not None:
            self._write()

    def _write(self) -> None:
        print(f"{self._label} {self._pending}".lstrip(), file=self._stream, flush=True)
        self._last_time = time.monotonic()
        self._pending = None


class Bar:
    """A bar with the status beside it, for a terminal."""

    wants_ess = True

    def __init__(self, stream: TextIO, label: str = ""):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[status]}"),
            console=Console(file=stream),
        )
        self._label = label
        self._task = self._bar.add_task(f"{label} starting".lstrip(), total=1, status="")
        self._bar.start()

    def show(self, status: Shown) -> None:
        self._bar.update(
            self._task,
            description=f"{self._label} {status.phase}".lstrip(),
            completed=status.steps_done,
            total=status.steps_total,
            status="  ".join(status.words()),
        )

    def close(self) -> None:
        self._bar.stop()


def make_progress(show: bool | str) -> Progress:
    """A bar if standard error is a terminal, lines if it is not, nothing if not wanted."""
    if not isinstance(show, (bool, str)):
        raise UserTypeError(f"progress must be True, False or a label, got {shortened(show)}.")
    if not show:
        return Silent()
    label = show if isinstance(show, str) else ""
    return Bar(sys.stderr, label) if sys.stderr.isatty() else Lines(sys.stderr, label)


def duration(seconds: float) -> str:
    """A time a person reads at a glance: 8 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def ess_so_far(draws: np.ndarray) -> float | None:
    """Bulk effective sample size of one scalar functional (chains, draws), once it is defined."""
    from arviz_stats.base.array import array_stats

    if draws.shape[1] < 4 or not np.isfinite(draws).all():
        return None
    return float(np.asarray(array_stats.ess(draws.astype(np.float64))))
