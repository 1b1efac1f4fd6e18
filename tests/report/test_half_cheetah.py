"""The cheetah's report: limbs where MuJoCo has them, tables of hard cases, figures and page."""

from __future__ import annotations

import io
import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from traceclass.control import cheetah_postures
from traceclass.control import half_cheetah as cheetah
from traceclass.control.cheetah_model import LIMBS, TRUNK
from traceclass.experiments.half_cheetah import pictures
from traceclass.experiments.half_cheetah import report as half_cheetah
from traceclass.experiments.rendering import render, terminal_summary
from traceclass.report.page import Figure, LeftOut, draw
from traceclass.run_directory import contents
from traceclass.scores import mean_over, paired_difference

PRIORS = ("tcnn-100", "tcnn-10", "bnn-10", "kl-10")
CLONES = ("logistic", "network", "forest")
NUM_ACTIONS = 8


def over(rng, count, low, high):
    return mean_over(rng.uniform(low, high, count).tolist())


def made_numbers(priors=PRIORS, num_data_sets=3, unconverged=(("tcnn-100", 1),), seed=0):
    """Numbers as the experiment makes them, of nothing that was ever run."""
    rng = np.random.default_rng(seed)
    cells, figures = [], {}
    for prior in priors:
        rhats = [1.2 if (prior, n) in unconverged else 1.01 for n in range(num_data_sets)]
        cells += [
            {
                "prior": prior,
                "seed": number,
                "cell": f"{prior}-{number}",
                "rhat": rhat,
                "is_converged": rhat < 1.05,
                "ess": 80.0,
                "acceptance_rate": 0.8,
                "acceptance_error": None,
                "tuning": {"step_size": 0.02},
                "draws": 80,
                "seconds": 7.0,
            }
            for number, rhat in enumerate(rhats)
        ]
        figures[prior] = {
            "num_coordinates": 22_101,
            "num_converged": sum(rhat < 1.05 for rhat in rhats),
            "rhat": rhats,
            "seconds": 21.0,
            **{name: over(rng, num_data_sets, 0.2, 0.6) for name in ("samples", "mean", "vote")},
            "balanced": over(rng, num_data_sets, 0.2, 0.4),
            "log_score": over(rng, num_data_sets, -2, -1),
            **{
                f"{drive}_{name}": over(rng, num_data_sets, 0, high)
                for drive in ("mean", "sample", "vote")
                for name, high in (("distance", 9), ("falls", 0.3))
            },
        }
    clones = {
        name: {
            "mean": over(rng, num_data_sets, 0.3, 0.5),
            "balanced": over(rng, num_data_sets, 0.3, 0.5),
            "log_score": over(rng, num_data_sets, -2, -1),
            "distance": over(rng, num_data_sets, 2, 8),
            "falls": over(rng, num_data_sets, 0, 0.1),
        }
        for name in CLONES
    }
    rides = {
        name: {
            "distance": over(rng, num_data_sets, metres - 1, metres + 1),
            "falls": over(rng, num_data_sets, 0, 0.1),
        }
        for name, metres in (("discretised expert", 10), ("random", 0), ("continuous expert", 12))
    }
    numbers = {
        "references": {
            "chance": 1 / NUM_ACTIONS,
            "commonest": over(rng, num_data_sets, 0.15, 0.25),
            "rides": rides,
        },
        "clones": clones,
        "priors": figures,
        "cells": cells,
        "coverage": {
            "first 4 states of 25 episodes": {
                "dimensions": 3.2,
                "gap": 1.41,
                "relative_gap": 0.9,
                "num_actions": 4,
                "even_actions": 2.51,
            }
        },
        "shares": rng.dirichlet(np.ones(NUM_ACTIONS), num_data_sets).tolist(),
        "num_data_sets": num_data_sets,
        "seconds": {"total": 93.0},
    }
    each = {"commonest action": numbers["references"]["commonest"]["each"]}
    each |= {name: row["mean"]["each"] for name, row in (clones | figures).items()}
    numbers["paired"] = [
        {"prior": name, "beside": other, **paired_difference(each[name], values)}
        for name in priors
        if name.startswith("tcnn")
        for other, values in each.items()
        if other != name
    ]
    return numbers


def made_trace(priors=PRIORS, seed=1):
    rng = np.random.default_rng(seed)
    draws = rng.normal(-0.3, 1, (len(priors), 4, 20, 10, NUM_ACTIONS))
    draws[..., 2] = 0
    dims = ("chain", "draw", "state", "action")
    return xr.DataTree.from_dict(
        {
            f"{prior}/posterior": xr.Dataset({"value_difference": (dims, values)})
            for prior, values in zip(priors, draws, strict=True)
        }
    )


def made_arrays(priors=PRIORS, num_steps=24, num_episodes=6, seed=2):
    """Curves and films of random actions; the films keep the cheetah as it was simulated."""
    rng = np.random.default_rng(seed)
    policies = [f"{prior} {drive}" for prior in priors for drive in ("mean", "sample", "vote")]
    policies += [*CLONES, "discretised expert", "random", "continuous expert"]
    films = ["discretised expert", "random", *priors]
    speed = rng.uniform(0, 0.1, (len(policies), 1, 1))
    way = speed + rng.normal(0, 0.05, (len(policies), num_steps, num_episodes))
    distance = np.pad(np.cumsum(way, axis=1), ((0, 0), (1, 0), (0, 0)))
    states, ways = cheetah.initial_states(rng, len(films)), np.zeros(len(films))
    seen = [(states, ways)]
    for _ in range(num_steps):
        states, moved = cheetah.advance(states, rng.uniform(-1, 1, (len(films), 6)))
        ways = ways + moved
        seen.append((states, ways))
    shown = np.linspace(0, num_steps, 9).astype(int)
    return xr.Dataset(
        {
            "distance": (("policy", "step", "episode"), distance),
            "film": (
                ("film_name", "picture", "state"),
                np.stack([seen[step][0] for step in shown], axis=1),
            ),
            "film_distance": (
                ("film_name", "picture"),
                np.stack([seen[step][1] for step in shown], axis=1),
            ),
            "test_expert": ("test", np.full(10, 2)),
            "actions": (("action", "control"), rng.uniform(-1, 1, (NUM_ACTIONS, 6))),
        },
        coords={"policy": policies, "film_name": films, "picture_step": ("picture", shown)},
    )


def stored(path: Path, numbers, trace, arrays) -> Path:
    """A run directory of these, with nulls for what JSON has no word for."""
    path.mkdir()
    config = {"experiment": "half-cheetah", "preset": "quick", "settings": {"seed": 0}}
    (path / "config.json").write_text(json.dumps(config))
    (path / "versions.json").write_text("{}")
    contents._write_json(path / "results.json", numbers)
    trace.to_netcdf(path / "trace.nc", engine="h5netcdf")
    arrays.to_netcdf(path / "arrays.nc", engine="h5netcdf")
    return path


def read(numbers, trace, arrays) -> contents.Stored:
    """The same as it is read."""
    return contents.Stored(Path("run"), {}, {}, numbers, trace, arrays)


@pytest.fixture
def no_pictures(monkeypatch):
    """No time for MuJoCo's camera, as where there is no OpenGL."""
    monkeypatch.setattr(pictures, "photographs", lambda *_: None)


def as_mujoco_has_it(state, distance):
    import mujoco

    model = cheetah.model()
    data = mujoco.MjData(model)
    data.qpos[:] = [distance, *state[:8]]
    mujoco.mj_forward(model, data)
    ends = {}
    for name in (*TRUNK, *(limb.name for limb in LIMBS)):
        geom = model.geom(name)
        axis = geom.size[1] * data.geom(name).xmat.reshape(3, 3)[:, 2]
        ends[name] = np.stack([data.geom(name).xpos - axis, data.geom(name).xpos + axis])
    return ends


@pytest.mark.parametrize("seed", range(3))
def test_limbs_are_where_mujoco_has_them(seed):
    rng = np.random.default_rng(seed)
    state, distance = rng.uniform(-2, 2, cheetah.DIM), 3.7
    ours, theirs = cheetah_postures.capsule_ends(state, distance), as_mujoco_has_it(state, distance)
    assert list(ours) == list(theirs)
    for name, ends in theirs.items():
        np.testing.assert_allclose(ends[:, 1], 0, atol=1e-12)  # all in one plane
        np.testing.assert_allclose(ours[name], ends[:, [0, 2]], atol=1e-12)


def test_a_capsule_is_as_long_and_as_thick_as_the_model_says():
    outline = cheetah_postures.outline(np.array([0.0, 0.0]), np.array([0.3, 0.0]))
    np.testing.assert_allclose(np.ptp(outline[:, 1]), 2 * 0.046, rtol=0.02)
    np.testing.assert_allclose(np.ptp(outline[:, 0]), 0.3 + 2 * 0.046, rtol=0.02)


def test_accuracies_stand_beside_the_papers_and_unconverged_rows_are_marked():
    numbers = made_numbers()
    table = half_cheetah._accuracy_table(numbers)
    rows = {row[0]: dict(zip(table.titles[2:], row[2:], strict=True)) for row in table.rows}
    assert all(len(row) == len(table.titles) for row in table.rows)
    wide = rows["trace-class network 3 x 100 *"]
    assert (wide["largest R-hat"], wide["converged"]) == ("1.200", "2 of 3")
    samples = numbers["priors"]["tcnn-100"]["samples"]
    expected = f"{100 * samples['mean']:.1f} ± {100 * samples['error']:.1f}"
    assert wide["samples %"] == expected
    assert [row[3] for row in table.rows[:4]] == ["32.1", "-", "-", "20.1"]
    assert [row[5] for row in table.rows[:4]] == ["42.0", "-", "-", "25.0"]
    assert rows["chance"]["mean %"] == "12.5"
    assert rows["chance"]["log-score"] == "-2.08"
    assert rows["commonest action"]["samples %"] == "-"
    assert "cloning, forest" in rows
    assert "*" in notes_of(numbers)[0]
    (warning,) = half_cheetah.warnings(numbers)
    assert "3 x 100" in warning
    assert "1 of 3" in warning
    assert "1.200" in warning


def test_where_all_converge_there_is_no_mark_and_no_warning():
    numbers = made_numbers(unconverged=())
    assert half_cheetah.warnings(numbers) == []
    text = str([section_of(numbers, name) for name in ("accuracy", "paired", "distance")])
    assert "*" not in text
    assert "*" not in half_cheetah.headline(numbers)
    assert not any("*" in note for note in notes_of(numbers))


def page_of(numbers, trace=None, arrays=None):
    """The sections of a page, nothing of which is drawn."""
    priors = tuple(numbers["priors"])
    arrays = made_arrays(priors, num_steps=8) if arrays is None else arrays
    return half_cheetah.sections(read(numbers, trace or made_trace(priors), arrays))


def notes_of(numbers):
    return page_of(numbers)[0].notes


def section_of(numbers, name):
    return getattr(half_cheetah, f"_{name}_table")(numbers)


@pytest.mark.parametrize("impossible", [None, float("-inf")])
def test_a_choice_deemed_impossible_reads_as_minus_infinity(impossible):
    numbers = made_numbers()
    numbers["priors"]["kl-10"]["log_score"] = {"mean": impossible, "error": None, "each": []}
    numbers["clones"]["forest"]["log_score"] = {"mean": impossible, "error": None, "each": []}
    table = half_cheetah._accuracy_table(numbers)
    found = {row[0]: row[8] for row in table.rows}
    assert found["Fourier series k = 10"] == found["cloning, forest"] == "-inf"


def test_chains_that_never_moved_have_no_finite_rhat():
    numbers = made_numbers()
    numbers["priors"]["kl-10"]["rhat"][0] = None
    rows = {row[0]: row for row in half_cheetah._accuracy_table(numbers).rows}
    assert "inf" in rows["Fourier series k = 10"]


def test_one_data_set_has_no_errors_and_no_test():
    numbers = made_numbers(num_data_sets=1, unconverged=())
    texts = [str(section_of(numbers, name)) for name in ("accuracy", "paired", "distance")]
    assert not any("±" in text for text in texts)
    assert all(row[3:] == ("-", "-") for row in section_of(numbers, "paired").rows)
    assert "no test: one data set" in half_cheetah.headline(numbers)
    assert "one data set" in " ".join(notes_of(numbers))
    shares = half_cheetah._share_table(numbers, made_arrays(num_steps=8))
    assert "±" not in str(shares)
    assert [row[0] for row in shares.rows] == [str(n) for n in range(1, 9)]


@pytest.mark.parametrize(
    ("difference", "p_value", "said"),
    [
        (0.05, 0.01, "significantly better than Fourier series k = 10 (by 5.0 ± 1.0 points"),
        (-0.05, 0.0001, "significantly worse than Fourier series k = 10 (by 5.0 ± 1.0 points"),
        (0.05, 0.2, "not significantly better than Fourier series k = 10"),
        (-0.05, 0.2, "not significantly worse than Fourier series k = 10"),
    ],
)
def test_the_headline_says_in_which_direction_and_whether_it_may_be_chance(
    difference, p_value, said
):
    numbers = made_numbers(unconverged=())
    for pair in numbers["paired"]:
        if (pair["prior"], pair["beside"]) == ("tcnn-100", "kl-10"):
            pair |= {"difference": difference, "error": 0.01, "p_value": p_value}
    text = half_cheetah.headline(numbers)
    assert f"trace-class network 3 x 100 is {said}" in text
    assert "the commonest action" in text
    assert ("p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}") in text


def test_the_headline_marks_what_did_not_converge_and_does_not_round_the_level_away():
    numbers = made_numbers()
    for pair in numbers["paired"]:
        pair |= {"difference": 0.1, "error": 0.01, "p_value": 0.0497}
    text = half_cheetah.headline(numbers)
    assert "trace-class network 3 x 100 * is significantly better" in text
    assert "p = 0.04970" in text


@pytest.mark.parametrize("priors", [("kl-2",), ("tcnn-10",)])
def test_the_headline_of_priors_without_a_partner(priors):
    text = half_cheetah.headline(made_numbers(priors, unconverged=()))
    assert ("no trace-class network" in text) == (priors == ("kl-2",))
    assert "Fourier" not in text


def test_differences_and_distances_add_up():
    numbers = made_numbers()
    pair = numbers["paired"][0]
    row = section_of(numbers, "paired").rows[0]
    assert row[:2] == ("trace-class network 3 x 100 *", "commonest action")
    assert float(row[2]) == pytest.approx(100 * pair["difference"], abs=0.051)
    table = section_of(numbers, "distance")
    assert len(table.rows) == 3 * len(PRIORS) + len(CLONES) + 3
    shares = {row[0]: row[4] for row in table.rows}
    assert shares["discretised expert"] == "100"
    assert {row[1] for row in table.rows[:3]} == {"mean", "one draw per episode", "majority"}
    coverage = section_of(numbers, "coverage")
    assert coverage.rows[0] == ("first 4 states of 25 episodes", "3.2", "1.41", "0.90", "4", "2.5")


@pytest.mark.parametrize("edges", [box.SIMPLE, box.ASCII2])
def test_the_summary_fits_a_terminal_of_80_columns(edges):
    numbers = made_numbers(("tcnn-1000", "bnn-1000", "kl-100"), unconverged=(("tcnn-1000", 0),))
    for prior in numbers["priors"].values():
        prior["samples"] = prior["mean"] = {"mean": 0.4321, "error": 0.123, "each": []}
        prior["mean_distance"] = {"mean": 12.3, "error": 11.1, "each": []}
    table = half_cheetah.main_table(numbers)
    drawn = RichTable(box=edges)
    for title in table.titles:
        drawn.add_column(title, overflow="fold")
    for row in table.rows:
        drawn.add_row(*row)
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(drawn)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for row in table.rows:  # none is broken into two lines
        assert any(all(cell in line for cell in row) for line in lines)


def test_films_shown_are_few_and_the_largest_of_their_kind():
    films = pictures.films_of(made_arrays(num_steps=8))
    assert films == ["discretised expert", "tcnn-100", "kl-10", "random"]
    assert pictures.films_of(made_arrays(("bnn-10",), num_steps=8)) == [
        "discretised expert",
        "random",
    ]


@pytest.mark.long
def test_a_stored_run_has_its_figures_and_page_without_mujoco(
    tmp_path, no_pictures, monkeypatch, capfd
):
    numbers = made_numbers()
    numbers["priors"]["kl-10"]["log_score"]["mean"] = float("-inf")
    path = stored(tmp_path / "run", numbers, made_trace(), made_arrays())
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert render(path) == {}
    drawn = {file.name for file in (path / "figures").iterdir()}
    assert drawn == {"accuracy.png", "values.png", "distance.png", "episodes.png"}
    page = (path / "report.html").read_text()
    assert "-inf" in page
    assert "of different runs" not in page
    assert "cannot draw on this machine" in page
    assert "Warning: trace-class network 3 x 100: the chains did not agree on 1 of 3" in page
    assert page.count("<img") == 4
    table, headline, warnings = terminal_summary(path)
    assert table.rows[0][0].endswith("*")
    assert headline in page.replace("&lt;", "<")
    # Nobody but the program itself sums the files of a run.
    assert ["no checksums" in text for text in warnings] == [False, True]
    assert capfd.readouterr() == ("", "")


def test_draws_and_data_of_different_runs_are_told_and_not_drawn(tmp_path):
    numbers, trace, arrays = made_numbers(), made_trace(), made_arrays(num_steps=8)
    assert "of different runs" not in " ".join(page_of(numbers, trace, arrays)[0].notes)
    arrays["test_expert"][0] = 5  # the draws are centred at 2
    section = page_of(numbers, trace, arrays)[0]
    assert "chains and data are of different runs" in section.notes[0]
    assert [figure.name for figure in section.figures] == ["accuracy.png"]


def test_one_prior_and_one_data_set_are_drawn_too(tmp_path, no_pictures):
    numbers = made_numbers(("kl-2",), 1, unconverged=())
    path = stored(tmp_path / "run", numbers, made_trace(("kl-2",)), made_arrays(("kl-2",)))
    render(path)
    assert len(list((path / "figures").iterdir())) == 4


@pytest.mark.long
def test_mujoco_takes_pictures_or_says_nothing(tmp_path, capfd):
    arrays = made_arrays(("kl-2",), num_steps=8).isel(picture=slice(2))
    try:
        pictures.draw_photographs(tmp_path / "mujoco.png", read({}, None, arrays))
    except LeftOut:
        pytest.skip("no OpenGL here")
    finally:
        assert capfd.readouterr() == ("", "")
    assert (tmp_path / "mujoco.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("trouble", ["no MuJoCo", "no OpenGL", "too slow", "no such program"])
def test_without_mujoco_or_opengl_there_are_no_pictures_and_no_noise(
    trouble, tmp_path, monkeypatch, capfd
):
    if trouble == "no MuJoCo":
        (tmp_path / "mujoco.py").write_text("raise ModuleNotFoundError('mujoco')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    elif trouble == "no OpenGL":
        monkeypatch.setenv("MUJOCO_GL", "nonsense")
    elif trouble == "too slow":
        monkeypatch.setattr(cheetah_postures, "_PATIENCE", 0.01)
    else:
        monkeypatch.setattr("sys.executable", str(tmp_path / "absent"))
    stale = tmp_path / "mujoco.png"
    stale.write_bytes(b"of an earlier report")
    stored = read({}, None, made_arrays(num_steps=8))
    figure = Figure("mujoco.png", "", partial(pictures.draw_photographs, stored=stored))
    drawn, error = draw(figure, tmp_path)
    assert error is None
    assert "cannot draw on this machine" in drawn.missing
    assert not stale.exists()
    assert capfd.readouterr() == ("", "")
