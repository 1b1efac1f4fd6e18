"""Mistakes and bugs told apart: what each leaves behind, and what the command line says of it."""

from __future__ import annotations

import json

import pytest
from tiny_run import TINY
from typer.testing import CliRunner

from traceclass.cli import app
from traceclass.experiments import EXPERIMENTS
from traceclass.experiments.mountain_car import figures, report
from traceclass.experiments.mountain_car import run as program
from traceclass.run_directory import contents

pytestmark = pytest.mark.xdist_group("cli")


@pytest.fixture
def traceclass(monkeypatch, tmp_path):
    monkeypatch.setattr("traceclass.use_cpu_devices", lambda: None)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object):
        return CliRunner().invoke(app, list(map(str, arguments)))

    return call


def broken_after(count: int, real):
    """A function that works `count` times and then has the bug that nobody thought of."""
    calls = 0

    def measure(*arguments):
        nonlocal calls
        calls += 1
        return real(*arguments) if calls <= count else None + 1  # pyright: ignore

    return measure


def check_bug(answer) -> None:
    assert answer.exit_code == 1
    assert "Traceback (most recent call last)" in answer.stderr
    assert "TypeError: unsupported operand" in answer.stderr
    last = answer.stderr.splitlines()[-1]
    assert last.startswith("traceclass: ")
    assert "this is a bug of traceclass" in answer.stderr


def test_a_broken_experiment_keeps_its_cells_and_results_and_goes_on(
    traceclass, monkeypatch, tmp_path
):
    words = ["run", "mountain-car", "--out", "run", "--quiet"]
    two = [*TINY, "--set", "num_data_sets=2"]
    with monkeypatch.context() as patched:
        patched.setattr(program, "measure", broken_after(1, program.measure))
        answer = traceclass(*words, *two)
    check_bug(answer)
    kept = json.loads((tmp_path / "run" / "unfinished" / "results.json").read_text())
    assert not kept["is_complete"]
    assert list(kept["cells"]) == ["kl-pcn-0"]
    assert kept["cells"]["kl-pcn-0"]["draws"] == 16
    chains = tmp_path / "run" / "unfinished" / "chain"
    first = {file.name: file.read_bytes() for file in (chains / "kl-pcn-0").iterdir()}
    answer = traceclass(*words, "--resume")
    assert answer.exit_code == 0, answer.stderr
    again = tmp_path / "run" / "chain" / "kl-pcn-0"
    assert {file.name: file.read_bytes() for file in again.iterdir()} == first
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    numbers = kept["cells"]["kl-pcn-0"]
    for key in ("acceptance_rate", "ess", "chain_failures", "policies"):
        assert results["cells"][0][key] == numbers[key]


@pytest.mark.long
def test_a_broken_end_keeps_the_results_of_the_run_before(traceclass, monkeypatch, tmp_path):
    words = ["run", "mountain-car", "--out", "run", "--quiet", *TINY]
    assert traceclass(*words).exit_code == 0
    before = (tmp_path / "run" / "results.json").read_bytes()
    monkeypatch.setattr(program, "finish", lambda *_: None + 1)  # pyright: ignore
    check_bug(traceclass(*words, "--overwrite"))
    assert (tmp_path / "run" / "results.json").read_bytes() == before
    assert traceclass("report", "run").exit_code == 0


def test_a_broken_figure_leaves_a_page_with_all_the_others(traceclass, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "draw_steps", lambda *_, **__: None + 1)  # pyright: ignore
    answer = traceclass("run", "mountain-car", "--out", "run", "--quiet", *TINY)
    check_bug(answer)
    assert "not drawn: steps.png" in answer.stderr
    assert "Thompson" in answer.stdout  # the table all the same
    path = tmp_path / "run"
    assert {"results.json", "report.html", "chain"} <= {file.name for file in path.iterdir()}
    page = (path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 7
    assert "steps.png could not be drawn (TypeError" in page
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["report", str(path)]).exit_code == 0
    assert (path / "report.html").read_text().count("data:image/png;base64,") == 8


def test_a_broken_table_keeps_the_results(traceclass, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "_spread_table", lambda _: None + 1)  # pyright: ignore
    check_bug(traceclass("run", "mountain-car", "--out", "run", "--quiet", *TINY))
    assert json.loads((tmp_path / "run" / "results.json").read_text())["num_data_sets"] == 1


def test_a_move_that_fails_undoes_the_others(tmp_path):
    """The disk may refuse in the middle of a commit: then all is where it was."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    moves = [(tmp_path / "a", tmp_path / "old"), (tmp_path / "b", tmp_path / "missing" / "b")]
    with pytest.raises(FileNotFoundError):
        contents._move(moves)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "a", "b": "b"}


def test_every_experiment_has_its_three_modules_and_says_what_its_results_hold():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert set(experiment.presets) == {"quick", "paper"}
        assert experiment.program.Results.__required_keys__
        for function in ("sections", "main_table", "headline", "warnings"):
            assert callable(getattr(experiment.report, function)), (name, function)
        names = (
            experiment.program.cells(experiment.presets["paper"]) if experiment.has_chains else ()
        )
        assert len(set(names)) == len(names)


def test_version_and_help(traceclass):
    import traceclass as tc

    assert traceclass("--version").stdout == f"traceclass {tc.__version__}\n"
    assert "train-expert" in traceclass("--help").stdout
