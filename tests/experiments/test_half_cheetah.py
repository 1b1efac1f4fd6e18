"""The half-cheetah experiments: their data, starts and scores, and every row of their tables."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest

import traceclass as tc
from traceclass.control import half_cheetah as cheetah
from traceclass.control.choice_scores import choice_scores, values_of_successors
from traceclass.experiments import EXPERIMENTS, cheetah_learned
from traceclass.experiments import cheetah as shared
from traceclass.experiments.cells import Chains, run_experiment
from traceclass.experiments.half_cheetah.settings import HalfCheetahConfig
from traceclass.experiments.half_cheetah_curves.run import settings_of
from traceclass.experiments.half_cheetah_curves.settings import CheetahCurvesConfig
from traceclass.experiments.rendering import render, terminal_summary
from traceclass.run_directory import contents
from traceclass.run_directory.claim import claimed
from traceclass.sampling.start import shrunken_draws
from traceclass.scores import balanced_accuracy

pytestmark = pytest.mark.xdist_group("half_cheetah")

TINY = {
    "num_data_sets": 2,
    "num_demonstrations": 30,
    "num_tests": 60,
    "num_kicks": 2,
    "num_samples": 10,
    "max_samples": 10,
    "num_wide_samples": 10,
    "max_wide_samples": 10,
    "num_kept": 8,
    "num_episodes": 2,
    "num_steps": 15,
}


@pytest.fixture(scope="module")
def config():
    return HalfCheetahConfig(priors=("tcnn-4", "tcnn-6", "bnn-4", "kl-1"), **TINY)


@pytest.fixture(scope="module")
def data(config):
    return shared.data_set(3, config)


@pytest.fixture(scope="module")
def result(config):
    return run_experiment(EXPERIMENTS["half-cheetah"], config, Chains(progress=False))


def learned(name, data, config):
    """A cell of one prior, sampled: its run, and what was learned."""
    cell = cheetah_learned.cell_of("x", name, data, config, labels={}, num_kicks=config.num_kicks)
    run = Chains(progress=False).sample(cell)
    return run, cheetah_learned.learned_from(run, cell, name, data, config)


@pytest.fixture(scope="module")
def few(data):
    """As many demonstrations as a run needs to be one: what is said of it holds of any number."""
    return data.first(6)


@pytest.fixture(scope="module", autouse=True)
def starts_in_one_program():
    """Starts are found operation by operation, which compiles dozens of programs for each prior."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cheetah_learned, "shrunken_draws", eqx.filter_jit(shrunken_draws))
        yield


@pytest.fixture(scope="module")
def narrow(config, few):
    return learned("tcnn-4", few, config)


@pytest.mark.long
def test_tests_come_from_other_episodes_and_the_seed_decides(config, data):
    again, other = shared.data_set(3, config), shared.data_set(4, config)
    np.testing.assert_array_equal(again.successors, data.successors)
    assert np.abs(other.successors - data.successors).max() > 0.1
    nearest = np.abs(data.tests.states[:, None] - data.demonstrations.states).max(axis=-1)
    assert nearest.min() > 1e-6
    np.testing.assert_array_equal(data.tests.actions, cheetah.expert().nearest(data.tests.states))


def test_successors_are_those_of_the_experts_actions(data):
    chosen = cheetah.expert().actions[data.demonstrations.actions]
    after = cheetah.step(data.demonstrations.states, chosen)
    rows = np.arange(len(after))
    np.testing.assert_allclose(
        data.successors[rows, data.demonstrations.actions], after, rtol=0, atol=1e-12
    )


def test_irrelevant_inputs_are_the_same_for_every_action(data):
    wide = data.widened(20)
    assert wide.successors.shape == (30, 8, 20)
    np.testing.assert_array_equal(wide.successors[..., :17], data.successors)
    assert np.ptp(wide.successors[..., 17:], axis=1).max() == 0
    assert np.std(wide.test_successors[:, 0, 17:]) == pytest.approx(1, abs=0.3)


@pytest.mark.long
def test_starts_are_no_worse_than_chance(data):
    """Prior draws are; c = 0 would be chance itself, and the smallest c is near it."""
    posterior = shared.posterior_of(shared.prior_of("tcnn-10"), data, noise=0.1)
    chance = -30 * np.log(8)
    key = jax.random.fold_in(jax.random.key(0), 0)
    starts = np.asarray(eqx.filter_jit(shrunken_draws)(posterior, key, 8))
    log_likelihoods = jax.jit(jax.vmap(posterior.log_likelihood))
    levels = np.asarray(log_likelihoods(starts))
    draws = np.asarray(log_likelihoods(posterior.prior.sample(jax.random.key(0), (8,))))
    assert levels.min() > chance - 15
    assert draws.min() < levels.min()
    assert len(np.unique(starts[:, 0])) == 8


def test_scores_of_a_function_that_knows_the_answer(data):
    """Values that are largest at the expert's action, and ones that are largest at the next."""
    actions = data.tests.actions

    def scored(shift):
        values = np.zeros((4, 60, 8))
        values[:, np.arange(60), (actions + shift) % 8] = 5.0
        return choice_scores(values, actions, noise=0.1)

    right, wrong = scored(0), scored(1)
    for name in ("samples", "mean", "vote", "balanced"):
        assert right[name] == 1
        assert wrong[name] == 0
    assert right["log_score"] == pytest.approx(0, abs=1e-4)
    assert wrong["log_score"] < -100


def test_balanced_accuracy_counts_actions_alike():
    actions = np.array([0] * 9 + [1])
    assert balanced_accuracy(np.zeros(10, int), actions) == 0.5


def test_test_values_are_the_functions_of_the_positions(data):
    prior = shared.prior_of("kl-1")
    positions = prior.sample(jax.random.key(0), (3,))
    values = values_of_successors(prior, positions, data.test_successors)
    wanted = eqx.filter_jit(prior.evaluate)(np.asarray(positions)[1], data.test_successors[7])
    np.testing.assert_allclose(values[1, 7], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_the_table_has_every_prior_and_yardstick(config, result):
    numbers = result.numbers
    assert list(numbers["priors"]) == list(config.priors)
    assert set(numbers["clones"]) == {"logistic", "network", "forest"}
    for figures in numbers["priors"].values():
        for name in ("samples", "mean", "vote", "balanced"):
            assert 0 <= figures[name]["mean"] <= 1
            assert len(figures[name]["each"]) == 2
    assert numbers["references"]["chance"] == 1 / 8
    beside = {(pair["prior"], pair["beside"]) for pair in numbers["paired"]}
    assert ("tcnn-6", "kl-1") in beside
    assert ("tcnn-6", "commonest action") in beside
    rides = numbers["references"]["rides"]
    assert set(rides) == {"discretised expert", "continuous expert", "random"}
    # 15 steps from rest are not far, but forwards.
    assert rides["discretised expert"]["distance"]["mean"] > 0.1
    assert result.arrays["distance"].shape[1:] == (16, 4)
    assert result.trace["kl-1/posterior"]["value_difference"].shape == (4, 10, 10, 8)


@pytest.mark.long
def test_paired_differences_are_those_of_the_data_sets(result):
    numbers = result.numbers
    pair = next(p for p in numbers["paired"] if (p["prior"], p["beside"]) == ("tcnn-6", "bnn-4"))
    ours, theirs = (numbers["priors"][n]["mean"]["each"] for n in ("tcnn-6", "bnn-4"))
    assert pair["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))


@pytest.mark.long
def test_the_same_seed_gives_the_same_table(config, few, narrow):
    """One cell, learned twice."""
    first, second = narrow[1], learned("tcnn-4", few, config)[1]
    for name in ("samples", "mean", "log_score", "rhat"):
        assert first.numbers[name] == second.numbers[name]


def test_a_wider_network_begins_where_the_narrow_one_ended(few, narrow):
    narrow, _ = narrow
    coarse, fine = shared.prior_of("tcnn-4"), shared.prior_of("tcnn-6")
    before = cheetah_learned.Coarse(narrow, coarse, len(few.successors))
    wide = cheetah_learned._refined(fine, before, few, 4, 10)
    start = np.asarray(wide["initial_positions"])[0]
    np.testing.assert_array_equal(fine.restrict(start, coarse), narrow.positions[0, -1])
    points = few.successors[0]
    np.testing.assert_allclose(
        eqx.filter_jit(fine.evaluate)(start, points),
        eqx.filter_jit(coarse.evaluate)(narrow.positions[0, -1], points),
        atol=1e-5,
    )
    assert wide["step_size"] == pytest.approx(narrow.step_size)


@pytest.mark.long
def test_recorded_values_of_a_series_are_those_of_its_lifted_draws(config, few):
    """Not those of its mean given what the demonstrations see, which vary less."""
    run, found = learned("kl-1", few, config)
    every = run.positions.shape[1] // (len(found.positions) // 4)
    assert every == 5
    points = few.test_successors[:10].reshape(-1, 17)
    values = np.asarray(eqx.filter_jit(found.prior.evaluate)(found.positions, points))
    values = values.reshape(-1, 10, 8)
    chosen = np.take_along_axis(values, few.tests.actions[None, :10, None], axis=2)
    recorded = run.draws["value_difference"][:, [4, 9]].reshape(-1, 10, 8)
    np.testing.assert_allclose(values - chosen, recorded, rtol=0, atol=2e-3)


def stored(path, name, config, result):
    """A finished run directory, as the command line writes it."""
    with claimed(path, overwrite=False, resume=False):
        described = {"experiment": name, "preset": "quick", "settings": config.model_dump()}
        contents.begin(path, described, resume=False)
        contents.commit(path, *result)
    assert render(path) == {}
    return path


@pytest.mark.long
def test_the_report_is_drawn_from_a_real_result(config, result, tmp_path):
    path = stored(tmp_path / "run", "half-cheetah", config, result)
    table, headline, _ = terminal_summary(path)
    rows = [row[0] for row in table.rows]
    assert any(row.startswith("trace-class 3 x 6") for row in rows)
    assert "Fourier" in headline
    figures = {file.name for file in (path / "figures").iterdir()}
    assert {"accuracy.png", "values.png", "distance.png", "episodes.png"} <= figures
    assert "these demonstrations" in (path / "report.html").read_text()


@pytest.mark.long
def test_curves_over_sizes_inputs_and_widths(tmp_path):
    experiment = EXPERIMENTS["half-cheetah-curves"]
    config = CheetahCurvesConfig(
        sizes=(10, 20),
        size_priors=("tcnn-3", "kl-1"),
        max_series_size=10,
        dims=(17, 20),
        dim_priors=("tcnn-3",),
        widths=(3, 4),
        num_refined_warmup=5,
        **{**TINY, "num_data_sets": 1},
    )
    result = run_experiment(experiment, config, Chains(progress=False))
    path = stored(tmp_path / "run", "half-cheetah-curves", config, result)
    assert {f.name for f in (path / "figures").iterdir()} == {"size.png", "dim.png", "width.png"}
    assert len(terminal_summary(path)[0].rows) == len(settings_of(config)) + 6
    numbers = result.numbers
    found = [(p["curve"], p["value"], p["prior"]) for p in numbers["points"]]
    assert found == [tuple(setting) for setting in settings_of(config)]
    assert ("size", 20, "kl-1") not in found
    dims = [p for p in numbers["points"] if p["curve"] == "dim"]
    assert [p["num_coordinates"] for p in dims] == [
        tc.TraceClassNetwork(num_inputs=d, widths=(3, 3, 3)).num_coordinates for d in (17, 20)
    ]
    assert all(p["gradient_seconds"] > 0 for p in dims)
    assert [row["size"] for row in numbers["clones"]] == [10, 20]


def test_inputs_are_appended_to_seventeen():
    with pytest.raises(ValueError, match="appended to the cheetah's 17"):
        CheetahCurvesConfig(dims=(10,))


def test_a_name_is_a_kind_and_a_size():
    for name in ("tcnn", "kl-0", "gp-10", "tcnn-10-2"):
        with pytest.raises(ValueError, match="pattern"):
            HalfCheetahConfig(priors=(name,))
    assert shared.in_words("kl-10") == "Fourier series k = 10"
    assert shared.in_words("tcnn-100") == "trace-class network 3 x 100"
