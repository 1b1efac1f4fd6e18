"""The command line where terminals are narrow or plain, and where signals come early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from by_night import by_night
from tiny_run import TINY, in_this_process

from traceclass.cli.report import as_list

pytestmark = pytest.mark.xdist_group("cli")

COMMAND = [sys.executable, "-m", "traceclass.cli"]
HEEDING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from traceclass.cli import main; main()"
)


@pytest.mark.long
def test_signs_that_cannot_be_shown_are_replaced(finished):
    """The table has a plus-minus sign, which ASCII has not."""
    path, answer = finished
    assert "±" in answer.stdout
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    ascii_only = subprocess.run(
        [*COMMAND, "report", str(path)], env=os.environ | plain, capture_output=True, check=False
    )
    assert ascii_only.returncode == 0, ascii_only.stderr
    assert b"?" in ascii_only.stdout
    assert ascii_only.stdout.isascii()


def test_a_table_that_does_not_fit_becomes_a_list(finished, monkeypatch):
    path, _ = finished
    monkeypatch.setenv("COLUMNS", "40")
    narrow = in_this_process("report", path, cwd=path).stdout
    assert "|" not in narrow
    assert "  paper: 34" in narrow.splitlines()
    monkeypatch.setenv("COLUMNS", "200")
    assert "|" in in_this_process("report", path, cwd=path).stdout


def test_a_list_has_every_cell_that_says_something():
    lines = list(
        as_list(["prior", "failures", "paper"], [["tcNN", "3", "23"], ["expert", "0", "-"]])
    )
    assert lines == ["tcNN", "  failures: 3", "  paper: 23", "expert", "  failures: 0"]


@pytest.mark.parametrize("number", by_night([signal.SIGTERM, signal.SIGINT], long=[signal.SIGINT]))
def test_a_signal_before_the_first_commit_is_heeded(number, tmp_path):
    """The directory is claimed and nothing is sampled yet: it ends in words, and leaves nothing."""
    program = subprocess.Popen(
        [sys.executable, "-c", HEEDING, "run", "mountain-car", "--out", "run", *TINY],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with program:
        lock, deadline = tmp_path / "run" / ".lock", time.monotonic() + 120
        while not lock.exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        program.send_signal(number)
        _, said = program.communicate(timeout=120)
    assert program.returncode == 128 + number, said
    assert said.startswith("traceclass: interrupted")
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("tenths", range(3, 40, 3))
def test_a_signal_at_any_moment_is_heeded(tenths, number, tmp_path):
    """Libraries are imported and collected, data made, directories claimed, chains begun."""
    program = subprocess.Popen(
        [sys.executable, "-c", HEEDING, "run", "mountain-car", "--out", "run", "--quiet"],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with program:
        time.sleep(tenths / 10)
        program.send_signal(number)
        output, said = program.communicate(timeout=120)
    assert program.returncode == 128 + number, said
    assert output == ""
    assert said.splitlines()[-1].startswith("traceclass: ")
    if "nothing was written" in said:
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("where", ["an import", "the collector", "a library that drops errors"])
def test_a_signal_waits_where_an_error_would_crash_or_be_lost(where, tmp_path):
    """Where a compiled module is half imported, or garbage is being collected."""
    wait = "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.2)\n"
    (tmp_path / "half.py").write_text(wait + "print('all of it', flush=True)\n")
    begin = {
        "an import": "import half",
        "the collector": "import gc\n"
        "def _xla_gc_callback(*_):\n"
        "    gc.callbacks.clear()\n"
        "    import half\n"
        "gc.callbacks.append(_xla_gc_callback)\n"
        "gc.collect()",
        "a library that drops errors": "try: import half; time.sleep(1)\nexcept: pass",
    }[where]
    code = (
        "import time; from traceclass.cli.outcomes import heed_signals, told_apart\n"
        f"heed_signals()\n{begin}\ntime.sleep(30)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=25,
    )  # fmt: skip
    assert answer.stdout == "all of it\n"
    assert answer.returncode != 0
    assert "Terminated" in answer.stderr.splitlines()[-1]
