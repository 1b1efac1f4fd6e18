"""Two CPU devices for every test, so that sharding is always exercised; counts of what passed."""

from __future__ import annotations

import collections
import functools
import gc
import os
import re
from pathlib import Path

import jax
import pytest
from own_process import HALF_WRITTEN

import traceclass as tc

tc.use_cpu_devices(2)
# What imports and tracing leave lives long, and the collector would look through it all the time.
gc.set_threshold(200_000, 50, 100)

# Linux gives a process 65,530 memory maps, of which a compiled program takes five or so; JAX ends
# in a segmentation fault when there are no more.
MEMORY_MAPS = Path("/proc/self/maps")
MANY_MAPS = 45_000


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", f"ignore:{HALF_WRITTEN}:UserWarning")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """Tests that compile the same program share the result, whichever process they run in."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    # Tests that run tests hand theirs on, and so does every other process that a test starts.
    cache = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "jax"))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    Path(cache).mkdir(exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Forget compiled programs after a file of tests if the process holds many of them."""
    yield
    if MEMORY_MAPS.exists() and MEMORY_MAPS.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()


@functools.cache
def _group_of(file: Path) -> str | None:
    """The group of a whole file of tests, by its `pytestmark`."""
    text = file.read_text(encoding="utf-8") if file.suffix == ".py" else ""
    found = re.search(r'^pytestmark = pytest\.mark\.xdist_group\("(\w+)"\)', text, re.MULTILINE)
    return found and found[1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files with an `xdist_group` go to one worker each, before all other tests.

    pytest-xdist 3.8 would see to it, but it does not see the mark with pytest 9.2, without a word
    (pytest-xdist's issue 1386): every worker then makes the fixtures of these files for itself.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = _group_of(config.rootpath / nodeid.partition("::")[0])
            return group or super()._split_scope(nodeid)

    return ByFile(config, log)


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def count_as(record_property):
    """Count the test, passed or not, under a heading that is printed after the last one."""
    return lambda heading: record_property("counted as", heading)


def pytest_terminal_summary(terminalreporter):
    """`28 of 28 seeded faults caught`: how many tests of each heading passed, of how many."""
    passed, total = collections.Counter(), collections.Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, heading in getattr(report, "user_properties", []):
                if name == "counted as":
                    total[heading] += 1
                    passed[heading] += outcome == "passed"
    for heading, count in total.items():
        terminalreporter.write_line(f"{passed[heading]} of {count} {heading}")
