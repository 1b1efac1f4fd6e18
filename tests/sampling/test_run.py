"""What a run says of itself: summary, ArviZ, predictions, stuck chains."""

from __future__ import annotations

import dataclasses

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import linear_gaussian

import traceclass as tc


@pytest.fixture(scope="module")
def run() -> tc.Run:
    posterior, _, _ = linear_gaussian()
    return tc.sample(
        posterior, tc.pcn, step_size=0.5, num_chains=4, num_warmup=200, num_samples=300, thin=5,
        record={"ends": lambda z: z[jnp.array([0, -1])]}, progress=False,
    )  # fmt: skip


def test_summary_is_arviz_plus_what_it_lacks(run):
    summary = run.summary()
    table = summary.table
    assert list(table.index) == ["ends[0]", "ends[1]", "log_likelihood"]
    direct = arviz_stats.summary(run.to_arviz(), round_to="none")
    np.testing.assert_allclose(table["ess_bulk"], direct["ess_bulk"])
    np.testing.assert_allclose(table["r_hat"], direct["r_hat"])
    np.testing.assert_allclose(table["ess_per_second"] * run.sampling_seconds, table["ess_bulk"])
    assert summary.stuck_chains == ()
    assert "acceptance rate by chain" in str(summary)
    assert run.sampling_seconds > 0


def test_a_chain_that_never_moved_is_reported(run):
    accepted = run.tally.accepted.copy()
    accepted[2] = 0
    recorded = dict(run.recorded) | {"tally/accepted": accepted}
    stuck = dataclasses.replace(run, recorded=recorded)
    summary = stuck.summary()
    assert summary.stuck_chains == (2,)
    assert np.isinf(summary.table["r_hat"]).all()
    assert summary.table["ess_bulk"].isna().all()
    assert "chain 2 never moved in 1500 steps" in str(summary)


def test_chains_that_disagree_are_warned_of(run):
    shifted = run.draws["ends"].copy()
    shifted[0] += 10
    apart = dataclasses.replace(run, recorded=dict(run.recorded) | {"ends": shifted})
    assert "the chains have not mixed" in str(apart.summary())


def test_arviz_tree_holds_draws_and_statistics(run):
    tree = run.to_arviz()
    assert tree["posterior"]["ends"].shape == (4, 300, 2)
    np.testing.assert_array_equal(tree["sample_stats"]["acceptance_rate"], run.acceptance)
    assert tree["sample_stats"].attrs["step_size"] == 0.5


def test_predict_is_over_all_draws(run):
    x = np.linspace(0, 2, 7)[:, None]
    values = jax.vmap(run.posterior.prior.at(jnp.asarray(x)))(jnp.asarray(run.flat_positions()))
    values = np.asarray(values, dtype=float)
    prediction = run.predict(x, quantiles=(0.1, 0.9))
    np.testing.assert_allclose(prediction.mean, values.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(prediction.sd, values.std(axis=0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(
        prediction.quantiles, np.quantile(values, (0.1, 0.9), axis=0), rtol=1e-5
    )
    np.testing.assert_allclose(run.mean_function()(jnp.asarray(x)), prediction.mean, rtol=1e-4)


def test_predict_in_batches_of_points_is_the_same(run, monkeypatch):
    x = np.linspace(0, 2, 7)[:, None]
    whole = run.predict(x)
    monkeypatch.setattr("traceclass.sampling.run._MAX_VALUES", 3 * 1200)
    for part, expected in zip(run.predict(x), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-5)


def test_posterior_mean_covers_the_closed_form(run):
    """The exact mean function lies within 5 Monte Carlo standard errors of the estimate."""
    _, mean, _ = linear_gaussian()
    ends = run.summary().table.loc[["ends[0]", "ends[1]"]]
    assert (np.abs(ends["mean"] - mean[[0, -1]]) < 5 * ends["mcse_mean"]).all()
