"""A linear expert: its two policies by brute force, its files, and what it refuses."""

from __future__ import annotations

import dataclasses
import pickle

import jaxtyping
import numpy as np
import pytest

from traceclass.control.linear_expert import LinearExpert, load_expert

NAMES = ("weights", "mean", "scale", "actions")


@pytest.fixture
def expert() -> LinearExpert:
    rng = np.random.default_rng(0)
    return LinearExpert(
        rng.normal(size=(6, 17)) * 0.2,
        rng.normal(size=17),
        rng.uniform(0.5, 2, 17),
        rng.uniform(-1, 1, (8, 6)),
        {"method": "by hand", "settings": {"noise": 0.03}},
    )


@pytest.fixture
def unchecked(monkeypatch):
    """As users have it: without the types checked at run time, which would speak first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def test_the_nearest_action_by_brute_force(expert):
    states = np.random.default_rng(1).normal(size=(200, 17)) * 3
    for state, chosen in zip(states, expert.nearest(states), strict=True):
        control = expert.weights @ ((state - expert.mean) / expert.scale)
        control = np.minimum(np.maximum(control, -1), 1)
        gaps = [np.linalg.norm(action - control) for action in expert.actions]
        assert gaps[chosen] == min(gaps)
    assert len(np.unique(expert.nearest(states))) > 3
    assert expert.num_actions == 8


def test_any_batch_of_states(expert):
    states = np.random.default_rng(1).normal(size=(2, 3, 17))
    flat = states.reshape(-1, 17)
    np.testing.assert_array_equal(expert.nearest(states).ravel(), expert.nearest(flat))
    np.testing.assert_allclose(expert.controls(states).reshape(6, 6), expert.controls(flat))


def test_controls_are_linear_until_they_saturate(expert):
    """u(m + s t d) = t u(m + s d) while small, and within [-1, 1] at any size; zero at the mean."""
    direction = np.random.default_rng(2).normal(size=17)
    near = expert.scale * direction * 1e-3
    np.testing.assert_allclose(expert.controls(expert.mean), np.zeros(6), atol=1e-15)
    np.testing.assert_allclose(
        expert.controls(expert.mean + 2 * near), 2 * expert.controls(expert.mean + near), rtol=1e-9
    )
    np.testing.assert_allclose(
        expert.controls(expert.mean - near), -expert.controls(expert.mean + near), rtol=1e-9
    )
    far = expert.controls(expert.mean + 1e9 * near)
    np.testing.assert_array_equal(far, np.sign(expert.weights @ direction))


def test_comes_back_from_its_files_as_it_was(expert, tmp_path):
    expert.save(tmp_path / "a" / "b")
    names = {file.name for file in (tmp_path / "a" / "b").iterdir()}
    assert names == {*(f"{name}.npy" for name in NAMES), "provenance.json"}
    back = load_expert(tmp_path / "a" / "b")
    for name in NAMES:
        np.testing.assert_array_equal(getattr(back, name), getattr(expert, name))
    assert back.provenance == expert.provenance


@pytest.mark.parametrize("name", NAMES)
def test_a_pickle_is_refused_and_not_run(name, expert, tmp_path):
    """An array file of objects, whose unpickling would make a file."""
    made = tmp_path / "was-run"

    class Malicious:
        def __reduce__(self):
            return (open, (str(made), "w"))

    expert.save(tmp_path)
    np.save(tmp_path / f"{name}.npy", np.array([Malicious()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=rf"{name}\.npy is no array of an expert") as error:
        load_expert(tmp_path)
    assert "\n" not in str(error.value)
    (tmp_path / f"{name}.npy").write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(ValueError, match=rf"{name}\.npy is no array of an expert"):
        load_expert(tmp_path)
    assert not made.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_or_cut_off_file_is_named(name, expert, tmp_path):
    expert.save(tmp_path)
    file = tmp_path / f"{name}.npy"
    whole = file.read_bytes()
    for content in (b"", whole[:20], whole[:-8]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}\.npy is no array of an expert"):
            load_expert(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match=rf"{name}\.npy is no array .*No such file"):
        load_expert(tmp_path)


@pytest.mark.parametrize("text", [None, "", "{", "[1, 2]", "3"])
def test_an_expert_says_where_it_comes_from(text, expert, tmp_path):
    expert.save(tmp_path)
    (tmp_path / "provenance.json").unlink()
    if text is not None:
        (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(ValueError, match=r"provenance\.json does not say where the expert comes"):
        load_expert(tmp_path)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("weights", np.zeros(17), "real numbers in 2 dimensions, got float64 of shape"),
        ("weights", np.zeros((6, 17), complex), "real numbers in 2 .* got complex128"),
        ("weights", np.zeros((6, 17), int), "real numbers in 2 .* got int64"),
        ("mean", np.zeros((17, 1)), "real numbers in 1 dimensions"),
        ("weights", np.zeros((6, 16)), r"\(6, 16\) needs mean of shape \(16,\), got \(17,\)"),
        ("mean", np.zeros(16), r"needs mean of shape \(17,\), got \(16,\)"),
        ("scale", np.ones(18), r"needs scale of shape \(17,\), got \(18,\)"),
        ("actions", np.zeros((8, 5)), r"needs actions of shape \(8, 6\), got \(8, 5\)"),
        ("scale", np.zeros(17), r"scale must be positive, got 0\.0"),
        ("weights", np.full((6, 17), np.nan), "weights must be finite, got nan"),
        ("actions", np.full((8, 6), np.inf), "actions must be finite, got inf"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, array, message, expert, tmp_path):
    expert.save(tmp_path)
    np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(ValueError, match=message) as error:
        load_expert(tmp_path)
    assert "\n" not in str(error.value)


def test_replaced_parts_are_checked_too(expert):
    with pytest.raises(ValueError, match=r"scale must be positive, got -1\.0"):
        dataclasses.replace(expert, scale=-np.ones(17))
