"""Chains over all cores without being asked: threads draw what devices and one core draw."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import linear_gaussian

import traceclass as tc
from traceclass.kernels.base import Kernel
from traceclass.sampling import devices, side_by_side
from traceclass.sampling.thread_settings import can_be_carried, own_settings

POSTERIOR = linear_gaussian()[0]
FIRST = {"first": lambda z: z[0]}
ADAPTED = tc.pcn.using(reference="adapt")


def sampled(kernel=tc.pcn, **changes) -> tc.Run:
    settings = {"num_chains": 4, "num_warmup": 405, "num_samples": 20, "thin": 2, "chunk_size": 8}
    settings |= {"moments": FIRST, "progress": False}
    return tc.sample(POSTERIOR, kernel, **(settings | changes))


@contextlib.contextmanager
def host(cores: int, num_devices: int = 1):
    """Runs find so many cores and JAX devices; those of this process are as before."""

    def mesh(num_groups):
        count = max(k for k in range(1, num_devices + 1) if num_groups % k == 0)
        return jax.sharding.Mesh(np.array(jax.devices()[:count]), ("chains",))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(devices, "num_cores", lambda: cores)
        patched.setattr(devices, "chain_mesh", mesh)
        yield


@pytest.fixture
def threads():
    """Two cores and one device."""
    with host(cores=2):
        yield


@pytest.fixture(scope="module")
def by_one_core():
    with host(cores=1):
        return sampled()


@pytest.fixture
def calls(monkeypatch):
    """The thread of each call of the program."""
    seen = []
    real = side_by_side.advance

    def noted(*arguments):
        seen.append(threading.current_thread())
        return real(*arguments)

    monkeypatch.setattr(side_by_side, "advance", noted)
    return seen


def test_threads_devices_and_one_core_draw_the_same(by_one_core, calls):
    with host(cores=2, num_devices=2):
        by_devices = sampled()
    assert set(calls) == {threading.main_thread()}
    with host(cores=2):
        by_threads = sampled()
    assert set(calls) > {threading.main_thread()}
    assert by_threads.sha256() == by_devices.sha256() == by_one_core.sha256()
    used = [(run.num_devices, run.num_cores_used) for run in (by_devices, by_threads, by_one_core)]
    assert used == [(2, 2), (1, 2), (1, 1)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "num_chains"),
    [(tc.hmc, 3), (ADAPTED, 4), (ADAPTED, 3), (tc.tempered(tc.pcn, num_temperatures=3), 4)],
)
def test_so_do_odd_numbers_of_chains_and_chains_that_are_tuned_apart(kernel, num_chains):
    runs = []
    for cores in (1, 2):
        with host(cores):
            runs.append(sampled(kernel, num_chains=num_chains, num_warmup=800))
    assert [run.num_cores_used for run in runs] == [1, 2]
    assert runs[0].sha256() == runs[1].sha256()


def test_shares_are_computed_at_the_same_time(threads, monkeypatch):
    """Each call waits for the other: in turn, they would wait for ever."""
    real, both = side_by_side.advance, threading.Barrier(2)

    def met(*arguments):
        if threading.current_thread() is not threading.main_thread():
            both.wait(timeout=60)
        return real(*arguments)

    monkeypatch.setattr(side_by_side, "advance", met)
    sampled()


def test_threads_call_one_program(threads):
    """One trace for all shares, windows and chunks, under settings of this thread as well."""
    traces = []

    def counting(posterior, step_size):
        algorithm = tc.pcn.build(posterior, step_size)

        def step(key, state):
            traces.append("step")
            return algorithm.step(key, state)

        return algorithm._replace(step=step)

    counted = Kernel(counting, tc.pcn.rule)
    sampled(counted)
    assert traces == ["step"]
    sampled(counted, seed=1)
    assert traces == ["step"]
    with jax.default_matmul_precision("highest"):
        run = sampled(counted)
    assert run.num_cores_used == 2
    assert traces == ["step"] * 2


@pytest.mark.long
def test_double_precision_of_one_thread_is_that_of_the_others(x64):
    runs = []
    for cores in (1, 2):
        with host(cores):
            runs.append(sampled())
    assert [run.num_cores_used for run in runs] == [1, 2]
    assert runs[1].positions is not None
    assert runs[1].positions.dtype == np.float64
    assert runs[0].sha256() == runs[1].sha256()


def test_settings_of_this_thread_are_made_in_the_others():
    def seen(_):
        return jnp.zeros(()).dtype, jax.config.values["jax_default_matmul_precision"]

    assert own_settings() == {}
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        here = seen(None)
        assert set(own_settings()) == {"jax_enable_x64", "jax_default_matmul_precision"}
        with side_by_side.side_by_side(2) as for_each:
            assert for_each(seen, [1, 2, 3]) == [here] * 3
    assert here != seen(None)


def test_a_setting_that_cannot_be_handed_on_keeps_to_one_thread():
    with jax.transfer_guard("allow"):
        assert not can_be_carried(own_settings())
        assert side_by_side.hindrance(POSTERIOR, []).startswith("a setting of JAX")
    assert side_by_side.hindrance(POSTERIOR, []) == ""


def test_code_that_jax_calls_back_is_not_called_by_two_threads_unasked(threads, calls):
    """It may be a simulator with a state of its own."""
    shape = jax.ShapeDtypeStruct((), jnp.float32)

    def called_back(values):
        return jax.pure_callback(
            lambda v: np.float32(-np.sum(np.asarray(v) ** 2)), shape, values,
            vmap_method="sequential",
        )  # fmt: skip

    blind = tc.Posterior(POSTERIOR.prior, tc.Likelihood(np.zeros((1, 1)), called_back))
    few = {"num_warmup": 0, "num_samples": 4, "thin": 1, "progress": False}
    run = tc.sample(blind, tc.pcn, step_size=0.3, **few)
    assert set(calls) == {threading.main_thread()}
    assert run.num_cores_used == 1
    (note,) = run.summary().notes
    assert note.startswith("the run used 1 of 2 cores: JAX calls Python code back")
    assert f"note: {note}" in str(run.summary())
    inside = jax.jit(lambda z: jax.lax.cond(z[0] > 0, called_back, jnp.sum, z))
    assert "calls Python code back" in side_by_side.hindrance(POSTERIOR, [inside])


def test_an_error_in_a_thread_keeps_its_traceback_and_ends_the_others(threads, monkeypatch):
    real = side_by_side.advance

    def breaks_in_a_thread(*arguments):
        if threading.current_thread() is not threading.main_thread():
            raise FloatingPointError("as it may happen")
        return real(*arguments)

    monkeypatch.setattr(side_by_side, "advance", breaks_in_a_thread)
    before = set(threading.enumerate())
    with pytest.raises(FloatingPointError, match="as it may happen") as raised:
        sampled()
    frames = [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert frames[-1] == "breaks_in_a_thread"
    assert "_warm_up" in frames
    assert set(threading.enumerate()) <= before


def test_a_signal_while_threads_work_stops_a_stored_run_which_goes_on_by_devices(
    threads, by_one_core, monkeypatch, tmp_path
):
    real, number = side_by_side.advance, 0

    def interrupted(*arguments):
        nonlocal number
        number += threading.current_thread() is not threading.main_thread()
        if number == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(side_by_side, "advance", interrupted)
        with pytest.raises(tc.Interrupted, match="resume goes on"):
            sampled(store=tmp_path / "run")
    with host(cores=2, num_devices=2):
        resumed = sampled(store=tmp_path / "run", resume=True)
    assert resumed.num_devices == 2
    assert resumed.sha256() == by_one_core.sha256()


@pytest.mark.parametrize(
    ("num_chains", "group_size", "cores", "num_devices", "expected"),
    [
        # (devices, shares, cores used)
        (1, 1, 2, 1, (1, 1, 1)),
        (2, 1, 2, 1, (1, 2, 2)),
        (3, 1, 2, 1, (1, 3, 2)),
        (8, 4, 2, 1, (1, 2, 2)),
        (8, 4, 2, 2, (2, 1, 2)),
        (3, 1, 2, 2, (1, 3, 2)),
        (8, 4, 1, 1, (1, 1, 1)),
        (4, 2, 8, 1, (1, 2, 2)),
        (24, 2, 8, 1, (1, 12, 8)),
    ],
)
def test_as_few_equal_shares_as_keep_all_cores_busy(
    num_chains, group_size, cores, num_devices, expected
):
    with host(cores, num_devices):
        spread = devices.spread(num_chains, group_size, lambda: "")
    assert (spread.mesh.size, spread.num_shares, spread.num_cores_used) == expected
    assert spread.num_cores == cores
    assert bool(spread.idle_cores) == (expected[2] < cores)


@pytest.mark.parametrize(
    ("num_chains", "group_size", "words"),
    [
        (1, 1, "the run used 1 of 8 cores, one per chain. Use more chains."),
        (4, 2, "the run used 2 of 8 cores, one per group of 2 chains, which"),
        (8, 1, ""),
    ],
)
def test_idle_cores_are_explained(num_chains, group_size, words):
    with host(cores=8):
        idle = devices.spread(num_chains, group_size, lambda: "").idle_cores
    assert idle.startswith(words)
    assert bool(idle) == bool(words)
    assert ("group_size=1" in idle) == (group_size > 1)


def test_cores_are_not_counted_where_chains_are_on_other_devices(monkeypatch):
    gpus = SimpleNamespace(devices=np.array([SimpleNamespace(platform="gpu")]), size=1)
    monkeypatch.setattr(devices, "chain_mesh", lambda _: gpus)
    spread = devices.spread(8, 4, lambda: "")
    assert spread == (gpus, 1, None, None, "")


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 2), (8, 2)])
def test_a_number_of_devices_that_was_asked_for_limits_the_cores(cores, expected, monkeypatch):
    """Two, in all tests."""
    monkeypatch.setattr(devices, "_cores_of_process", lambda: cores)
    assert devices.num_cores() == expected


@pytest.mark.long
@pytest.mark.parametrize(("asked", "cores"), [("", 4), ("tc.use_cpu_devices(1)", 1)])
def test_a_fresh_process_uses_all_cores_unless_it_is_told_otherwise(asked, cores):
    code = f"""
import traceclass as tc
{asked}
from traceclass.sampling import devices
devices._cores_of_process = lambda: 4
print(devices.num_cores())
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == str(cores)
