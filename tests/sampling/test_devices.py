"""Devices: the mesh divides the chains, and devices cannot be made after the fact."""

from __future__ import annotations

import subprocess
import sys

import pytest

import traceclass as tc
from traceclass.sampling.devices import chain_mesh


@pytest.mark.parametrize(("num_chains", "count"), [(1, 1), (3, 1), (4, 2), (8, 2)])
def test_the_mesh_is_the_largest_that_divides_the_chains(num_chains, count):
    assert chain_mesh(num_chains).size == count


def test_devices_come_too_late_once_jax_has_started():
    with pytest.raises(RuntimeError, match="came too late: JAX has already started with 2"):
        tc.use_cpu_devices(4)


@pytest.mark.parametrize("count", [-1, 0])
def test_nonsense_counts_are_refused(count):
    with pytest.raises(ValueError, match=f"count must be at least 1, got {count}"):
        tc.use_cpu_devices(count)


def test_asking_for_what_is_there_is_no_mistake():
    assert tc.use_cpu_devices(2) == 2


@pytest.mark.long
def test_a_fresh_process_can_be_given_devices():
    code = "import traceclass as tc, jax; tc.use_cpu_devices(3); print(len(jax.devices()))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "3"
