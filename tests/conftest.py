"""Two CPU devices for every test, so that sharding is always exercised."""

from __future__ import annotations

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
