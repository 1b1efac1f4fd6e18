"""Chains that do not mix, weighed by how well they predict."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import linear_gaussian

import traceclass as tc
from traceclass.model_choice import stacking
from traceclass.model_choice.comparison import elpd_of

X = np.linspace(0, 2.5, 30)[:, None]


@pytest.fixture(scope="module")
def run() -> tc.Run:
    posterior, _, _ = linear_gaussian()
    return tc.sample(posterior, tc.hmc, num_warmup=400, num_samples=200, progress=False)


def with_chain(run: tc.Run, chain: int, shift: float) -> tc.Run:
    """The run with one chain somewhere else."""
    positions = run.positions.copy()
    positions[chain, :, 0] += shift
    return dataclasses.replace(run, recorded=dict(run.recorded) | {"position": positions})


def test_a_chain_that_is_far_off_gets_no_weight(run):
    found = with_chain(run, 2, 5.0).stack()
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.weights[2] < 1e-6
    assert found.elpd[2] < found.elpd[0] - 100
    assert "chain 2: weight 0.000" in str(found)


def test_predictions_are_those_of_the_chains_with_weight(run):
    astray = with_chain(run, 2, 5.0)
    good = dataclasses.replace(
        run,
        num_chains=3,
        recorded=dict(run.recorded) | {"position": run.positions[[0, 1, 3]]},
    )
    # Of 600 draws, these quantiles lie between two steps.
    probabilities = (0.0508, 0.5008, 0.9508)
    got = astray.predict(X, probabilities, weights=np.array([1.0, 1.0, 0.0, 1.0]))
    want = good.predict(X)
    np.testing.assert_allclose(got.mean, want.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.sd, want.sd, rtol=2e-3)
    values = jax.vmap(run.posterior.prior.at(X))(good.flat_positions())
    quantiles = np.quantile(values, probabilities, axis=0, method="inverted_cdf")
    np.testing.assert_allclose(got.quantiles, quantiles, rtol=1e-5, atol=1e-6)
    # Without weights the chain that is astray is averaged in.
    assert np.abs(astray.predict(X).mean - want.mean).max() > 1.0
    stacked = astray.predict(X, weights=astray.stack())
    assert np.abs(stacked.mean - want.mean).max() < 0.1


def test_where_tails_have_no_fit_plain_importance_weights_are_taken(run, monkeypatch):
    """One observation of every chain; the others keep the scores they have."""

    def without_a_fit(posterior, positions):
        found = elpd_of(posterior, positions)
        scores = np.array(found.elpd_i)
        scores[3] = np.nan
        found.elpd_i, found.elpd = found.elpd_i.copy(data=scores), np.nan
        return found

    each = [elpd_of(run.posterior, chain[None]) for chain in jnp.asarray(run.positions)]
    monkeypatch.setattr(stacking, "elpd_of", without_a_fit)
    found = run.stack()
    assert found.num_influential >= run.num_chains
    for elpd, known, chain in zip(found.elpd, each, run.positions, strict=True):
        level = jax.vmap(run.posterior.log_likelihood_each)(chain)[:, 3]
        plain = -np.log(np.mean(np.exp(-np.asarray(level, dtype=np.float64))))
        assert elpd == pytest.approx(known.elpd - float(known.elpd_i[3]) + plain, abs=1e-3)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, -1.0, 1.0], [0.0] * 4, [np.nan] * 4])
def test_weights_that_cannot_be_are_refused(run, weights):
    with pytest.raises(tc.UserError, match="weights must hold one number"):
        run.predict(X, weights=np.array(weights))


def test_a_likelihood_without_single_observations_is_refused():
    prior = linear_gaussian()[0].prior
    whole = tc.Likelihood(X[:4], lambda values: -0.5 * jnp.sum(values**2))
    run = tc.sample(
        tc.Posterior(prior, whole), tc.pcn, step_size=0.5, num_warmup=0, num_samples=20,
        progress=False,
    )  # fmt: skip
    with pytest.raises(tc.UserError, match="log_prob_each"):
        run.stack()
