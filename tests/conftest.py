"""Two CPU devices for every test, so that sharding is always exercised."""

from __future__ import annotations

import jax
import pytest

import traceclass as tc

tc.use_cpu_devices(2)


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield
