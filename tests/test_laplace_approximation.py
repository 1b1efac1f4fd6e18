"""The Laplace reference: exact where the posterior is Gaussian, and never a bias elsewhere."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from cells import any_reference
from linear import linear_gaussian

import traceclass as tc
from traceclass.kernels.reference import _InCoordinates
from traceclass.kernels.states import GradientState, State
from traceclass.laplace_approximation import _hessian

# One function for all tests: programs of posteriors of the same shapes are compiled once.
level_and_gradient = eqx.filter_jit(tc.Posterior.log_likelihood_and_gradient)
levels_and_gradients = eqx.filter_jit(
    jax.vmap(tc.Posterior.log_likelihood_and_gradient, in_axes=(None, 0))
)


# The program of a run has room for as many draws as a chunk: runs of pCN by one reference share it,
# however long they are.
IN_CHUNKS = {"chunk_size": 100, "progress": False}


@functools.cache
def reference_of_linear_gaussian() -> tc.Reference:
    """Of all six directions."""
    return tc.laplace(linear_gaussian()[0])


def normals(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def covariance_of(reference: tc.Reference) -> np.ndarray:
    vectors = np.asarray(reference.vectors, dtype=np.float64)
    precision = np.eye(len(vectors)) + vectors * np.asarray(reference.eigenvalues) @ vectors.T
    return np.linalg.inv(precision)


def test_it_is_the_posterior_of_a_linear_gaussian_model():
    _, mean, covariance = linear_gaussian()
    reference = reference_of_linear_gaussian()
    np.testing.assert_allclose(reference.mean, mean, atol=2e-4)
    np.testing.assert_allclose(covariance_of(reference), covariance, atol=1e-5)


def test_by_the_posterior_itself_every_proposal_is_accepted():
    """l + phi is constant, so pCN with beta = 1 makes independent draws of the posterior."""
    posterior, mean, covariance = linear_gaussian()
    kernel = tc.pcn.using(reference=reference_of_linear_gaussian())
    run = tc.sample(
        posterior, kernel, step_size=1.0, num_chains=4, num_warmup=0, num_samples=2_000, thin=1,
        **IN_CHUNKS,
    )  # fmt: skip
    assert run.acceptance_rate > 0.995
    draws = run.flat_positions()
    # 6 means and 21 covariances of 8,000 independent draws: 5 standard errors, alarm below 2e-5.
    errors = np.sqrt(np.diag(covariance) / len(draws))
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * errors).all()
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2)
    assert (np.abs(np.cov(draws.T) - covariance) < 5 * spread / np.sqrt(len(draws))).all()


def network_posterior(likelihood: str) -> tc.Posterior:
    prior = tc.TraceClassNetwork(num_inputs=2, widths=(6,), alpha=1.5)
    x = np.random.default_rng(0).uniform(size=(16, 2))
    if likelihood == "regression":
        return tc.Posterior(prior, tc.GaussianRegression(x, np.sin(5 * x[:, 0]), noise=0.3))
    return tc.Posterior(prior, tc.ActionChoice(x.reshape(8, 2, 2), np.arange(8) % 2, noise=0.5))


def second_differences(posterior: tc.Posterior, z: jax.Array, step: float = 1e-5) -> np.ndarray:
    """The Hessian of the log-likelihood, by central differences of its gradient."""
    z, unit_vectors = np.asarray(z), np.eye(len(z))
    ahead, behind = (
        np.stack([level_and_gradient(posterior, z + h * e)[1] for e in unit_vectors])
        for h in (step, -step)
    )
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize(
    "likelihood", by_night(["regression", "action choice"], long=["action choice"])
)
def test_the_leading_eigenvalues_are_those_of_the_whole_hessian(likelihood, x64):
    posterior = network_posterior(likelihood)
    reference = tc.laplace(posterior, rank=12)
    m = reference.mean
    slope = m - np.asarray(level_and_gradient(posterior, m)[1])
    assert np.abs(slope).max() < 1e-3  # the MAP point
    if likelihood == "regression":
        # Of regression, the values themselves.
        predicted = jax.jit(lambda z: jax.jacobian(posterior.values_of)(z))(m)
        jacobian = np.asarray(predicted) / posterior.likelihood.noise
        hessian = jacobian.T @ jacobian
    else:
        hessian = -second_differences(posterior, m)
    expected = np.linalg.eigvalsh(hessian)[::-1]
    kept = len(reference.eigenvalues)
    np.testing.assert_allclose(reference.eigenvalues, expected[:kept], rtol=1e-4, atol=1e-6)
    assert kept == 12 or expected[kept] <= 0.0101
    vectors = np.asarray(reference.vectors)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(kept), atol=1e-10)


def test_where_the_noise_is_inferred_the_hessian_holds_its_slopes(x64):
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(2,))
    hyper = tc.Hyper(prior, noise=tc.LogNormal(median=0.1, sigma=0.5))
    x = np.linspace(0, 1, 4)[:, None]
    posterior = tc.Posterior(hyper, tc.GaussianRegression(x, np.sin(5 * x[:, 0]), noise=0.3))
    z = normals(hyper.num_coordinates)
    expected = -jax.jit(lambda z: jax.hessian(posterior.log_likelihood)(z))(z)
    np.testing.assert_allclose(_hessian(posterior)(z, np.eye(len(z))), expected, rtol=1e-8)


def test_a_tempered_posterior_has_its_own_reference(x64):
    posterior, _, _ = linear_gaussian()
    warm = tc.laplace(posterior.tempered(0.25))
    full = tc.laplace(posterior)
    shown = min(len(warm.eigenvalues), len(full.eigenvalues))
    np.testing.assert_allclose(warm.eigenvalues[:shown], 0.25 * full.eigenvalues[:shown], rtol=1e-6)


def test_too_small_a_rank_is_warned_of():
    posterior, _, _ = linear_gaussian()
    with pytest.warns(UserWarning, match="beyond the 2 kept"):
        reference = tc.laplace(posterior, rank=2)
    assert reference.eigenvalues.shape == (2,)


def test_a_search_that_ends_early_is_ended_by_newton_steps(monkeypatch):
    """Far from the highest point the full steps of a first curvature lead nowhere."""
    posterior = network_posterior("regression")
    far = {"start": 3 * normals(posterior.prior.num_coordinates), "max_iterations": 1}
    m = tc.laplace(posterior, **far).mean  # a warning would be an error
    ends = (jnp.asarray(far["start"], dtype=m.dtype), m)
    first, last = (np.linalg.norm(z - level_and_gradient(posterior, z)[1]) for z in ends)
    assert last < 0.01 * first
    monkeypatch.setattr("traceclass.laplace_approximation._ROUNDS", 1)
    with pytest.warns(UserWarning, match="the MAP point was not reached"):
        tc.laplace(posterior, **far)


def test_coordinates_and_positions_undo_each_other(x64):
    reference = any_reference(20)
    z, other = normals(2, 20)

    @eqx.filter_jit
    def evaluated(reference, z, other):
        back = reference.position(reference.coordinates(z))
        phis = reference.phi(z), reference.phi(other)
        slopes = jax.grad(reference.phi)(z), reference.phi_gradient(z)
        return back, jax.jacobian(reference.position)(z), phis, slopes

    back, root, phis, slopes = jax.tree.map(np.asarray, evaluated(reference, z, other))
    np.testing.assert_allclose(back, z, atol=1e-12)
    covariance = covariance_of(reference)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)
    # phi is the log-ratio of the prior and the reference.
    ratio = [
        -0.5 * v @ v + 0.5 * (v - m) @ np.linalg.solve(covariance, v - m)
        for v, m in ((np.asarray(v), np.asarray(reference.mean)) for v in (z, other))
    ]
    assert phis[0] - phis[1] == pytest.approx(ratio[0] - ratio[1])
    np.testing.assert_allclose(*slopes, atol=1e-12)


def test_the_gradient_in_the_reference_coordinates_is_that_of_the_level(x64):
    posterior = network_posterior("regression")
    target = _InCoordinates(posterior, any_reference(posterior.prior.num_coordinates))
    zeta = normals(posterior.prior.num_coordinates)
    level, gradient = eqx.filter_jit(target.log_likelihood_and_gradient)(zeta)
    expected = jax.jit(lambda z: jax.value_and_grad(target.log_likelihood)(z))(zeta)
    assert float(level) == pytest.approx(float(expected[0]))
    np.testing.assert_allclose(gradient, expected[1], atol=1e-9)


def test_hmc_by_the_posterior_itself_has_no_energy_error():
    posterior, _, _ = linear_gaussian()
    kernel = tc.hmc.using(reference=reference_of_linear_gaussian(), num_kicks=1)
    run = tc.sample(posterior, kernel, step_size=1.5, num_warmup=0, num_samples=100, progress=False)
    assert run.acceptance_rate > 0.995


@pytest.mark.parametrize(
    "kernel",
    by_night([tc.pcn, tc.pcnl, tc.hmc, tc.elliptical_slice, tc.mala], long=[tc.pcnl, tc.mala]),
)
def test_states_stay_those_of_the_posterior(kernel):
    """Position, log-likelihood and gradient belong together after every step, and rejections
    leave all bits as they are."""
    posterior = network_posterior("regression")
    reference = any_reference(posterior.prior.num_coordinates)
    size = {"pcn": 0.1, "pcnl": 0.003, "hmc": 0.05, "mala": 0.08}.get(kernel.name)
    algorithm = kernel.using(reference=reference)(posterior, size)
    start = normals(posterior.prior.num_coordinates)

    @jax.jit
    def walk(start):
        def one(state, key):
            moved, info = algorithm.step(key, state)
            return moved, (moved, info.is_accepted)

        keys = jax.random.split(jax.random.key(1), 60)
        return jax.lax.scan(one, algorithm.init(start), keys)[1]

    states, accepted = walk(start)
    assert 0 < np.mean(accepted) <= 1
    levels, gradients = levels_and_gradients(posterior, states.position)
    np.testing.assert_allclose(states.log_likelihood, levels, rtol=1e-4, atol=1e-4)
    if isinstance(states, GradientState):
        np.testing.assert_allclose(states.gradient, gradients, rtol=1e-3, atol=2e-3)
    else:
        assert isinstance(states, State)
    stayed = ~np.asarray(accepted)[1:]
    np.testing.assert_array_equal(
        np.asarray(states.position)[1:][stayed], np.asarray(states.position)[:-1][stayed]
    )


def test_a_reference_of_no_eigenvalues_at_zero_is_the_prior():
    posterior, _, _ = linear_gaussian()
    size = posterior.prior.num_coordinates
    nothing = tc.Reference(*map(jnp.asarray, (np.zeros(size), np.eye(size)[:, :5], np.zeros(5))))
    settings = {"step_size": 0.4, "num_warmup": 0, "num_samples": 20, **IN_CHUNKS}
    start = {"initial_positions": np.ones((4, size))}
    plain = tc.sample(posterior, tc.pcn, **settings, **start)
    same = tc.sample(posterior, tc.pcn.using(reference=nothing), **settings, **start)
    np.testing.assert_allclose(plain.positions, same.positions, atol=1e-4)


def test_chains_start_at_draws_of_the_reference():
    posterior, _, _ = linear_gaussian()
    reference = reference_of_linear_gaussian()
    far = tc.Reference(reference.mean + 100.0, reference.vectors, reference.eigenvalues)
    run = tc.sample(
        posterior, tc.pcn.using(reference=far), step_size=1e-6, num_warmup=0, num_samples=4, thin=1,
        **IN_CHUNKS,
    )  # fmt: skip
    assert (run.positions.mean(axis=(0, 1)) > 50).all()


def test_adaptation_does_not_end_at_independent_proposals():
    posterior, _, _ = linear_gaussian()
    kernel = tc.pcn.using(reference=reference_of_linear_gaussian())
    run = tc.sample(posterior, kernel, num_warmup=400, num_samples=4, **IN_CHUNKS)
    assert run.tuning["pcn"]["step_size"] == pytest.approx(0.7)


def test_a_stored_run_knows_its_reference(tmp_path):
    posterior, _, _ = linear_gaussian()
    reference = reference_of_linear_gaussian()
    settings = {"step_size": 0.4, "num_warmup": 0, "store": tmp_path / "run", **IN_CHUNKS}
    kernel = tc.pcn.using(reference=reference)
    tc.sample(posterior, kernel, num_samples=4, **settings)
    tc.sample(posterior, kernel, num_samples=8, resume=True, **settings)
    other = tc.Reference(reference.mean + 0.01, reference.vectors, reference.eigenvalues)
    with pytest.raises(tc.StoreError, match="kernel's reference"):
        tc.sample(posterior, tc.pcn.using(reference=other), num_samples=9, resume=True, **settings)


def test_mistakes_are_named():
    posterior, _, _ = linear_gaussian()
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        tc.laplace(posterior, rank=0)
    with pytest.raises(ValueError, match=r"start must have shape \(6,\), got \(3,\)"):
        tc.laplace(posterior, start=np.zeros(3))
    with pytest.raises(ValueError, match="start must be finite"):
        tc.laplace(posterior, start=np.full(6, np.nan))
    with pytest.raises(TypeError, match="node_swap has no option 'reference'"):
        tc.node_swap.using(reference=any_reference(6))
    with pytest.raises(TypeError, match="cycle has no option 'reference'"):
        tc.cycle(tc.pcn, tc.node_swap).using(reference=any_reference(6))
    with pytest.raises(TypeError, match=r"reference must be a tc.Reference, .* got function"):
        tc.pcn.using(reference=tc.laplace)
    with pytest.raises(ValueError, match="orthonormal"):
        tc.Reference(*map(jnp.asarray, (np.zeros(3), np.ones((3, 1)), np.ones(1))))
    with pytest.raises(ValueError, match="above -1, got -2"):
        tc.Reference(*map(jnp.asarray, (np.zeros(3), np.eye(3)[:, :1], np.full(1, -2.0))))
    with pytest.raises(ValueError, match=r"must have shape \(5,\), got \(6,\)"):
        tc.pcn(posterior, 0.1, reference=any_reference(5)).init(jnp.asarray(np.zeros(6)))
    cut = tc.Posterior(
        posterior.prior, tc.Likelihood(posterior.likelihood.points, lambda v: jnp.sum(v) * jnp.nan)
    )
    with pytest.raises(ValueError, match="not finite at the start"):
        tc.laplace(cut)
