"""`traceclass train-expert` as a user meets it: files, going on, and one line for every mistake."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from by_night import by_night
from typer.testing import CliRunner

from traceclass import training
from traceclass.cli import app
from traceclass.control import half_cheetah
from traceclass.control.linear_expert import load_expert
from traceclass.control.random_search import Search, begin, iterations
from traceclass.sampling.files import DamagedFileError, locked
from traceclass.sampling.progress import Bar
from traceclass.training import Progress, train_expert
from traceclass.training_files import COLUMNS, Training, read_checkpoint, write_checkpoint

# One worker for this file: its tests share a finished training.
pytestmark = pytest.mark.xdist_group("training")

TINY = Search(
    num_iterations=5,
    num_directions=4,
    num_best=2,
    num_steps=10,
    requantise_at=(3,),
    trial_every=2,
    num_trials=4,
    trial_steps=12,
)
EXPERT = {"weights.npy", "mean.npy", "scale.npy", "actions.npy", "provenance.json"}
FILES = EXPERT | {"checkpoint.npz", "curve.csv", "curve.png", "SHA256SUMS"}


@pytest.fixture
def traceclass(monkeypatch, tmp_path):
    """The command in this process, in a folder of its own, with a search that takes no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "Search", lambda: TINY)

    def run(*arguments: object):
        return CliRunner().invoke(app, ["train-expert", *map(str, arguments)])

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A training of 5 iterations that was never stopped. Tests that change it make their own."""
    path = tmp_path_factory.mktemp("whole") / "expert"
    train_expert(path, TINY, progress=False)
    return path


def stop_after(monkeypatch, count: int) -> None:
    """Ctrl-C in the iteration after `count`."""

    def interrupted(search, state):
        for after, figures in iterations(search, state):
            yield after, figures
            if after.iteration == count:
                raise KeyboardInterrupt

    monkeypatch.setattr(training, "iterations", interrupted)


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def refused(answer, *words: str, code: int = 2) -> None:
    """One line on standard error, no other output."""
    assert answer.exit_code == code, answer.output
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stderr.startswith("traceclass: ")
    for word in words:
        assert word in answer.stderr


# --- what is written


def test_an_expert_with_its_curve_and_provenance(traceclass):
    answer = traceclass("half-cheetah", "--iterations", 3, "--seed", 7, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    assert answer.stderr == ""
    path = Path("experts/half-cheetah")
    assert {file.name for file in path.iterdir()} == FILES
    expert = load_expert(path)
    assert expert.actions.shape == (8, 6)
    said = expert.provenance
    settings = json.loads(json.dumps(dataclasses.asdict(TINY)))
    assert said["settings"] == settings | {"num_iterations": 3, "seed": 7}
    assert said["environment"] == "half-cheetah"
    assert "augmented random search" in said["method"]
    assert said["versions"].keys() == {"traceclass", "mujoco", "numpy", "scikit-learn"}
    assert said["final_trial"]["num_starts"] == 50
    assert str(Path.cwd()) not in (path / "provenance.json").read_text()
    words = answer.stdout.splitlines()
    assert f"{said['final_trial']['discretised_distance']:.2f} m" in words[1]
    assert words[-1] == "expert: experts/half-cheetah"


def test_the_curve_has_every_trial_and_the_best_is_one_of_them(whole):
    rows = list(csv.DictReader(io.StringIO((whole / "curve.csv").read_text())))
    assert tuple(rows[0]) == COLUMNS
    # The last iteration is tried though it is no second one.
    assert [row["iteration"] for row in rows] == ["2", "4", "5"]
    best = max(rows, key=lambda row: float(row["score"]))
    said = load_expert(whole).provenance["best_trial"]
    assert {name: float(value) for name, value in best.items()} == said
    assert matplotlib.image.imread(whole / "curve.png").std() > 0


def test_the_final_starts_are_not_those_of_the_search():
    seen = [np.random.default_rng(s).random() for s in ([0, 0], [0, 0x7E57], [0, 1, 0], [0, 1, 5])]
    assert np.random.default_rng([0, training._FINAL]).random() not in seen


def test_output_to_a_pipe_is_plain(traceclass):
    answer = traceclass("half-cheetah", "--iterations", 3, "--out", "here")
    assert "\x1b" not in answer.output
    assert "\r" not in answer.output
    assert answer.stderr.startswith("search 100%  iteration 3 of 3, best score ")
    assert len(answer.stderr.splitlines()) == 1


def test_a_bar_shows_iteration_and_best_score():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    bar = Bar(stream)
    bar.show(Progress(10, 40, -np.inf, None))
    bar.show(Progress(20, 40, 7.254, 30.0))
    bar.close()
    for word in ("search", "iteration 20 of 40", "best score 7.25", "30 s left"):
        assert word in stream.getvalue()
    assert str(Progress(10, 40, -np.inf, None)) == "search  25%  iteration 10 of 40, no trial yet"


# --- going on


@pytest.mark.parametrize("stop", by_night([1, 3, 4], long=[1, 4]))
def test_stopped_and_resumed_is_as_if_never_stopped(stop, whole, traceclass, monkeypatch, tmp_path):
    """Every file to the last byte, wherever Ctrl-C came."""
    with monkeypatch.context() as patch:
        stop_after(patch, stop)
        answer = traceclass("half-cheetah", "--out", "a b")
    assert answer.exit_code == 130
    assert answer.stderr.splitlines()[-1] == (
        "traceclass: interrupted. Go on with: "
        "traceclass train-expert half-cheetah --out 'a b' --resume"
    )
    # The last trial was at an even iteration; before any there is no expert to show.
    assert read_checkpoint(tmp_path / "a b").state.iteration == stop - stop % 2
    assert EXPERT & set(content(tmp_path / "a b")) == (EXPERT if stop >= 2 else set())
    answer = traceclass("half-cheetah", "--out", "a b", "--resume")
    assert answer.exit_code == 0, answer.stderr
    assert content(tmp_path / "a b") == content(whole)


@pytest.mark.long
def test_more_iterations_are_as_if_asked_for_at_once(whole, traceclass, tmp_path):
    """From 3, between two trials, to 5; and once more to 5, which changes nothing."""
    assert traceclass("half-cheetah", "--out", "expert", "--iterations", 3).exit_code == 0
    for _ in range(2):
        again = traceclass("half-cheetah", "--out", "expert", "--iterations", 5, "--resume")
        assert again.exit_code == 0, again.stderr
        assert content(tmp_path / "expert") == content(whole)


@pytest.mark.long
def test_ctrl_c_of_the_program(tmp_path):
    """As a user does it: a signal to the process, while the search of the library goes on."""
    # In the background of a shell the signal is ignored, and children inherit that.
    heeding = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from traceclass.cli import main; main()"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", heeding, "train-expert", "half-cheetah"],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ,
    )  # fmt: skip
    checkpoint = tmp_path / "experts" / "half-cheetah" / "checkpoint.npz"
    with program:
        try:
            deadline = time.monotonic() + 60
            while not checkpoint.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            program.send_signal(signal.SIGINT)
            output, errors = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 130
    assert output == ""
    assert errors.splitlines()[-1].endswith(
        "train-expert half-cheetah --out experts/half-cheetah --resume"
    )
    assert read_checkpoint(checkpoint.parent).search == Search()
    assert set(content(checkpoint.parent)) <= FILES | {f".new-{name}" for name in FILES}


# --- refusals


def test_resuming_with_other_settings_is_refused(whole, traceclass):
    before = content(whole)
    answer = traceclass("half-cheetah", "--out", whole, "--resume", "--seed", 1)
    refused(answer, f"was trained with seed={TINY.seed}, this is seed=1")
    answer = traceclass("half-cheetah", "--out", whole, "--resume", "--iterations", 4)
    refused(answer, "was trained with num_iterations=5, this is num_iterations=4")
    other = dataclasses.replace(TINY, noise=0.5)
    with pytest.raises(ValueError, match=r"was trained with noise=0\.03, this is noise=0\.5"):
        train_expert(whole, other, resume=True, progress=False)
    assert content(whole) == before


def test_an_expert_is_not_overwritten_unasked(whole, traceclass, tmp_path):
    before = content(whole)
    refused(traceclass("half-cheetah", "--out", whole), "already holds an expert", "--overwrite")
    assert content(whole) == before
    refused(traceclass("half-cheetah", "--out", whole, "--resume", "--overwrite"), "choose one")
    path = tmp_path / "mine"
    path.mkdir()
    write_checkpoint(path, Training(dataclasses.replace(TINY, seed=3), begin(TINY)))
    (path / ".new-weights.npy").write_bytes(b"left over by a crash")
    answer = traceclass("half-cheetah", "--out", path, "--overwrite")
    assert answer.exit_code == 0, answer.stderr
    assert content(path) == before


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_other_files_are_left_alone(overwrite, traceclass, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.png").write_bytes(b"meow")
    (folder / "weights.npy").write_bytes(b"mine")
    answer = traceclass("half-cheetah", "--out", folder, *overwrite)
    refused(answer, "holds something that is not a trained expert")
    assert content(folder) == {"cat.png": b"meow", "weights.npy": b"mine"}
    (tmp_path / "file").write_text("x")
    refused(traceclass("half-cheetah", "--out", "file", *overwrite), "file is not a directory")
    (tmp_path / "link").symlink_to(folder)
    refused(traceclass("half-cheetah", "--out", "link", *overwrite), "link is not a directory")


def test_an_empty_folder_is_no_obstacle(traceclass, tmp_path):
    (tmp_path / "empty").mkdir()
    answer = traceclass("half-cheetah", "--out", "empty", "--iterations", 1)
    assert answer.exit_code == 0, answer.stderr


def test_two_trainings_in_one_place_are_refused(traceclass, tmp_path):
    (tmp_path / "expert").mkdir()
    with locked(tmp_path / "expert" / ".lock"):
        refused(traceclass("half-cheetah", "--out", "expert"), "another training is being written")


def test_a_missing_checkpoint_is_reported(traceclass, whole, tmp_path):
    refused(traceclass("half-cheetah", "--resume"), "has no checkpoint.npz to go on from")
    assert not (tmp_path / "experts").exists()
    for name, file in content(whole).items():
        if name != "checkpoint.npz":
            (tmp_path / name).write_bytes(file)
    before = content(tmp_path)
    refused(traceclass("half-cheetah", "--out", tmp_path, "--resume"), "has no checkpoint.npz")
    assert content(tmp_path) == before


def changed(checkpoint: Path, **arrays: np.ndarray) -> bytes:
    """A checkpoint with some other arrays."""
    with np.load(checkpoint) as stored:
        kept = {name: stored[name] for name in stored.files} | arrays
    made = io.BytesIO()
    np.savez(made, **{name: array for name, array in kept.items() if array is not None})
    return made.getvalue()


DAMAGES = {
    "empty": lambda _: b"",
    "no archive": lambda _: b"not at all" * 50,
    "cut off": lambda file: file.read_bytes()[:-300],
    "one bit": lambda file: file.read_bytes().replace(b"NUMPY", b"NUMPZ", 1),
    "settings of another version": lambda file: changed(file, settings=np.array('{"speed": 3}')),
    "settings not JSON": lambda file: changed(file, settings=np.array("{")),
    "settings that are none": lambda file: changed(file, settings=np.array("[]")),
    "a missing part": lambda file: changed(file, state_weights=None),
    "another shape": lambda file: changed(file, state_weights=np.zeros((6, 16))),
    "another type": lambda file: changed(file, state_total=np.zeros(17, np.float32)),
    "not a number": lambda file: changed(file, state_squares=np.full(17, np.nan)),
    "too far": lambda file: changed(file, state_iteration=np.array(99)),
    "other trials": lambda file: changed(file, trials=np.zeros((2, 3))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_reported_and_left(damage, whole, traceclass, tmp_path):
    path = tmp_path / "expert"
    path.mkdir()
    (path / "checkpoint.npz").write_bytes(DAMAGES[damage](whole / "checkpoint.npz"))
    before = content(path)
    answer = traceclass("half-cheetah", "--out", path, "--resume")
    refused(answer, "checkpoint.npz is damaged, or of another version: ", "--overwrite")
    assert content(path) == before


def test_every_file_has_a_checksum_and_verify_names_a_changed_one(whole, traceclass, tmp_path):
    path = tmp_path / "expert"
    shutil.copytree(whole, path)
    answer = CliRunner().invoke(app, ["verify", str(path)])
    assert answer.exit_code == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "SHA256SUMS: whole", *(f"{name}: whole" for name in sorted(FILES - {"SHA256SUMS"}))
    ]  # fmt: skip
    for name in sorted(FILES):
        file, before = path / name, (path / name).read_bytes()
        file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        refused_by = CliRunner().invoke(app, ["verify", str(path)])
        file.write_bytes(before)
        assert refused_by.exit_code == 2
        assert f"not whole: {name}\n" in refused_by.stderr
    # An archive may be changed where its own checksums do not see it.
    (path / "checkpoint.npz").write_bytes(changed(path / "checkpoint.npz", trials=np.zeros((0, 8))))
    answer = traceclass("half-cheetah", "--out", path, "--resume", "--iterations", 6)
    refused(answer, "checkpoint.npz is not as it was written")
    (path / "SHA256SUMS").unlink()
    answer = CliRunner().invoke(app, ["verify", str(path)])
    assert answer.exit_code == 0
    assert "has no SHA256SUMS" in answer.stderr


def test_a_flipped_byte_is_noticed(whole, tmp_path):
    """Wherever it is in an array: the archive has checksums."""
    held = (whole / "checkpoint.npz").read_bytes()
    weights = read_checkpoint(whole).state.weights.tobytes()
    at = held.index(weights) + len(weights) // 2
    broken = bytes([*held[:at], held[at] ^ 1, *held[at + 1 :]])
    (tmp_path / "checkpoint.npz").write_bytes(broken)
    with pytest.raises(DamagedFileError, match=r"checkpoint\.npz is damaged"):
        read_checkpoint(tmp_path)


def test_a_pickle_in_a_checkpoint_is_not_run(whole, traceclass, tmp_path):
    made = tmp_path / "was-run"

    class Malicious:
        def __reduce__(self):
            return (open, (str(made), "w"))

    path = tmp_path / "expert"
    path.mkdir()
    bad = np.array([Malicious()], dtype=object)
    (path / "checkpoint.npz").write_bytes(changed(whole / "checkpoint.npz", trials=bad))
    refused(traceclass("half-cheetah", "--out", path, "--resume"), "checkpoint.npz is damaged")
    assert not made.exists()


def test_a_checkpoint_comes_back_to_the_last_bit(tmp_path):
    state = begin(TINY)
    state = state._replace(weights=state.weights + np.pi, best_score=np.array(1 / 3), iteration=4)
    trials = tuple(dict.fromkeys(COLUMNS, 1 / 7) | {"iteration": n} for n in (2, 4))
    write_checkpoint(tmp_path, Training(TINY, state, trials))
    back = read_checkpoint(tmp_path)
    assert back.search == TINY
    assert back.trials == trials
    for name, one, other in zip(state._fields, state, back.state, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_a_full_disk_is_no_traceback(traceclass, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("traceclass.sampling.files.os.write", full)
    answer = traceclass("half-cheetah", "--quiet")
    refused(answer, "cannot write", "No space left on device", code=3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ant"], "unknown environment 'ant'; there is half-cheetah."),
        (["half-cheetah", "--iterations", "0"], "num_iterations must be at least 1, got 0"),
        (["half-cheetah", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["half-cheetah", "--seed", str(2**40)], "seed must be at most 4294967295"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(arguments, words, traceclass, tmp_path):
    refused(traceclass(*arguments), words)
    assert list(tmp_path.iterdir()) == []


def test_without_mujoco_it_says_what_to_install(traceclass, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    refused(traceclass("half-cheetah"), "pip install 'gymnasium[mujoco]'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_without_mujoco_its_experiments_say_what_to_install_and_others_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("traceclass.use_cpu_devices", lambda: None)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    half_cheetah.model.cache_clear()
    for name in ("half-cheetah", "half-cheetah-curves"):
        refused(CliRunner().invoke(app, ["run", name]), "pip install 'gymnasium[mujoco]'")
        assert list(tmp_path.iterdir()) == []
    answer = CliRunner().invoke(app, ["run", "prior-draws", "--quiet"])
    assert answer.exit_code == 0, answer.stderr
