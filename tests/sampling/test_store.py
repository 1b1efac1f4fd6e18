"""The run store: the same draws whatever happens, and nothing lost, mixed up or let in."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from small import NUM_SAMPLES, posterior, sampled

import traceclass as tc
from traceclass.sampling.files import WriteError, read_arrays, read_header, write_arrays
from traceclass.sampling.store import Manifest, Store, opened_for_writing, run_status

# One worker for this file: its tests compare with the same uninterrupted run.
pytestmark = pytest.mark.xdist_group("store")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    return path, sampled(path).sha256()


@pytest.fixture
def copy(undisturbed, tmp_path) -> Path:
    shutil.copytree(undisturbed[0], tmp_path / "run")
    return tmp_path / "run"


def chunks(path: Path) -> list[Path]:
    return sorted(path.glob("chunk-*.tc"))


@contextlib.contextmanager
def stopped_after(commits: int):
    """A run that loses all that was not committed."""
    real = Store.commit

    def commit(self, *arguments):
        if len(self.contents.chunks) == commits:
            raise InterruptedError("stopped by the test")
        real(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "commit", commit)
        with pytest.raises(WriteError, match="stopped by the test"):
            yield


def test_a_stored_run_is_the_same_run(undisturbed):
    path, checksum = undisturbed
    memory = sampled(None)
    assert memory.sha256() == checksum
    stored = tc.open_run(path)
    assert stored.sha256() == checksum
    assert stored.num_samples == NUM_SAMPLES
    assert set(stored.draws) == {"log_likelihood", "ends"}
    assert stored.positions is not None
    assert stored.positions.shape == (2, NUM_SAMPLES / 3, posterior().prior.num_coordinates)
    assert stored.tuning == memory.tuning
    assert stored.acceptance_rate == memory.acceptance_rate
    np.testing.assert_array_equal(stored.moments("ends"), memory.moments("ends"))
    assert "ess_bulk" in str(stored.summary())


@pytest.mark.long
def test_thinned_positions_are_those_of_every_third_draw():
    every = sampled(None, store_positions=True).positions
    third = sampled(None, chunk_size=7).positions
    assert every is not None
    np.testing.assert_array_equal(third, every[:, ::3])
    assert sampled(None, store_positions=False).positions is None


@pytest.mark.parametrize(
    "chunk_size", [1, 50, *(pytest.param(n, marks=pytest.mark.long) for n in (200, 600))]
)
def test_draws_do_not_depend_on_chunks(chunk_size, undisturbed, tmp_path):
    run = sampled(tmp_path / "run", chunk_size=chunk_size)
    assert run.sha256() == undisturbed[1]


def in_a_process(path: Path, *arguments: object, **environment: object) -> str:
    """The checksum that `small.py` prints, or "" if it was killed."""
    answer = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "small.py"), str(path), *map(str, arguments)],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode in (0, -signal.SIGKILL), answer.stderr
    return answer.stdout.strip()


@pytest.mark.long
def test_draws_do_not_depend_on_devices():
    """Threads, one device and two, on a problem where that used to make a difference.

    Rounding is what could differ, that of programs as users compile them.
    """
    threads, one, two = (
        in_a_process(Path("wide"), DEVICES=count, XLA_FLAGS="") for count in (0, 1, 2)
    )
    assert threads == one == two


# In warm-up there is a commit a window, each of several writes; then three with draws.
@pytest.mark.parametrize(
    ("call", "number"),
    [pytest.param(*when, marks=pytest.mark.long) for when in [("write", 4), ("rename", 14)]],
)
def test_a_killed_run_goes_on_to_the_same_draws(call, number, undisturbed, tmp_path):
    path = tmp_path / "run"
    assert in_a_process(path, call, number) == ""
    before = len(chunks(path))
    assert before < len(chunks(undisturbed[0]))
    assert in_a_process(path) == undisturbed[1]
    assert len(chunks(path)) == len(chunks(undisturbed[0]))


@pytest.mark.long
def test_fifty_kills(undisturbed, tmp_path, count_as):
    """kill -9 at 50 random moments of one run after another: by the clock, and in the writes."""
    count_as("runs killed 50 times end in the same draws")
    rng = np.random.default_rng(0)
    kills = runs = 0
    while kills < 50:
        path = tmp_path / f"run-{runs}"
        runs += 1
        while True:
            before = len(chunks(path))
            if kills % 3 == 0:
                call = rng.choice(["write", "fsync", "rename"])
                killed = in_a_process(path, call, int(rng.integers(1, 60)), CHUNK=10) == ""
            else:
                killed = _killed_by_the_clock(path, float(rng.uniform(2.0, 6.0)))
            assert len(chunks(path)) >= before
            kills += killed
            if not killed:
                break
        assert in_a_process(path, CHUNK=10) == undisturbed[1]
    assert kills >= 50


def _killed_by_the_clock(path: Path, seconds: float) -> bool:
    program = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "small.py"), str(path)],
        env=os.environ | {"CHUNK": "1"},
        stdout=subprocess.DEVNULL,
    )
    try:
        program.wait(seconds)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
        return True
    return False


@pytest.mark.parametrize("commits", [0, 9, 17, 33])
def test_a_stopped_run_goes_on_to_the_same_draws(commits, undisturbed, tmp_path):
    with stopped_after(commits):
        sampled(tmp_path / "run")
    assert len(chunks(tmp_path / "run")) == commits
    assert sampled(tmp_path / "run", resume=True).sha256() == undisturbed[1]


@pytest.mark.long
def test_annealing_is_resumed(tmp_path):
    """From a hopeless start, stopped while the likelihood is raised to a power below one."""
    hopeless = posterior(shift=100.0, noise=0.05)
    whole = sampled(tmp_path / "whole", hopeless)
    for commits in (3, 8):
        with stopped_after(commits):
            sampled(tmp_path / f"run-{commits}", hopeless)
        header = read_header(chunks(tmp_path / f"run-{commits}")[-1])
        assert (header.meta["inverse_temperature"] < 1) == (commits < 8)
        again = sampled(tmp_path / f"run-{commits}", hopeless, resume=True)
        assert again.sha256() == whole.sha256()


@pytest.mark.long
def test_kernels_of_others_are_resumed(tmp_path):
    """MCLMC keeps a momentum that no position tells of."""

    def mclmc(target, step_size):
        import blackjax

        return blackjax.mclmc(target.logdensity, 1.0, step_size)

    settings = {"kernel": mclmc, "step_size": 0.1, "num_warmup": 0}
    whole = sampled(None, **settings)
    with stopped_after(2):
        sampled(tmp_path / "run", **settings)
    assert sampled(tmp_path / "run", resume=True, **settings).sha256() == whole.sha256()


def test_a_finished_run_is_extended(undisturbed, copy):
    longer = sampled(copy, num_samples=200, resume=True)
    assert longer.num_samples == 200
    assert longer.sha256() == sampled(None, num_samples=200).sha256()
    np.testing.assert_array_equal(
        longer.draws["ends"][:, :NUM_SAMPLES], tc.open_run(undisturbed[0]).draws["ends"]
    )
    again = sampled(copy, num_samples=50, resume=True)
    assert again.num_samples == 200


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 1}, "seed 0 there, 1 here"),
        ({"thin": 2}, "thin 1 there, 2 here"),
        ({"num_warmup": 500}, "num_warmup 400 there, 500 here"),
        ({"num_chains": 4}, "num_chains 2 there, 4 here"),
        ({"kernel": tc.hmc}, "kernel cycle there, hmc here"),
        ({"step_size": 0.1}, "step_size adapt there, 0.1 here"),
        ({"store_positions": True}, "store_positions 3 there, 1 here"),
        ({"record": {}}, "record 'ends'"),
        ({"kernel": tc.cycle(tc.hmc.using(num_kicks=3), tc.node_swap)}, "kernel's program"),
        ({"target": posterior(shift=1e-6)}, "data"),
        ({"target": posterior(noise=0.31)}, "model"),
        ({"record": {"ends": lambda z: jnp.sin(z[:2])}}, "record 'ends'"),
        ({"initial_positions": np.ones((2, 13))}, "initial positions none there"),
    ],
)
def test_another_run_is_refused_by_name(changes, words, undisturbed):
    path = undisturbed[0]
    before = {p.name: p.stat().st_mtime_ns for p in path.iterdir()}
    with pytest.raises(tc.StoreError) as refused:
        sampled(path, resume=True, **changes)
    assert words in str(refused.value)
    assert "there" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert {p.name: p.stat().st_mtime_ns for p in path.iterdir()} == before


@pytest.mark.parametrize(("key", "value"), [("JAX version", "0.1"), ("library format", 0)])
def test_other_versions_are_refused_unless_forced(key, value, copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["identity"][key] = value
    with pytest.raises(tc.StoreError, match=r"manifest\.json is damaged"):
        write_then_resume(copy, manifest)
    manifest["sha256"] = Manifest(manifest["identity"], [], {}).checksums["sha256"]
    with pytest.raises(tc.StoreError, match=f"{key} {value} there"):
        write_then_resume(copy, manifest)
    for file in chunks(copy):  # whose tag is that of the manifest
        file.unlink()
    sampled(copy, resume=True, force=True)
    forced = json.loads((copy / "manifest.json").read_text())["forced"]
    assert [f"{key} {value} there" in f["differences"][0] for f in forced] == [True]
    assert run_status(copy).forced == 1


def write_then_resume(path: Path, manifest: dict) -> None:
    (path / "manifest.json").write_text(json.dumps(manifest))
    sampled(path, resume=True)


def as_format_1(path: Path) -> None:
    """Rewrite a store as the first version wrote it: other names of arrays, no version."""
    manifest = json.loads((path / "manifest.json").read_text())
    identity = manifest["identity"] | {"library format": 1}
    tag = Manifest(identity, [], {}).tag
    content = {
        "identity": identity,
        "forced": [],
        "sha256": Manifest(identity, [], {}).checksums["sha256"],
    }
    (path / "manifest.json").write_text(json.dumps(content))
    for file in chunks(path):
        meta, arrays = read_arrays(file)
        if "chains/state/replicas/position" in arrays:
            del arrays["chains/state/position"]
        named = {
            name.replace("chains/moments/ends/", "chains.moments['ends'].").replace("/", ".")
            if name.startswith("chains/")
            else name: array
            for name, array in arrays.items()
        }
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("traceclass.sampling.files.FORMAT", 1)
            write_arrays(file, meta | {"run": tag}, named)


TEMPERED = {"kernel": tc.tempered(tc.pcn, num_temperatures=3)}


@pytest.mark.parametrize(
    "changes", by_night([{}, TEMPERED], long=[TEMPERED]), ids=["cycle", "tempered"]
)
def test_stores_of_format_1_are_opened_and_resumed(changes, tmp_path):
    whole = sampled(tmp_path / "run", **changes)
    as_format_1(tmp_path / "run")
    assert "chains.moments['ends'].mean" in read_header(chunks(tmp_path / "run")[-1]).entries
    opened = tc.open_run(tmp_path / "run")
    assert opened.sha256() == whole.sha256()
    np.testing.assert_array_equal(opened.last_positions, whole.last_positions)
    for file in chunks(tmp_path / "run")[-2:]:
        file.unlink()
    again = sampled(tmp_path / "run", resume=True, **changes)
    assert again.sha256() == whole.sha256()
    assert tc.open_run(tmp_path / "run").sha256() == whole.sha256()
    formats = [read_header(file).format for file in chunks(tmp_path / "run")]
    assert formats == [1] * (len(formats) - 2) + [2] * 2


def test_a_store_of_a_newer_format_is_refused_and_left(copy):
    """Neither taken for damage nor set aside, in the manifest or in a chunk."""
    meta, arrays = read_arrays(chunks(copy)[-1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traceclass.sampling.files.FORMAT", 7)
        patched.setattr("traceclass.sampling.files.__version__", "9.1")
        write_arrays(chunks(copy)[-1], meta, arrays)
    before = sorted(p.name for p in copy.iterdir())
    for attempt in (lambda: tc.open_run(copy), lambda: sampled(copy, resume=True)):
        with pytest.raises(tc.StoreError, match=r"has format '7', written by version '9\.1'"):
            attempt()
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["identity"]["library format"] = 7
    del manifest["version"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    for attempt in (lambda: tc.open_run(copy), lambda: sampled(copy, resume=True, force=True)):
        with pytest.raises(tc.StoreError, match="written by an unknown version") as refused:
            attempt()
        assert "\n" not in str(refused.value)
    assert sorted(p.name for p in copy.iterdir()) == before


def test_names_of_arrays_in_the_store_are_our_own(undisturbed):
    names = list(read_header(chunks(undisturbed[0])[-1]).entries)
    assert "chains/state/gradient" in names
    assert "chains/moments/ends/m2" in names
    assert {name.split("/")[0] for name in names} == {"draws", "chains", "adaptation"}


def test_a_run_is_not_written_over(undisturbed, tmp_path):
    with pytest.raises(tc.StoreError, match="already holds a run; go on with it by resume"):
        sampled(undisturbed[0])
    (tmp_path / "thesis.tex").write_text("kept")
    with pytest.raises(tc.StoreError, match=r"not a run \(e\.g\. 'thesis\.tex'\)"):
        sampled(tmp_path, resume=True)
    (tmp_path / "link").symlink_to(undisturbed[0])
    with pytest.raises(tc.StoreError, match="is not a directory"):
        sampled(tmp_path / "link", resume=True)
    with pytest.raises(ValueError, match="pass store= too"):
        sampled(None, resume=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "thesis.tex"]


@pytest.mark.parametrize(
    ("damage", "number"),
    [("flip", -1), ("flip", 0), ("cut", 5), ("delete", -3), ("swap", 0)]
    + [
        pytest.param(damage, number, marks=pytest.mark.long)
        for damage in ("flip", "cut", "delete", "swap")
        for number in (0, 5, -3, -2)
        if (damage, number) not in {("flip", 0), ("cut", 5), ("delete", -3), ("swap", 0)}
    ],
)
def test_a_damaged_chunk_is_named_and_made_anew(damage, number, undisturbed, copy):
    file = chunks(copy)[number]
    whole = file.read_bytes()
    if damage == "flip":
        file.write_bytes(whole[:-5] + bytes([whole[-5] ^ 16]) + whole[-4:])
    elif damage == "cut":
        file.write_bytes(whole[:-1])
    elif damage == "swap":
        shutil.copyfile(chunks(copy)[number + 1], file)
    else:
        file.unlink()
    with pytest.raises(tc.StoreError, match=file.name):
        tc.open_run(copy).sha256()
    with pytest.warns(UserWarning, match=f"{file.name}.*set aside"):
        again = sampled(copy, resume=True)
    assert again.sha256() == undisturbed[1]
    assert tc.open_run(copy).sha256() == undisturbed[1]


def test_chunks_that_only_together_claim_a_terabyte_are_refused(tmp_path):
    """Each is small and right by its checksums: many chains of one draw, then one of many."""
    with opened_for_writing(tmp_path / "run", {"num_warmup": 0}, resume=False, force=False) as run:
        for shape in ((10**6, 1), (1, 10**6)):
            draws = {"log_likelihood": np.zeros(shape, np.uint8), "x": np.zeros(shape, np.uint8)}
            run.commit({}, draws, {})
        with pytest.raises(tc.StoreError, match=r"chunk-00000001\.tc is damaged: 'draws/x'"):
            run.draws["x"]


def test_a_chunk_without_what_a_run_needs_is_refused(copy):
    """Forged: its checksums are right, and it has nothing to go on from."""
    last = chunks(copy)[-1]
    meta, arrays = read_arrays(last)
    del meta["warmup_done"]
    write_arrays(last, meta, arrays)
    with pytest.raises(tc.StoreError, match="its last chunk lacks 'warmup_done'"):
        sampled(copy, resume=True)
    write_arrays(last, meta | {"description": 3}, arrays)
    with pytest.raises(tc.StoreError, match="damaged"):
        tc.open_run(copy)


def test_a_forced_run_goes_on_and_is_on_record(undisturbed, copy):
    forced = sampled(copy, resume=True, force=True, seed=1, num_samples=200)
    assert forced.num_samples == 200
    first = forced.draws["ends"][:, :NUM_SAMPLES]
    np.testing.assert_array_equal(first, tc.open_run(undisturbed[0]).draws["ends"])
    assert forced.sha256() != sampled(None, num_samples=200).sha256()
    record = json.loads((copy / "manifest.json").read_text())["forced"]
    assert [entry["differences"] for entry in record] == [["seed 0 there, 1 here"]]


def test_two_hundred_damages_are_detected(undisturbed, tmp_path):
    """Random bit flips and truncations anywhere in a store; each is named."""
    path, _ = undisturbed
    rng = np.random.default_rng(0)
    for _ in range(200):
        copy = tmp_path / "run"
        shutil.copytree(path, copy)
        file = rng.choice(np.array(sorted(copy.glob("*.*")), dtype=object))
        whole = bytearray(file.read_bytes())
        where = int(rng.integers(len(whole)))
        if rng.uniform() < 0.7:
            whole[where] ^= 1 << int(rng.integers(8))
            file.write_bytes(whole)
        else:
            file.write_bytes(whole[:where])
        assert file.name in noticed(copy, identity_in(path)), f"{file.name} at {where}"
        shutil.rmtree(copy)


def noticed(path: Path, identity: dict) -> str:
    """What resuming a store finds wrong with it: an error, or chunks that it sets aside."""
    try:
        with opened_for_writing(path, identity, resume=True, force=False) as store:
            return store.contents.damage or ""
    except tc.StoreError as error:
        return str(error)


def identity_in(path: Path) -> dict:
    return json.loads((path / "manifest.json").read_text())["identity"]


@pytest.mark.parametrize(
    ("code", "call"),
    [(errno.ENOSPC, "write"), (errno.EROFS, "rename"), (errno.EIO, "fsync")]
    + [
        pytest.param(code, call, marks=pytest.mark.long)
        for code in (errno.ENOSPC, errno.EROFS, errno.EIO)
        for call in ("write", "fsync", "rename")
    ],
)
def test_a_full_disk_stops_the_run_and_loses_nothing(code, call, undisturbed, tmp_path):
    # A commit makes about eight writes, two flushes and one renaming.
    after = {"write": 160, "fsync": 50, "rename": 25}[call]
    with pytest.MonkeyPatch.context() as patched:
        name = f"traceclass.sampling.files.os.{call}"
        patched.setattr(name, refusing_after(after, getattr(os, call), code))
        with pytest.raises(WriteError, match="go on with resume") as stopped:
            sampled(tmp_path / "run")
    assert "\n" not in str(stopped.value)
    assert os.strerror(code) in str(stopped.value)
    assert 0 < len(chunks(tmp_path / "run")) < len(chunks(undisturbed[0]))
    assert sampled(tmp_path / "run", resume=True).sha256() == undisturbed[1]


def refusing_after(number: int, real, code: int):
    calls = 0

    def refuse(*arguments):
        nonlocal calls
        calls += 1
        if calls > number:
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    return refuse


def test_a_run_that_would_not_fit_the_disk_is_not_begun(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10_000))
    with pytest.raises(ValueError, match="GiB are free"):
        sampled(tmp_path / "run", num_samples=10_000)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_watched_while_it_goes_on(tmp_path):
    path, seen, real = tmp_path / "run", [], Store.commit

    def commit(self, *arguments):
        real(self, *arguments)
        seen.append(run_status(path))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "commit", commit)
        patched.setattr("traceclass.sampling.files._PAUSES", (0.0,))  # nobody else is asking
        sampled(path)
    assert all(status.is_running for status in seen)
    assert seen[0].run is None
    assert [s.num_draws for s in seen][-3:] == [40, 80, 120]
    assert [s.is_finished for s in seen][-2:] == [False, True]
    assert seen[-2].run.draws["ends"].shape == (2, 80, 2)
    assert seen[-2].seconds_left > 0
    after = run_status(path)
    assert after.is_finished
    assert not after.is_running


def test_a_run_without_draws_cannot_be_opened(tmp_path):
    with stopped_after(3):
        sampled(tmp_path / "run")
    with pytest.raises(tc.StoreError, match="no draws yet"):
        tc.open_run(tmp_path / "run")
    with pytest.raises(tc.StoreError, match="not the store of a run"):
        tc.open_run(tmp_path)
    with pytest.raises(tc.StoreError, match="not a directory"):
        tc.open_run(tmp_path / "nowhere")


def test_an_opened_run_predicts_if_it_is_given_the_posterior(undisturbed):
    with pytest.raises(ValueError, match="posterior="):
        tc.open_run(undisturbed[0]).predict([[0.5]])
    mean, _, _ = tc.open_run(undisturbed[0], posterior()).predict([[0.5]])
    assert np.isfinite(mean).all()


def test_export_to_netcdf(undisturbed, tmp_path):
    import xarray as xr

    run = tc.open_run(undisturbed[0])
    run.to_netcdf(tmp_path / "draws.nc")
    tree = xr.load_datatree(tmp_path / "draws.nc", engine="h5netcdf")
    np.testing.assert_array_equal(tree["posterior"]["ends"], run.draws["ends"])
    assert [p.name for p in tmp_path.iterdir()] == ["draws.nc"]


def test_ctrl_c_commits_and_says_how_to_go_on(undisturbed, tmp_path, capsys):
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    for number, name in ((signal.SIGINT, "a"), (signal.SIGTERM, "b")):
        with (
            signalled_after(20, number),
            pytest.raises(tc.Interrupted, match="resume goes on") as stopped,
        ):
            sampled(tmp_path / name)
        assert stopped.value.signal_number == number
        assert len(chunks(tmp_path / name)) == 21
        assert "finishing the chunk" in capsys.readouterr().err
        assert sampled(tmp_path / name, resume=True).sha256() == undisturbed[1]
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_ctrl_c_stops_at_once(undisturbed, tmp_path):
    real = Store.commit

    def commit(self, *arguments):
        if len(self.contents.chunks) == 30:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        real(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "commit", commit)
        with pytest.raises(KeyboardInterrupt) as stopped:
            sampled(tmp_path / "run")
    assert not isinstance(stopped.value, tc.Interrupted)
    assert len(chunks(tmp_path / "run")) == 30
    assert sampled(tmp_path / "run", resume=True).sha256() == undisturbed[1]


@contextlib.contextmanager
def signalled_after(commits: int, number: int):
    real = Store.commit

    def commit(self, *arguments):
        real(self, *arguments)
        if len(self.contents.chunks) == commits:
            os.kill(os.getpid(), number)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "commit", commit)
        yield


def test_a_run_in_a_thread_leaves_signals_alone(undisturbed, tmp_path):
    checksums = []
    thread = threading.Thread(target=lambda: checksums.append(sampled(tmp_path / "run").sha256()))
    thread.start()
    thread.join()
    assert checksums == [undisturbed[1]]


def _start(path: Path, begin, answers, end) -> None:
    begin.wait()
    try:
        with opened_for_writing(path, {"seed": 0}, resume=True, force=False):
            answers.put(True)
            end.wait()
    except tc.StoreError:
        answers.put(False)


@pytest.mark.long
def test_of_a_hundred_starts_one_wins(tmp_path):
    """And when the winner is killed, the next start is not blocked."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["traceclass.sampling.store"])
    begin, end, answers = context.Event(), context.Event(), context.Queue()
    starts = [
        context.Process(target=_start, args=(tmp_path / "run", begin, answers, end))
        for _ in range(100)
    ]
    for start in starts:
        start.start()
    begin.set()
    won = [answers.get(timeout=60) for _ in starts]
    assert sum(won) == 1
    time.sleep(0.1)
    for start in starts:
        start.kill()
        start.join()
    with opened_for_writing(tmp_path / "run", {"seed": 0}, resume=True, force=False) as store:
        assert store.contents.chunks == []


# -- opening with another posterior, and room for what is left ----------------------------------


def regression(variance: float = 1.0, noise: float = 0.3, shift: float = 0.0) -> tc.Posterior:
    x = np.linspace(-1, 1, 5)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(3,), weight_variance=variance)
    return tc.Posterior(prior, tc.GaussianRegression(x, x[:, 0] + shift, noise=noise))


@pytest.fixture(scope="module")
def of_regression(tmp_path_factory):
    path = tmp_path_factory.mktemp("regression") / "run"
    tc.sample(
        regression(), tc.pcn, step_size=0.3, num_warmup=0, num_samples=4, store=path, progress=False
    )
    return path


def test_a_run_is_opened_with_its_own_posterior(of_regression):
    run = tc.open_run(of_regression, regression())
    assert np.isfinite(run.predict([[0.5]]).mean).all()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (regression(variance=5.0), "weight_variance of the prior is (1, 1) there, (5, 5) here"),
        (regression(noise=0.2), "noise of the likelihood is 0.3 there, 0.2 here"),
        (regression(shift=1e-6), "the data, or other numbers of the posterior, are not the same"),
        (tc.Posterior(tc.IidNetwork(num_inputs=1, widths=(3,)), regression().likelihood),
         "prior is TraceClassNetwork there, IidNetwork here"),
    ],
)  # fmt: skip
def test_another_posterior_is_refused_in_words(other, words, of_regression):
    with pytest.raises(tc.StoreError) as opened:
        tc.open_run(of_regression, other)
    assert words in str(opened.value)
    with pytest.raises(tc.StoreError, match="holds another run") as resumed:
        tc.sample(
            other, tc.pcn, step_size=0.3, num_warmup=0, num_samples=4, store=of_regression,
            resume=True, progress=False,
        )  # fmt: skip
    assert ("data" if words.startswith("the data") else words) in str(resumed.value)


def test_a_manifest_without_words_is_compared_by_what_is_computed(of_regression, tmp_path):
    """As earlier versions wrote it."""
    path = tmp_path / "run"
    shutil.copytree(of_regression, path)
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["words"], manifest["sha256 of words"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    assert tc.open_run(path, regression()).num_samples == 4
    with pytest.raises(tc.StoreError, match=r"compute something else|the data"):
        tc.open_run(path, regression(variance=5.0))


def test_edited_words_are_seen(of_regression, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(of_regression, path)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["words"]["noise of the likelihood"] = "7"
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(tc.StoreError, match=r"manifest\.json is damaged"):
        tc.open_run(path)


def test_a_finished_run_needs_no_room(of_regression, tmp_path, monkeypatch):
    """Nor does a run that is nearly done need room for all of it."""
    path = tmp_path / "run"
    shutil.copytree(of_regression, path)
    arguments = {"step_size": 0.3, "num_warmup": 0, "progress": False, "store": path}
    full = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    again = tc.sample(regression(), tc.pcn, num_samples=4, resume=True, **arguments)
    assert again.num_samples == 4
    with pytest.raises(ValueError, match="0 GiB are free"):
        tc.sample(regression(), tc.pcn, num_samples=5, resume=True, **arguments)
    # 4 chains with 10 coordinates, the log-likelihood and four counters: 240 bytes per draw.
    room = full._replace(free=2_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    more = tc.sample(regression(), tc.pcn, num_samples=8, resume=True, **arguments)
    assert more.num_samples == 8


def test_what_is_no_disk_says_so_itself():
    """/proc has no size; it is not full."""
    with pytest.raises(tc.StoreError, match="cannot write to /proc/run"):
        sampled(Path("/proc/run"))
