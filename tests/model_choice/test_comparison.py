"""Models side by side: what is computed, in which order, and what is said where it cannot be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import cosine_prior, linear_gaussian
from scipy.stats import multivariate_normal, norm

import traceclass as tc

pytestmark = pytest.mark.xdist_group("compare")
X = np.linspace(0.0, 2.5, 8)[:, None]
X_NEW = np.array([[0.2], [1.1], [1.9], [2.4]])
Y_NEW = np.sin(2 * X_NEW[:, 0]) + 0.1
LEVELS = (0.1, 0.3, 1.0)


def leverages(noise: float) -> np.ndarray:
    """h_i = a_i' C a_i / noise^2: from 1/2 on, weights 1 / p(y_i | z) have no variance."""
    posterior, _, covariance = linear_gaussian(noise)
    a = np.asarray(posterior.values_of.basis, dtype=np.float64)
    return np.sum((a @ covariance) * a, axis=1) / noise**2


def exact(noise: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-evidence, and log p(y | the others) and log p(y* | y) of each observation."""
    prior = cosine_prior()
    a, new = (np.asarray(prior.at(x).basis, dtype=np.float64) for x in (X, X_NEW))
    y = np.sin(2 * X[:, 0])
    covariance = a @ a.T + noise**2 * np.eye(8)
    inverse = np.linalg.inv(covariance)
    # Leave-one-out of a Gaussian: y_i - (K^-1 y)_i / K^-1_ii, variance 1 / K^-1_ii.
    left_out = norm.logpdf((inverse @ y) / np.diag(inverse), scale=np.diag(inverse) ** -0.5)
    mean = new @ a.T @ inverse @ y
    spread = np.sum((new - new @ a.T @ inverse @ a) * new, axis=1) + noise**2
    predicted = norm.logpdf(Y_NEW, mean, np.sqrt(spread))
    return multivariate_normal(np.zeros(8), covariance).logpdf(y), left_out, predicted


class Regression(tc.GaussianRegression):
    """With the noise as an array, so that one program samples at all levels."""

    noise: jax.Array

    def __init__(self, x, y, *, noise):
        super().__init__(x, y, noise=noise)
        self.noise = jnp.asarray(noise)


@pytest.fixture(scope="module")
def runs():
    kernel = tc.tempered(tc.hmc, num_temperatures=8)
    settings = {"num_warmup": 600, "num_samples": 800, "progress": False}
    likelihoods = {noise: Regression(X, np.sin(2 * X[:, 0]), noise=noise) for noise in LEVELS}
    return {
        f"noise {noise:g}": tc.sample(tc.Posterior(cosine_prior(), likelihood), kernel, **settings)
        for noise, likelihood in likelihoods.items()
    }


def test_scores_are_those_of_the_closed_form(runs):
    held_out = {
        f"noise {noise:g}": tc.GaussianRegression(X_NEW, Y_NEW, noise=noise) for noise in LEVELS
    }
    comparison = tc.compare(runs, held_out=held_out)
    for model in comparison.models:
        noise = float(model.name.removeprefix("noise "))
        evidence, left_out, predicted = exact(noise)
        assert abs(model.log_evidence.value - evidence) < 3.5 * model.log_evidence.error
        assert model.held_out.value == pytest.approx(predicted.mean(), abs=0.05)
        assert model.held_out.error == pytest.approx(predicted.std(ddof=1) / 2, rel=0.3)
        if leverages(noise).max() < 0.5:
            assert model.num_influential == 0
            assert model.elpd_loo.value == pytest.approx(left_out.sum(), abs=0.15)
    table = comparison.table
    assert table["log_evidence"].is_monotonic_decreasing
    assert table["probability"].sum() == pytest.approx(1)
    exact_levels = np.array([exact(float(n.removeprefix("noise ")))[0] for n in table.index])
    assert table.index[0] == table.index[int(np.argmax(exact_levels))]
    assert leverages(1.0).max() < 0.5


def test_a_table_of_80_columns_and_a_plot(runs, tmp_path):
    comparison = tc.compare(runs)
    lines = str(comparison).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["model", "log-evidence", "held", "out", "LOO"]
    comparison.plot(tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_not_known_is_said():
    plain = tc.sample(
        linear_gaussian()[0], tc.pcn, step_size=0.4, num_warmup=0, num_samples=8,
        store_positions=False, progress=False,
    )  # fmt: skip
    text = str(tc.compare({"mine": plain}))
    assert "no evidence, because it was sampled without tc.tempered" in text
    assert "without its stored positions" in text
    assert np.isnan(tc.compare({"mine": plain}).table["log_evidence"].iloc[0])


def test_a_likelihood_without_single_observations_has_its_evidence_all_the_same():
    likelihood = tc.Likelihood(X, lambda v: -jnp.sum(v**2))
    run = tc.sample(
        tc.Posterior(cosine_prior(), likelihood), tc.tempered(tc.pcn, schedule=(1, 0.1, 0)),
        step_size=0.4, num_warmup=0, num_samples=20, progress=False,
    )  # fmt: skip
    (model,) = tc.compare({"mine": run}).models
    assert np.isfinite(model.log_evidence.value)
    assert np.isnan(model.elpd_loo.value)
    assert any("no LOO" in note for note in model.notes)


def test_what_cannot_be_compared_is_refused(runs):
    with pytest.raises(ValueError, match="at least one run"):
        tc.compare({})
    with pytest.raises(ValueError, match=r"no data for 'noise 0\.3'"):
        tc.compare(runs, held_out={"noise 0.1": tc.GaussianRegression(X_NEW, Y_NEW, noise=1.0)})
    with pytest.raises(TypeError, match="log_prob_each"):
        tc.compare(runs, held_out=X_NEW)


@pytest.mark.long
def test_the_evidence_by_smc_agrees():
    """BlackJAX's adaptive tempered SMC with our pCN, against the closed form."""
    posterior, _, _ = linear_gaussian()
    found = tc.smc_evidence(posterior, tc.pcn, num_particles=1_000, num_repeats=6)
    assert found.each.shape == (6,)
    assert found.standard_error < 0.15
    assert abs(found.log_evidence - exact(0.3)[0]) < 3.5 * max(found.standard_error, 0.02)


@pytest.mark.long
def test_smc_says_when_particles_do_not_arrive():
    """Half of the prior makes the data impossible."""
    likelihood = tc.Likelihood(X, lambda v: jnp.where(v[0] > 0, 0.0, -jnp.inf))
    with pytest.raises(ValueError, match="did not reach the posterior"):
        tc.smc_evidence(
            tc.Posterior(cosine_prior(), likelihood), tc.pcn, num_particles=50, num_repeats=2,
            num_moves=2,
        )  # fmt: skip


def test_smc_evidence_refuses_what_it_cannot_tune():
    posterior, _, _ = linear_gaussian()
    with pytest.raises(TypeError, match="with a step size"):
        tc.smc_evidence(posterior, tc.elliptical_slice)
    with pytest.raises(ValueError, match="target_ess"):
        tc.smc_evidence(posterior, tc.pcn, target_ess=1.5)
