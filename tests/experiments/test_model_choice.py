"""The quick preset of model-choice, through the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import traceclass as tc
from traceclass.cli import app
from traceclass.experiments.model_choice import run as model_choice
from traceclass.experiments.model_choice.settings import ModelChoiceConfig

pytestmark = pytest.mark.xdist_group("model_choice")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model-choice") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traceclass.use_cpu_devices", lambda: None)
        result = CliRunner().invoke(app, ["run", "model-choice", "--out", str(folder)])
    assert result.exit_code == 0, result.stderr
    return folder, result.stdout


@pytest.mark.long
def test_every_model_has_its_scores(finished):
    folder, shown = finished
    numbers = json.loads((folder / "results.json").read_text())
    problem = numbers["problems"]["regression"]
    assert [cell["value"] for cell in problem["sweeps"]["alpha"]] == [1.1, 3.0]
    assert problem["sweeps"]["variance"] == []
    # The base model is in the sweep of widths, sampled once.
    assert [cell["cell"] for cell in problem["sweeps"]["width"]] == ["base"]
    cells = [cell for sweep in problem["sweeps"].values() for cell in sweep]
    for cell in [*cells, problem["inferred"]]:
        assert np.isfinite([cell["log_evidence"], cell["held_out"], cell["elpd_loo"]]).all()
        assert cell["log_evidence_error"] > 0
        assert 0 < cell["barrier"] < 4
    assert set(problem["inferred"]["posterior"]) == {
        "alpha", "weight_variance", "bias_variance", "noise",
    }  # fmt: skip
    for low, middle, high in problem["inferred"]["posterior"].values():
        assert 0 < low < middle < high
    for words in ("alpha 1.1", "alpha 3", "base", "inferred"):
        assert f"regression, {words} " in shown


@pytest.mark.long
def test_the_report_draws_sweeps_and_posteriors(finished):
    folder, _ = finished
    drawn = {path.name for path in (folder / "figures").iterdir()}
    assert drawn == {"regression-sweeps.png", "regression-inferred.png"}
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png") == 2
    assert "bias variance" in page


def test_candidates_differ_in_what_is_varied_only():
    config = ModelChoiceConfig(problems=("mountain-car",), num_held_out=10)
    candidates = model_choice.candidates_of(config, "mountain-car")
    assert len(candidates) == 6 + 5 + 8 + 1
    by_name = {candidate.name: candidate.prior for candidate in candidates}
    assert by_name["alpha-3"].alpha == 3.0
    assert by_name["alpha-3"].weight_variance == (2.0,) * 4
    assert by_name["variance-16"].bias_variance == (16.0,) * 4
    assert by_name["width-200"].widths == (200, 200, 200)
    assert by_name["width-200"].alpha == 1.5
    hierarchical = by_name["inferred"]
    assert isinstance(hierarchical, tc.Hyper)
    # Of a choice only v / noise is seen.
    assert hierarchical.names == ("alpha", "weight_variance", "bias_variance")


def test_the_regression_data_are_those_of_the_function():
    config = ModelChoiceConfig(problems=("regression",), num_observations=2_000)
    likelihood = model_choice.data_of(config, "regression").likelihood
    x = np.asarray(likelihood.points)[:, 0]
    residuals = np.asarray(likelihood.observations) - model_choice.target(x)
    assert abs(residuals.std() - 0.3) < 5 * 0.3 / np.sqrt(4_000)
