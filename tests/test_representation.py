"""What objects say of themselves: short, without arrays, and escaped in a notebook."""

from __future__ import annotations

import numpy as np
import pytest
from linear import linear_gaussian

import traceclass as tc
from traceclass.representation import as_table, in_words

X = np.linspace(0, 1, 6)[:, None]
NETWORK = tc.TraceClassNetwork(num_inputs=1, widths=(4, 4), alpha=2.5)
SERIES = tc.CosineSeries(num_modes=5, exponent=1.1)
PRIORS = [
    NETWORK,
    tc.IidNetwork(num_inputs=1, widths=(4,), inputs=tc.scale_to_box([0.0], [2.0])),
    tc.FourierSeries(num_inputs=2, max_frequency=7, alpha=2.0),
    SERIES,
    tc.Reduced(SERIES, np.linspace(0.1, 0.9, 8).reshape(4, 2)),
    tc.Series(lambda x: np.ones((len(x), 20)), 1 / np.arange(1.0, 21.0) ** 2, num_inputs=1),
    tc.Hyper(NETWORK, noise=tc.LogNormal(median=0.1, sigma=0.5)),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_a_prior_is_one_line(prior):
    text = repr(prior)
    assert text.startswith(type(prior).__name__)
    assert "\n" not in text
    assert len(text) < 400
    assert type(prior).__name__ in prior._repr_html_()


def test_a_posterior_names_prior_likelihood_and_temperature():
    posterior = tc.Posterior(NETWORK, tc.GaussianRegression(X, X[:, 0], noise=0.3))
    assert "alpha=2.5" in repr(posterior)
    assert "GaussianRegression at 6 points" in repr(posterior)
    assert "inverse_temperature=0.25" in repr(posterior.tempered(0.25))
    assert "\n" not in repr(posterior)
    assert "<table>" in posterior._repr_html_()


@pytest.mark.long
def test_a_run_is_at_most_six_short_lines(tmp_path):
    posterior, _, _ = linear_gaussian()
    settings = {"num_warmup": 0, "num_samples": 6, "step_size": 0.2, "progress": False}
    memory = tc.sample(posterior, tc.tempered(tc.pcn, schedule=(1, 0.5, 0.2, 0)), **settings)
    stored = tc.sample(posterior, tc.pcn, store=tmp_path / "<run>", store_positions=3, **settings)
    bare = tc.sample(posterior, tc.pcn, store_positions=False, **settings)
    for run in (memory, stored, bare):
        assert len(repr(run).splitlines()) <= 6
        assert len(repr(run)) < 500
        assert "4 chains x 6 draws" in repr(run)
    assert "every draw, 6 coordinates, in memory" in repr(memory)
    assert f"2 draws per chain, 6 coordinates, in {tmp_path / '<run>'}" in repr(stored)
    assert "positions   not stored" in repr(bare)
    assert "&lt;run&gt;" in stored._repr_html_()


def test_a_large_store_is_not_read_for_a_repr(tmp_path, monkeypatch):
    posterior, _, _ = linear_gaussian()
    settings = {"num_warmup": 0, "num_samples": 6, "step_size": 0.2, "progress": False}
    tc.sample(posterior, tc.pcn, store=tmp_path / "run", **settings)
    monkeypatch.setattr("traceclass.sampling.run._FEW_BYTES", 0)
    run = tc.open_run(tmp_path / "run")
    assert "not read yet" in repr(run)
    assert "tally" not in vars(run)


def test_words_and_tables():
    assert in_words(np.zeros((3, 2), np.float32)) == "float32[3, 2]"
    assert in_words((1.0, 2)) == "(1, 2)"
    assert in_words(np.sin) == "sin"
    assert "&lt;b&gt;" in as_table("x", {"a": "<b>"})
