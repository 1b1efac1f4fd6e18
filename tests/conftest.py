"""Two CPU devices for every test, so that sharding is always exercised; counts of what passed."""

from __future__ import annotations

import collections

import jax
import pytest

import traceclass as tc

tc.use_cpu_devices(2)


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """Tests that compile the same program share the result, which is a third of their time."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


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
