"""Progress: lines for a pipe, a bar for a terminal, silence when asked."""

from __future__ import annotations

import io
import sys

import pytest

from traceclass.sampling import progress
from traceclass.sampling.progress import Bar, Lines, Silent, Status, duration, make_progress


def status(done: int) -> Status:
    return Status("sampling", done, 1000, 0.231, 0.1, 42.0, 12.0)


def test_lines_come_at_most_every_thirty_seconds(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    lines = Lines(stream)
    for second in range(100):
        clock[0] = float(second)
        lines.show(status(second * 10))
    assert len(stream.getvalue().splitlines()) == 3
    lines.close()
    text = stream.getvalue()
    assert len(text.splitlines()) == 4
    assert text.splitlines()[-1] == (
        "sampling  99%  acceptance 0.231, step size 0.1, ESS 42, 12 s left"
    )
    assert all(character.isprintable() or character == "\n" for character in text)


def test_closing_twice_says_nothing_new():
    stream = io.StringIO()
    lines = Lines(stream)
    lines.show(status(1000))
    lines.close()
    lines.close()
    assert len(stream.getvalue().splitlines()) == 1


def test_a_bar_shows_acceptance_step_size_ess_and_time_left():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    bar = Bar(stream)
    bar.show(status(500))
    bar.close()
    for word in ("acc 0.23", "step 0.1", "ESS 42", "12 s left"):
        assert word in stream.getvalue()


def test_what_is_shown_depends_on_the_stream(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(make_progress(True), Lines)
    named = make_progress("tcnn-10")
    named.show(status(1000))
    named.close()
    assert sys.stderr.getvalue().startswith("tcnn-10 sampling 100%")
    silent = make_progress(False)
    assert isinstance(silent, Silent)
    silent.show(status(1))
    silent.close()


@pytest.mark.parametrize(
    ("seconds", "text"), [(8.2, "8 s"), (89.0, "89 s"), (200.0, "3 min"), (9000.0, "2.5 h")]
)
def test_duration_reads_at_a_glance(seconds, text):
    assert duration(seconds) == text
