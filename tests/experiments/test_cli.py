"""The command line as a user meets it: a run, its report, and one line for every mistake."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest
import xarray as xr
from own_process import python
from tiny_run import TINY, in_this_process

import traceclass as tc
from traceclass.run_directory.claim import DirectoryError, claimed
from traceclass.sampling.store import Store

# One worker for this file: its tests share a finished run, which takes a while to make.
pytestmark = pytest.mark.xdist_group("cli")

FILES = {
    "config.json", "versions.json", "results.json", "trace.nc", "arrays.nc", "report.html",
    "SHA256SUMS",
}  # fmt: skip
FIGURES = {
    "value.png", "policy.png", "differences.png", "steps.png", "log_likelihood.png", "failures.png",
    "calibration.png", "truth.png",
}  # fmt: skip
CELL = "kl-pcn-0"
# Where a mistake is only seen when the chains are to begin: priors and tables of no size.
SMALL = ["run", "mountain-car", "--set", "priors=kl", "--set", "reference_grid=10"]
LONGER = [*TINY, "--set", "num_warmup=20000"]


def in_a_process(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As a user runs it, but that it finds compiled what tests before it have compiled."""
    return python("-m", "traceclass.cli", *arguments, cwd=cwd)


@pytest.fixture
def traceclass():
    return in_this_process


def test_a_run_directory_is_complete(finished):
    path, _ = finished
    assert {p.name for p in path.iterdir()} == FILES | {"figures", "chain"}
    assert {p.name for p in (path / "figures").iterdir()} == FIGURES
    config = json.loads((path / "config.json").read_text())
    assert config["experiment"] == "mountain-car"
    assert config["settings"]["seed"] == 3
    assert config["settings"]["num_samples"] == 8
    results = json.loads((path / "results.json").read_text())
    assert results["rows"][0]["paper_failures"] == 34
    assert len(results["cells"][0]["policies"]["noisy_argmax"]["steps"]) == 4
    trace = xr.load_datatree(path / "trace.nc", engine="h5netcdf")
    assert trace["kl-pcn/posterior"]["value_difference"].shape == (2, 8, 5, 3)
    versions = json.loads((path / "versions.json").read_text())
    assert re.fullmatch(r"\d+\.\d+.*", versions["jax"])
    with h5py.File(path / "trace.nc") as file:
        assert "posterior" in file["kl-pcn"]


def check_plain(out: str, err: str) -> None:
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    assert re.search(r"Fourier, .* 34 ", out)  # ours and the paper's in one line
    assert "report.html" in out
    assert len(err.splitlines()) <= 2


@pytest.mark.long
def test_output_to_a_pipe_is_plain(finished):
    path, answer = finished
    check_plain(answer.stdout, answer.stderr)
    again = in_a_process("report", path, cwd=path)
    assert again.returncode == 0, again.stderr
    check_plain(again.stdout, again.stderr)


@pytest.mark.long
def test_a_process_of_its_own_makes_the_same_run(finished, tmp_path):
    answer = in_a_process("run", "mountain-car", "--seed", 3, "--out", "run", *TINY, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    check_plain(answer.stdout, answer.stderr)
    assert draws_in(tmp_path / "run") == draws_in(finished[0])


def test_the_report_needs_no_other_file(finished):
    path, _ = finished
    page = (path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(FIGURES)
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_report_draws_the_same_page_from_the_stored_files(finished, drawn, traceclass):
    path, _ = finished
    before = (path / "report.html").read_text()
    (path / "report.html").unlink()
    (path / "figures" / "value.png").unlink()
    answer = traceclass("report", path, cwd=path)
    assert answer.exit_code == 0, answer.stderr
    assert (path / "report.html").read_text() == before


@pytest.mark.parametrize("name", ["prior-draws", pytest.param("theory", marks=pytest.mark.long)])
def test_experiments_without_chains_run_and_report(name, traceclass, tmp_path):
    answer = traceclass("run", name, "--out", "run", cwd=tmp_path)
    assert answer.exit_code == 0, answer.stderr
    files = {p.name for p in (tmp_path / "run").iterdir()}
    assert files == (FILES | {"figures"}) - {"trace.nc"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(list((tmp_path / "run/figures").iterdir()))
    assert page.count("data:image/png;base64,") == 4
    if name == "prior-draws":
        check_orderings(tmp_path)


def check_orderings(tmp_path: Path) -> None:
    """Smoother with alpha, larger with variance; the same random numbers in every panel."""
    panels = json.loads((tmp_path / "run" / "results.json").read_text())["panels"]
    rough = [panel["roughness"] for panel in panels[:3]]
    assert rough == sorted(rough, reverse=True)
    assert panels[3]["amplitude"] < panels[4]["amplitude"]


def test_list_names_experiments_presets_and_settings(traceclass, tmp_path):
    answer = traceclass("list", cwd=tmp_path)
    assert answer.exit_code == 0
    for word in ("mountain-car", "quick:", "paper:", "alpha=1.5", "num_demonstrations=50"):
        assert word in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "mountain-bike"], "unknown experiment 'mountain-bike'; there is prior-draws,"),
        (["run", "mountain-car", "--preset", "slow"], "unknown preset 'slow'"),
        (["run", "../../mountain-car"], "unknown experiment '../../mountain-car'"),
        (["run", "mountain-car", "--preset", "../../x"], "unknown preset '../../x'"),
        (["status", "nowhere"], "nowhere"),
        (["export", "nowhere", "x.nc"], "nowhere"),
        (["run", "mountain-car", "--set", "wdith=10"], "unknown setting 'wdith'"),
        (["run", "mountain-car", "--set", "alpha"], "--set takes KEY=VALUE, got 'alpha'"),
        (["run", "mountain-car", "--set", "alpha=big"], "setting alpha='big'"),
        (["run", "mountain-car", "--set", "num_chains=2.5"], "setting num_chains=2.5"),
        (["run", "mountain-car", "--set", "num_chains=0"], "setting num_chains=0"),
        (["run", "mountain-car", "--set", "alpha=1"], "alpha > 1, got 1.0"),
        (["run", "mountain-car", "--set", "alpha=NaN"], "setting alpha=nan"),
        (["run", "mountain-car", "--set", "widths=[]"], "at least one hidden layer"),
        (["run", "mountain-car", "--set", "priors=tcnn,gp"], "setting priors=['tcnn', 'gp']"),
        (["run", "mountain-car", "--set", "kernels=[]"], "setting kernels=[]"),
        (["run", "mountain-car", "--set", "widths=10,0"], "widths[1] must be at least 1, got 0"),
        (["run", "mountain-car", "--set", "weight_variance=0"], "weight_variance must be positive"),
        (["run", "mountain-car", "--set", "noise=-0.1"], "noise must be positive"),
        (["run", "mountain-car", "--set", "step_size=2"], "(0, 1.5708], got 2.0"),
        (["run", "mountain-car", "--set", "activation=swish"], "unknown activation 'swish'"),
        (["run", "mountain-car", "--seed", "-1"], "setting seed=-1"),
        (["run", "mountain-car", "--seed", "abc"], "setting seed='abc'"),
        (["run", "mountain-car", "--seed", "99999999999"], "setting seed=99999999999"),
        (["run", "mountain-car", "--set", 'num_chains="2"'], "setting num_chains='2'"),
        (["run", "mountain-car", "--set", "thin=true"], "setting thin=True"),
        ([*SMALL, "--set", "thin=99999999999"], "steps is too long"),
        (["run", "mountain-car", "--set", "noise=1e-320"], "noise must be positive"),
        (["run", "mountain-car", "--set", "weight_variance=1e300"], "weight_variance must be"),
        (["run", "mountain-car", "--set", "widths=[1000000,1000000]"], "GiB for one position"),
        ([*SMALL, "--set", "num_samples=1000000000000"], "too long"),
        (["run", "mountain-car", "--out", "x" * 260], "cannot write to"),
        (["run", "mountain-car", "--out", "mine", "--overwrite"], "something that is not a run"),
        (["run", "mountain-car", "--out", "file/x"], "cannot write"),
        (["run", "mountain-car", "--out", "file"], "file is not a directory"),
        (["run", "mountain-car", "--out", "/proc/run"], "cannot write to /proc/run"),
        (["run", "mountain-car", "--out", "full"], "holds something that is not a run; it is left"),
        (["run", "theory", "--set", "reference_size=4"], "reference_size must exceed"),
        (["run", "prior-draws", "--set", "grid=1"], "setting grid=1"),
        (["run", "mountain-car", "--until", "ess=true"], "--until takes ess=NUMBER"),
        (["run", "mountain-car", "--seed", "9" * 5_000], "setting seed="),
        (["run", "mountain-car", "--resume", "--out", "nowhere"], "no run to go on with"),
        (["run", "mountain-car", "--preset", ""], "unknown preset ''"),
        (["run", "mountain-car", "--set", "widths=" + "[" * 5_000], "setting widths="),
        (["run", "mountain-car", "--set", "widths=" + "[" * 800 + "]" * 800], "setting widths="),
        (["status", "full"], "full is not a run"),
        (["verify", "full"], "full holds no run"),
        (["verify", "nowhere"], "nowhere is not a directory"),
        (["export", "full", "x.nc"], "full is not a run"),
        (["status", "nowhere"], "nowhere is not a directory"),
        (["report", "nowhere"], "nowhere is not a directory"),
        (["report", "full"], "not a finished run: it lacks config.json"),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_line_and_write_nothing(arguments, words, traceclass, tmp_path):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").write_text("kept")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    (tmp_path / "mine" / "thesis.tex").write_text("kept")
    before = sorted(tmp_path.rglob("*"))
    answer = traceclass(*arguments, cwd=tmp_path)
    assert answer.exit_code == 2, answer.stderr
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_a_run_is_not_overwritten_unless_told(finished, traceclass, tmp_path):
    path = tmp_path / "a" / "run"
    shutil.copytree(finished[0], path)
    before = (path / "results.json").read_text()
    arguments = ["run", "mountain-car", "--out", path, "--seed", 4, *TINY]
    answer = traceclass(*arguments, cwd=path)
    assert answer.exit_code == 2
    assert "already holds a run" in answer.stderr
    assert (path / "results.json").read_text() == before
    answer = traceclass(*arguments, "--overwrite", "--quiet", cwd=path.parent)
    assert answer.exit_code == 0, answer.stderr
    assert answer.stderr == ""
    assert json.loads((path / "config.json").read_text())["settings"]["seed"] == 4
    assert [p.name for p in path.parent.iterdir()] == ["run"]


def test_a_run_next_to_foreign_files_is_left_alone(finished, traceclass, tmp_path):
    path, _ = finished
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    (copy / "thesis.tex").write_text("kept")
    answer = traceclass("run", "mountain-car", "--out", copy, "--overwrite", *TINY, cwd=tmp_path)
    assert answer.exit_code == 2
    assert "not a run" in answer.stderr
    assert (copy / "thesis.tex").read_text() == "kept"


def test_an_empty_directory_is_used_as_it_is(tmp_path, monkeypatch):
    """Even "." or a mount point, which cannot be renamed."""
    monkeypatch.chdir(tmp_path)
    with claimed(Path("."), overwrite=False):
        (tmp_path / "config.json").write_text("{}")
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_two_runs_in_one_place_are_not_mixed(tmp_path):
    with (
        claimed(tmp_path / "run", overwrite=False),
        pytest.raises(DirectoryError, match="another run is being written"),
        claimed(tmp_path / "run", overwrite=True),
    ):
        pytest.fail("claimed twice")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_single_stuck_chain_still_reports(traceclass, tmp_path):
    settings = {"num_chains": 1, "num_samples": 5, "thin": 1, "step_size": 1, "noise": 1e-6}
    changes = [word for k, v in settings.items() for word in ("--set", f"{k}={v}")]
    answer = traceclass("run", "mountain-car", *TINY, *changes, "--out", "run", cwd=tmp_path)
    assert answer.exit_code == 0, answer.stderr
    assert "warning: kl-pcn-0: chain 0 never moved" in answer.stdout


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_stopped_run_says_how_to_go_on(number, finished, traceclass, tmp_path):
    """Exit code 130 or 143, one line that says how, and then the same trace; then more draws."""
    words = ["run", "mountain-car", "--out", "run"]
    with signalled_at_a_commit(number):
        answer = traceclass(*words, "--seed", 3, *TINY, cwd=tmp_path)
    assert answer.exit_code == 128 + number, answer.stderr
    check_stopped(answer.stderr, tmp_path)
    answer = traceclass("status", "run", cwd=tmp_path)
    assert "run: stopped; --resume goes on with it" in answer.stdout
    answer = traceclass(*words, cwd=tmp_path)
    assert answer.exit_code == 2
    assert "already holds an unfinished run; go on with it by --resume" in answer.stderr
    answer = traceclass(*words, "--resume", cwd=tmp_path)
    assert answer.exit_code == 0, answer.stderr
    assert draws_in(tmp_path / "run") == draws_in(finished[0])
    if number == signal.SIGINT:
        check_extension(traceclass, words, tmp_path)


def check_stopped(stderr: str, folder: Path) -> None:
    last = stderr.splitlines()[-1]
    assert last.startswith("traceclass: stopped after ")
    assert last.endswith("Go on with: traceclass run mountain-car --out run --resume")
    assert {p.name for p in (folder / "run").iterdir()} == {"unfinished"}


def check_extension(traceclass, words: list[str], folder: Path) -> None:
    longer = traceclass(*words, "--resume", "--set", "num_samples=12", cwd=folder)
    assert longer.exit_code == 0, longer.stderr
    trace = xr.load_datatree(folder / "run" / "trace.nc", engine="h5netcdf")["kl-pcn"]
    assert trace["posterior"].sizes["draw"] == 12
    status = traceclass("status", "run", cwd=folder)
    assert "run: finished" in status.stdout
    assert "draws: 12 of 12, 2 chains" in status.stdout
    assert "value_difference: smallest ESS" in status.stdout
    answer = traceclass("export", "run", "draws.nc", cwd=folder)
    assert answer.exit_code == 0, answer.stderr
    assert xr.load_datatree(folder / "draws.nc", engine="h5netcdf")["posterior"].equals(
        trace["posterior"]
    )


@contextlib.contextmanager
def signalled_at_a_commit(number: int, of: str = CELL):
    """Once: a second signal would stop it at once."""
    real = Store.commit

    def commit(self, *arguments):
        if self.path.name == of and not self.contents.chunks:
            os.kill(os.getpid(), number)
        real(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "commit", commit)
        # Due at every look, however short the run.
        patched.setattr("traceclass.sampling.session.Session._is_due", lambda _: True)
        yield


@pytest.mark.long
def test_a_table_goes_on_with_the_cell_that_was_stopped(traceclass, tmp_path):
    """Two cells, stopped in the second: the first is not run again, and both end up the same."""
    two = [*TINY, "--set", "num_data_sets=2"]
    assert traceclass("run", "mountain-car", "--out", "once", *two, cwd=tmp_path).exit_code == 0
    with signalled_at_a_commit(signal.SIGINT, of="kl-pcn-1"):
        answer = traceclass("run", "mountain-car", "--out", "run", *two, cwd=tmp_path)
    assert answer.exit_code == 130, answer.stderr
    status = traceclass("status", "run", cwd=tmp_path).stdout.splitlines()
    assert [line.split(",")[0] for line in status] == ["kl-pcn-0: finished", "kl-pcn-1: stopped"]
    first = tmp_path / "run" / "unfinished" / "chain" / "kl-pcn-0"
    before = {file.name: file.read_bytes() for file in first.iterdir()}
    answer = traceclass("run", "mountain-car", "--out", "run", "--resume", cwd=tmp_path)
    assert answer.exit_code == 0, answer.stderr
    finished = tmp_path / "run" / "chain" / "kl-pcn-0"
    assert {file.name: file.read_bytes() for file in finished.iterdir()} == before
    for cell in ("kl-pcn-0", "kl-pcn-1"):
        runs = [tc.open_run(tmp_path / name / "chain" / cell).sha256() for name in ("run", "once")]
        assert runs[0] == runs[1]


@pytest.mark.long
def test_ctrl_c_as_a_user_presses_it(tmp_path):
    """In a process of its own, where clocks and words are odd, and its output goes to a pipe."""
    program = subprocess.Popen(
        [sys.executable, "-m", "traceclass.cli", "run", "mountain-car", "--out", "run", *LONGER],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"LC_ALL": "C", "TZ": "Asia/Kathmandu"},
    )  # fmt: skip
    lock, deadline = tmp_path / "run" / "unfinished" / "chain" / CELL / "lock", time.time() + 120
    while not lock.exists() and time.time() < deadline:
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=120)
    assert program.returncode == 130, err
    assert "\x1b" not in out + err
    check_stopped(err, tmp_path)
    answer = in_a_process("run", "mountain-car", "--out", "run", "--resume", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    once = in_a_process("run", "mountain-car", "--out", "once", *LONGER, cwd=tmp_path)
    assert once.returncode == 0, once.stderr
    assert draws_in(tmp_path / "run") == draws_in(tmp_path / "once")


def draws_in(path: Path) -> str:
    return tc.open_run(path / "chain" / CELL).sha256()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "5"], ", this is seed=5"),
        (["--set", "thin=6"], "was run with thin=5, this is thin=6"),
        (["--preset", "paper"], "holds a run of preset quick, this is paper"),
        (["--overwrite"], "choose one"),
        (["--until", "ess=many"], "--until takes ess=NUMBER or rhat=NUMBER"),
        (["--until", "rhat=0.9"], "rhat must be above 1"),
        (["--max-time", "5"], "bound --until, which is missing"),
        (["--until", "ess=9", "--max-samples", "3"], "must not be below num_samples"),
        (["--set", "num_samples=99999999999"], "too long"),
    ],
)
def test_a_resumed_run_is_the_same_or_refused(arguments, words, finished, traceclass, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    before = set((tmp_path / "run").rglob("*"))
    answer = traceclass("run", "mountain-car", "--out", "run", "--resume", *arguments, cwd=tmp_path)
    assert answer.exit_code == 2, answer.stderr
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert set((tmp_path / "run").rglob("*")) == before


@pytest.mark.long
def test_a_run_goes_on_until_it_is_good_enough(traceclass, tmp_path):
    words = ["run", "mountain-car", "--out", "run", *TINY, "--until", "ess=40"]
    answer = traceclass(*words, "--max-samples", 400, cwd=tmp_path)
    assert answer.exit_code == 0, answer.stderr
    run = tc.open_run(tmp_path / "run" / "chain" / CELL)
    assert 8 < run.num_samples <= 400


@pytest.mark.long
def test_a_disk_that_fills_up_ends_in_exit_code_3(traceclass, tmp_path, monkeypatch):
    real, calls = os.fsync, 0

    def refuse(descriptor):
        nonlocal calls
        calls += 1
        if calls > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        answer = traceclass("run", "mountain-car", "--out", "run", *TINY, cwd=tmp_path)
    assert answer.exit_code == 3
    assert "No space left on device" in answer.stderr.splitlines()[-1]
    answer = traceclass("run", "mountain-car", "--out", "run", "--resume", cwd=tmp_path)
    assert answer.exit_code == 0, answer.stderr


def test_a_report_is_not_written_through_links(finished, traceclass, tmp_path):
    copy, victim = tmp_path / "copy", tmp_path / "victim"
    shutil.copytree(finished[0], copy)
    victim.write_text("kept")
    for name in ("report.html", "figures/value.png"):
        (copy / name).unlink()
        (copy / name).symlink_to(victim)
    assert traceclass("report", copy, cwd=tmp_path).exit_code == 0
    assert victim.read_text() == "kept"
    shutil.rmtree(copy / "figures")
    (copy / "figures").symlink_to(tmp_path)
    answer = traceclass("report", copy, cwd=tmp_path)
    assert answer.exit_code == 2
    assert "is a link" in answer.stderr


def test_a_resumed_run_is_not_written_through_links(finished, traceclass, tmp_path):
    copy, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(finished[0], copy)
    victim.write_text("kept")
    (copy / "unfinished").mkdir()
    (copy / "unfinished" / "config.json").symlink_to(victim)
    words = ["run", "mountain-car", "--out", "run", "--resume"]
    assert traceclass(*words, "--set", "num_samples=99999999999", cwd=tmp_path).exit_code == 2
    assert victim.read_text() == "kept"
    assert traceclass(*words, cwd=tmp_path).exit_code == 0
    assert victim.read_text() == "kept"


def test_netcdf_that_unfolds_or_links_elsewhere_is_refused(finished, traceclass, tmp_path):
    for name in ("bomb", "link"):
        shutil.copytree(finished[0], tmp_path / name)
        with h5py.File(tmp_path / name / "arrays.nc", "a") as file:
            if name == "bomb":
                file.create_dataset("x", shape=(2**40,), dtype="f8", chunks=(1024,))
            else:
                file["x"] = h5py.ExternalLink("/etc/passwd", "/")
        answer = traceclass("report", name, cwd=tmp_path)
        assert answer.exit_code == 2
        assert len(answer.stderr.splitlines()) == 1


def test_the_commit_is_recorded(finished):
    path, _ = finished
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if head.returncode == 0:
        assert json.loads((path / "versions.json").read_text())["commit"] == head.stdout.strip()


@pytest.mark.parametrize(
    ("name", "content"),
    [("results.json", "{}"), ("config.json", "[]"), ("config.json", '{"experiment": "theory"}')],
)
def test_files_of_something_else_are_refused(name, content, finished, traceclass, tmp_path):
    path, _ = finished
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    (copy / name).write_text(content)
    answer = traceclass("report", copy, cwd=tmp_path)
    assert answer.exit_code == 2
    assert len(answer.stderr.splitlines()) == 1


def test_a_damaged_run_is_named(finished, traceclass, tmp_path):
    path, _ = finished
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in FILES:
        (copy / name).write_bytes((path / name).read_bytes())
    (copy / "results.json").write_text("{")
    answer = traceclass("report", copy, cwd=tmp_path)
    assert answer.exit_code == 2
    assert "copy/results.json is not as it was written" in answer.stderr
    answer = traceclass("report", copy, "--force", cwd=tmp_path)
    assert answer.exit_code == 2
    assert "copy cannot be read" in answer.stderr
    (copy / "results.json").write_bytes((path / "results.json").read_bytes())
    (copy / "trace.nc").write_bytes(b"not netCDF")
    answer = traceclass("report", copy, cwd=tmp_path)
    assert answer.exit_code == 2
    assert len(answer.stderr.splitlines()) == 1
