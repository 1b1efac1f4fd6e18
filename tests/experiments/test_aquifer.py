"""The groundwater experiments in their quick presets, and the aquifer they share."""

from __future__ import annotations

import json

import equinox as eqx
import jax
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import traceclass as tc
from traceclass.cli import app
from traceclass.experiments import EXPERIMENTS, aquifer
from traceclass.experiments.mesh_refinement.report import row_of
from traceclass.scores import coverage

pytestmark = pytest.mark.xdist_group("aquifer")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run directories of the quick presets, each made once, when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("aquifer"), {}

    def directory(name: str):
        if name not in made:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("traceclass.use_cpu_devices", lambda: None)
                made[name] = CliRunner().invoke(app, ["run", name, "--out", str(folder / name)])
            assert made[name].exit_code == 0, made[name].stderr
        return folder / name, made[name].stdout

    return directory


def numbers_in(path):
    return json.loads((path / "results.json").read_text())


def test_the_aquifer_is_the_papers():
    assert len(aquifer.WELLS) == len(set(aquifer.WELLS)) == 33
    wells = np.array(aquifer.WELLS)
    assert {tuple(w) for w in (20 - wells).tolist()} == set(aquifer.WELLS)  # seen from the centre
    assert [aquifer.prior_of(name).num_coordinates for name in ("kl", "tcnn")] == [625, 601]
    # One term of the truth, by hand: u* of a single point is the double sum.
    x, total = np.array([0.3, 0.8]), 0.0
    for i in np.arange(1, 11) - 0.5:
        for j in np.arange(1, 11) - 0.5:
            deviation = (np.pi**2 * (i**2 + j**2)) ** -0.55
            basis = 2 * np.cos(np.pi * i * x[0]) * np.cos(np.pi * j * x[1])
            total += deviation * np.sin(i**2 + j**2) * basis
    assert float(jax.jit(aquifer.truth)(x[None])[0]) == pytest.approx(total, abs=1e-5)


@pytest.mark.long
def test_a_survey_sees_the_true_head_with_noise(monkeypatch):
    # As wholes: operation by operation, a flow of another size compiles dozens of programs.
    monkeypatch.setattr(aquifer, "truth", jax.jit(aquifer.truth))
    monkeypatch.setattr(tc.DarcyFlow, "head", eqx.filter_jit(tc.DarcyFlow.head))
    quiet = aquifer.survey(3, noise=1e-6, num_held_out=20)
    loud = aquifer.survey(3, noise=0.01, num_held_out=20)
    flow, head = aquifer.true_flow()
    fine = [(2 * i, 2 * j) for i, j in aquifer.WELLS]
    np.testing.assert_allclose(quiet.heads, [head[node] for node in fine], atol=1e-5)
    assert flow.cells == (40, 40)
    np.testing.assert_array_equal(quiet.held_out, loud.held_out)
    assert 0.004 < np.std(loud.heads - quiet.heads) < 0.02
    assert 0.004 < np.std(loud.held_out_observed - loud.held_out_head) < 0.02


def test_the_networks_read_coordinates_and_their_sines():
    prior = aquifer.prior_of("tcnn", width=4)
    features = jax.jit(prior.inputs)(np.array([[0.25, 1.0]]))
    np.testing.assert_allclose(features, [[-0.5, 1.0, -1.0, 0.0]], atol=1e-6)
    assert aquifer.prior_of("deep").num_coordinates == 4 * 10 + 10 + 2 * 110 + 11


def test_coverage_counts_values_within_their_intervals():
    draws = np.random.default_rng(0).normal(size=(4_000, 300))
    values = np.random.default_rng(1).normal(size=300)
    assert coverage(draws, values, level=0.9) == pytest.approx(0.9, abs=0.06)  # 3.5 errors
    assert coverage(draws, values + 3, level=0.9) < 0.2


@pytest.mark.long
def test_groundwater_scores_every_prior_and_kernel(finished):
    path, table = finished("groundwater")
    results = numbers_in(path)
    pairs = {(cell["prior"], cell["kernel"]) for cell in results["cells"]}
    # The reference is for one mode: the network runs without it.
    assert pairs == {("kl", "hmc"), ("kl", "laplace-pcn"), ("tcnn", "hmc")}
    for prior in ("kl", "tcnn"):
        score = results["priors"][prior]
        assert 0 <= score["coverage"] <= 1
        assert np.isfinite(score["log_score"]["mean"])
        # The posterior predicts far better than the spread of the heads themselves.
        assert score["head_error"] < 0.05
    levels = [cell["log_likelihood"] for cell in results["cells"] if cell["prior"] == "kl"]
    # Two kernels, one posterior: 5 standard errors, alarm below 1e-6, and errors that are small.
    error = np.hypot(levels[0]["error"], levels[1]["error"])
    assert abs(levels[0]["mean"] - levels[1]["mean"]) < 5 * error < 5
    assert "log-score" in table
    drawn = {p.name for p in (path / "figures").iterdir()}
    assert drawn == {"fields.png", "predictive.png", "held_out.png"}
    arrays = xr.load_dataset(path / "arrays.nc")
    assert arrays["kl_predictive"].shape == (100, 33)
    assert float(arrays["kl_sd"].min()) >= 0


@pytest.mark.long
def test_a_report_is_drawn_again_from_the_files_alone(finished):
    path, _ = finished("groundwater")
    page = path / "report.html"
    before = page.read_bytes()
    page.unlink()
    assert CliRunner().invoke(app, ["report", str(path)]).exit_code == 0
    assert page.read_bytes() == before


@pytest.mark.long
def test_more_observations_bring_the_mean_nearer(finished):
    path, table = finished("approximation")
    cells = {(c["observations"], c["width"]): c for c in numbers_in(path)["cells"]}
    assert set(cells) == {(25, 8), (9, 8), (25, 4)}
    assert cells[25, 8]["error"] < cells[9, 8]["error"]
    assert "coverage" in table
    assert {p.name for p in (path / "figures").iterdir()} == {"fields.png", "errors.png"}


@pytest.mark.long
def test_refinement_keeps_the_step_of_the_first_mesh(finished, drawn):
    path, _ = finished("mesh-refinement")
    results = numbers_in(path)
    for kernel in ("pcn", "random_walk"):
        cells = [c for c in results["cells"] if c["kernel"] == kernel]
        assert [(c["modes"], c["cells"]) for c in cells] == [(4, 4), (8, 4), (4, 6)]
        assert len({c["tuning"]["step_size"] for c in cells}) == 1
    rates = {
        kernel: [
            c["acceptance_rate"]
            for c in row_of(results["cells"], kernel, "modes", results["first"])
        ]
        for kernel in ("pcn", "random_walk")
    }
    # Four times the terms: the random walk loses more than pCN, however short the chains.
    assert rates["random_walk"][1] / rates["random_walk"][0] < rates["pcn"][1] / rates["pcn"][0]
    assert {row["refined"] for row in results["distances"]} == {"modes", "cells"}
    assert (path / "figures" / "refinement.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("groundwater", {"priors": ("kl", "kl")}, "one of them twice"),
        ("groundwater", {"priors": ("tcnn",), "kernels": ("laplace-hmc",)}, "no kernel is left"),
        ("approximation", {"strides": (3,)}, "strides must divide 20"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, change, words):
    experiment = EXPERIMENTS[name]
    config = experiment.presets["quick"].model_copy(update=change)
    with pytest.raises(ValueError, match=words):
        experiment.program.check(config)


@pytest.mark.long
def test_a_well_of_ones_own(tmp_path):
    """The README's way for a stranger: heads at points, another boundary, a posterior to ask."""
    boundary = tc.FlowBoundary(head={"left": 1.0, "right": 0.0})
    flow = tc.GroundwaterFlow(
        [0.7, 0.4, 0.2], points=[[0.2, 0.5], [0.55, 0.3], [0.8, 0.8]],
        noise=0.02, cells=(6, 5), boundary=boundary,
    )  # fmt: skip
    posterior = tc.Posterior(tc.CosineSeries(num_modes=3), flow)
    reference = tc.laplace(posterior, rank=3)
    heads = jax.jit(lambda z: flow.predict(posterior.values_of(z)))(reference.mean)
    assert np.abs(np.asarray(heads) - [0.7, 0.4, 0.2]).max() < 0.05
