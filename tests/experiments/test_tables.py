"""The experiments of many cells, whole, in their quick presets: what is in them, and repeatable."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from traceclass.cli import app
from traceclass.draws import carried
from traceclass.experiments import EXPERIMENTS
from traceclass.experiments.car import prior_of
from traceclass.experiments.cells import Chains, run_experiment
from traceclass.experiments.width_sweep.report import row_of
from traceclass.experiments.width_sweep.settings import PAPER
from traceclass.scores import drift

pytestmark = pytest.mark.xdist_group("tables")


QUICK = {
    "width-sweep": ({"acceptance.png"}, "tcNN Node-Swap"),
    "prior-comparison": ({"priors.png"}, "undecided"),
    "learning-curve": ({"sizes.png", "noises.png"}, "cloning: network"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run directories of the quick presets, each made once, when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("tables"), set()

    def directory(name: str):
        if name not in made:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("traceclass.use_cpu_devices", lambda: None)
                words = ["run", name, "--out", str(folder / name), "--quiet"]
                answer = CliRunner().invoke(app, words)
            assert answer.exit_code == 0, answer.stderr
            made.add(name)
        return folder / name

    return directory


def numbers_in(path):
    return json.loads((path / "results.json").read_text())


def without_times(content):
    if isinstance(content, dict):
        return {k: without_times(v) for k, v in content.items() if "second" not in k}
    return [without_times(v) for v in content] if isinstance(content, list) else content


@pytest.mark.long
def test_a_sweep_has_every_row_with_its_error(finished):
    cells = numbers_in(finished("width-sweep"))["cells"]
    widths = {row: [cell["width"] for cell in row_of(cells, row)] for row in (*PAPER, "tcnn_hmc")}
    assert widths == {
        "tcnn_pcn": [4, 8], "tcnn_node_swap": [4, 8], "bnn_fixed_pcn": [8], "bnn_scaled_pcn": [8],
        "tcnn_hmc": [8],
    }  # fmt: skip
    assert all(0 < cell["acceptance"] < 100 for cell in cells)
    assert all(0 < cell["error"] < 30 for cell in cells)
    assert row_of(cells, "tcnn_hmc")[0]["acceptance"] > row_of(cells, "tcnn_pcn")[0]["acceptance"]


@pytest.mark.long
def test_the_same_seed_gives_the_same_table_with_a_store_and_without(finished):
    experiment = EXPERIMENTS["width-sweep"]
    config = experiment.presets["quick"]
    result = run_experiment(experiment, config, Chains(progress=False))
    again = json.loads(json.dumps(result.numbers))
    assert without_times(again) == without_times(numbers_in(finished("width-sweep")))


def test_wider_chains_begin_at_narrower_ones():
    narrow, wide = (prior_of("tcnn", widths=(n,) * 3) for n in (4, 8))
    positions = narrow.sample(jax.random.key(0), (3,))
    begun = carried(jax.random.key(0), positions, narrow, wide)
    for z, longer in zip(positions, begun, strict=True):
        np.testing.assert_array_equal(wide.restrict(longer, narrow), z)
    back = carried(jax.random.key(1), begun, wide, narrow)
    np.testing.assert_array_equal(back, positions)
    assert not np.array_equal(begun[0], begun[1])


def test_a_rate_that_drifts_is_called_drifting():
    """Sixteen chains of independent rates, and the same with a slope of one sd over the run."""
    rates = np.random.default_rng(0).normal(0.2, 0.05, (16, 50))
    still = drift(rates)
    assert not still["is_drifting"]
    assert still["drift_error"] == pytest.approx(100 * 0.05 * np.sqrt(2 / 25 / 16), rel=0.5)
    moving = drift(rates + np.linspace(0, 0.05, 50))
    assert moving["is_drifting"]
    assert moving["drift"] == pytest.approx(2.5 + still["drift"], abs=0.1)


def test_table_1_is_carried_over():
    assert PAPER["tcnn_pcn"][60] == 23.1
    assert PAPER["bnn_fixed_pcn"][100] == 2.23


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_tables_and_figures_come_from_the_stored_files(name, finished, tmp_path):
    path, (figures, words) = finished(name), QUICK[name]
    before = (path / "report.html").read_text()
    assert CliRunner().invoke(app, ["report", str(path)]).exit_code == 0
    assert (path / "report.html").read_text() == before
    assert {p.name for p in (path / "figures").iterdir()} == figures
    page = (path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(figures)
    assert words in page
    cells = sorted(p.name for p in (path / "chain").iterdir())
    status = CliRunner().invoke(app, ["status", str(path)])
    assert sorted(line.split(":")[0] for line in status.stdout.splitlines()) == cells
    answer = CliRunner().invoke(app, ["export", str(path), str(tmp_path / "x.nc")])
    assert answer.exit_code == 2
    assert "choose one with --cell" in answer.stderr
    answer = CliRunner().invoke(
        app, ["export", str(path), str(tmp_path / "x.nc"), "--cell", cells[0]]
    )
    assert answer.exit_code == 0, answer.stderr
    assert "posterior" in xr.load_datatree(tmp_path / "x.nc", engine="h5netcdf")
    if name == "prior-comparison":
        check_decisions(numbers_in(path))


def check_decisions(results: dict) -> None:
    for prior in results["priors"].values():
        for state in prior["states"]:
            shares = [share["mean"] for share in state["share_best"]]
            assert sum(shares) == pytest.approx(1.0)
            leader = int(np.argmax(shares))
            assert state["decided"] == (leader if shares[leader] >= 0.95 else None)


def test_a_sweep_takes_no_until(monkeypatch, tmp_path):
    monkeypatch.setattr("traceclass.use_cpu_devices", lambda: None)
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["run", "width-sweep", "--until", "ess=10"])
    assert answer.exit_code == 2
    assert "its chains begin where others end" in answer.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("width-sweep", "widths=[20,10]", "widths must rise"),
        ("width-sweep", "gradient_widths=[7]", "gradient_widths must be among widths, got 7"),
        ("width-sweep", "bnn_step_size=3", "step size in (0, 1], got 3.0"),
        ("prior-comparison", 'priors=["gp"]', "setting priors"),
        ("learning-curve", "noises=[0.1,-1]", "noise must be positive"),
        ("learning-curve", "sizes=[0]", "setting sizes"),
        ("learning-curve", "sizes=5,5", "sizes must differ from each other"),
        ("mountain-car", "kernels=pcn,pcn", "kernels must differ from each other"),
    ],
)
def test_settings_that_make_no_sense_end_in_one_line(name, setting, words, monkeypatch, tmp_path):
    monkeypatch.setattr("traceclass.use_cpu_devices", lambda: None)
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["run", name, "--set", setting])
    assert answer.exit_code == 2
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
