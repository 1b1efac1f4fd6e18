r"""Tempering leaves the product of all tempered measures invariant, and gives the exact evidence.

With two temperatures every posterior will do: the prior's replica is drawn anew before the swap, so
a chain that begins with its posterior's replica at a posterior draw begins in equilibrium. With
more, all replicas must begin at draws of their own measures given y; where the map from z to the
data is linear and the noise Gaussian these are Gaussian,

    mu_t( . | y) = N(P^-1 t A'y / s^2, P^-1),   P = I + t A'A / s^2.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import SETTINGS, any_reference
from invariance import FALSE_ALARM, NUM_CELLS, judge, z_score
from joint import POINTS, action_choice, priors, regression
from scipy.stats import multivariate_normal, norm

import traceclass as tc
from benchmarks.modes import two_modes

SCHEDULE = (1.0, 0.5, 0.2, 0.05, 0.0)
NUM_PAIRS = 16_384


def pairs_at_all_temperatures(kernel: tc.Kernel, step_size, num_steps: int, seed: int):
    """Statistics of every replica before and after `num_steps` tempered steps, and swap rates."""
    joint = regression(priors()["Fourier"])
    values_of = joint.prior.at(POINTS)
    noise = 1.0
    a = np.asarray(jax.jacobian(values_of)(jnp.zeros(joint.prior.num_coordinates)), dtype=float)
    t = jnp.asarray(SCHEDULE)
    # P^-1 and its square roots on the host: batched solves on two devices can wait for each other.
    inverses = [np.linalg.inv(np.eye(a.shape[1]) + s * a.T @ a / noise**2) for s in SCHEDULE]
    roots = jnp.asarray(np.linalg.cholesky(inverses), dtype=float)
    to_centres = jnp.asarray(
        [s * inverse @ a.T / noise**2 for s, inverse in zip(SCHEDULE, inverses, strict=True)],
        dtype=float,
    )
    tempered = tc.tempered(kernel, schedule=SCHEDULE)

    def replica(key, root, to_centre, y):
        """A draw of mu_t given y."""
        return to_centre @ y + root @ jax.random.normal(key, (len(root),))

    def statistics(posterior, state):
        z = state.replicas.position
        level = jax.vmap(posterior.log_likelihood)(z)
        products = level * jnp.roll(level, 1)
        weights = jnp.asarray(np.random.default_rng(2).normal(size=z.shape[1]), dtype=z.dtype)
        return jnp.concatenate([level, products, z**2 @ weights, z @ weights, z[:, 0] ** 2])

    def one(key):
        key_z, key_y, key_replicas, key_steps, key_turn = jax.random.split(key, 5)
        z = joint.prior.sample(key_z)
        posterior = joint.posterior_of_data(key_y, z)
        y = posterior.likelihood.observations
        others = jax.vmap(replica, in_axes=(0, 0, 0, None))(
            jax.random.split(key_replicas, t.size), roots, to_centres, y
        )
        algorithm = tempered.assemble(posterior, tempered.tuning(step_size))
        begin = algorithm.init(z)
        positions = others.at[0].set(z)
        states = jax.vmap(lambda p: jax.tree.map(lambda x: x[0], algorithm.init(p).replicas))
        begin = begin._replace(
            replicas=states(positions), num_exchanges=jax.random.randint(key_turn, (), 0, 2)
        )

        def step(i, carry):
            state, rates, tried = carry
            state, info = algorithm.step(jax.random.fold_in(key_steps, i), state)
            gaps = t.size - 1
            return state, rates + info.moves.acceptance_rate[-gaps:], tried + info.tried[-gaps:]

        none = jnp.zeros(t.size - 1)
        end, rates, tried = jax.lax.fori_loop(0, num_steps, step, (begin, none, none))
        return statistics(posterior, begin), statistics(posterior, end), rates, tried

    keys = jax.random.split(jax.random.key(seed), NUM_PAIRS)
    before, after, rates, tried = jax.jit(jax.vmap(one))(keys)
    return np.asarray(before), np.asarray(after), np.asarray(rates.sum(0) / tried.sum(0))


def p_value_at_all_temperatures(kernel: tc.Kernel, step_size, seed: int) -> tuple[float, float]:
    """The smallest over statistics, corrected for their number; and the least swap rate."""
    before, after, rates = pairs_at_all_temperatures(kernel, step_size, 6, seed)
    columns = zip(before.astype(np.float64).T, after.astype(np.float64).T, strict=True)
    # The prior's replica begins at a draw that is thrown away; its pairs count all the same.
    scores = [z_score(*pair) for pair in columns]
    return min(1.0, 2 * norm.sf(max(scores)) * len(scores)), float(rates.min())


def test_all_temperatures_are_invariant():
    """False alarm below FALSE_ALARM / NUM_CELLS, as any cell of the grid."""
    p_value, rate = p_value_at_all_temperatures(tc.pcn, 0.3, seed=11)
    assert p_value > FALSE_ALARM / NUM_CELLS
    assert rate > 0.1


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["pcn", "hmc", "elliptical_slice", "cycle(pcn, mala)", "hmc, reference"]
)
def test_all_temperatures_are_invariant_with(name):
    setting = SETTINGS[name]
    kernel = setting.kernel
    if setting.has_reference:
        kernel = kernel.using(reference=any_reference(priors()["Fourier"].num_coordinates))
    p_value, _ = p_value_at_all_temperatures(kernel, setting.for_series, seed=12)
    assert p_value > FALSE_ALARM / NUM_CELLS


def wrong_swap(change):
    """`swap` with the inverse temperatures, or the state before it, changed."""
    right = sys.modules["traceclass.kernels.tempered"].swap
    return lambda key, t, state: right(key, *change(t, state))


def scaled_by_wrong_power(t, state):
    """A replica that takes its tempered log-likelihood along, and not l."""
    scaled = state.replicas._replace(log_likelihood=t * state.replicas.log_likelihood)
    return t, state._replace(replicas=scaled)


SWAP_FAULTS = {
    "steeper by 20 %": lambda t, s: (1.2 * t, s),
    "upside down": lambda t, s: (-t, s),
    "of the next pair": lambda t, s: (jnp.roll(t, 1).at[0].set(2.0), s),
    "log-likelihoods of the wrong measure": scaled_by_wrong_power,
}


@pytest.mark.parametrize("name", ["steeper by 20 %"])
def test_swap_fault_is_caught_quick(name, monkeypatch):
    check_swap_fault(name, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", SWAP_FAULTS)
def test_swap_fault_is_caught(name, monkeypatch):
    check_swap_fault(name, monkeypatch)


def check_swap_fault(name, monkeypatch):
    module = sys.modules["traceclass.kernels.tempered"]
    monkeypatch.setattr(module, "swap", wrong_swap(SWAP_FAULTS[name]))
    p_value, _ = p_value_at_all_temperatures(tc.pcn, 0.3, seed=13)
    assert p_value < FALSE_ALARM / NUM_CELLS


@pytest.mark.long
def test_a_kernel_at_the_wrong_temperature_is_caught(monkeypatch):
    """Replicas explore at t^0.8 and are exchanged as if at t."""
    module = sys.modules["traceclass.kernels.tempered"]
    times, tempered = module._times, tc.Posterior.tempered
    monkeypatch.setattr(module, "_times", lambda t, state: times(t**0.8, state))
    monkeypatch.setattr(tc.Posterior, "tempered", lambda p, t: tempered(p, t**0.8))
    p_value, _ = p_value_at_all_temperatures(tc.pcn, 0.3, seed=14)
    assert p_value < FALSE_ALARM / NUM_CELLS


@pytest.mark.long
@pytest.mark.parametrize("name", ["pcn", "pcnl", "hmc", "cycle(pcnl, node_swap)"])
@pytest.mark.parametrize("make", [regression, action_choice], ids=lambda make: make.__name__)
def test_two_temperatures_are_invariant_on_networks(name, make):
    setting = SETTINGS[name]
    kernel = tc.tempered(setting.kernel, num_temperatures=2, steps_per_swap=3)
    joint = make(priors()["tcNN"])
    steps = max(2, setting.num_steps // 3)
    verdict = judge(joint, kernel, setting.step_size, steps, num_pairs=NUM_PAIRS, seed=15)
    assert verdict.is_invariant, verdict


def linear_problem(num_coordinates: int) -> tuple[tc.Posterior, float]:
    """30 observations of a series of so many terms, and their exact log-evidence."""
    prior = tc.Series(
        lambda x: jnp.cos(jnp.pi * jnp.arange(num_coordinates) * x),
        1.0 / np.arange(1, num_coordinates + 1) ** 1.5,
        num_inputs=1,
    )
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(30, 1))
    y = np.cos(5 * x[:, 0]) + 0.3 * rng.normal(size=30)
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, y, noise=0.3))
    basis = np.asarray(posterior.values_of.basis, dtype=np.float64)
    covariance = basis @ basis.T + 0.09 * np.eye(30)
    return posterior, float(multivariate_normal(np.zeros(30), covariance).logpdf(y))


def check_evidence(num_coordinates: int) -> None:
    posterior, exact = linear_problem(num_coordinates)
    kernel = tc.tempered(tc.hmc, num_temperatures=12)
    settings = {"num_warmup": 1_000, "num_samples": 1_000, "progress": False}
    run = tc.sample(posterior, kernel, store_positions=False, **settings)
    evidence = run.evidence
    assert evidence.standard_error < 0.3
    assert abs(evidence.log_evidence - exact) < 3 * evidence.standard_error, (evidence, exact)
    assert abs(evidence.thermodynamic - exact) < 3 * evidence.thermodynamic_error, (evidence, exact)


@pytest.mark.long
def test_evidence_in_100_dimensions():
    check_evidence(100)


@pytest.mark.long
@pytest.mark.parametrize("num_coordinates", [10, 1_000])
def test_evidence_in_other_dimensions(num_coordinates):
    check_evidence(num_coordinates)


@pytest.mark.long
def test_evidence_errors_are_what_they_say():
    """20 seeds on two modes: the scores' mean square is 1 within 5 of its errors, or below."""
    problem = two_modes()
    scores = []
    for seed in range(20):
        run = tc.sample(
            problem.posterior, tc.tempered(tc.hmc.using(num_kicks=4), num_temperatures=8),
            num_warmup=600, num_samples=500, seed=seed, progress=False,
        )  # fmt: skip
        found = run.evidence
        scores.append((found.log_evidence - problem.log_evidence) / found.standard_error)
    assert np.mean(np.square(scores)) < 1 + 5 * np.sqrt(2 / 20)


@pytest.mark.long
def test_smc_agrees_on_two_modes_and_in_1000_dimensions():
    problem = two_modes()
    posterior, exact = linear_problem(1_000)
    for target, level in ((problem.posterior, problem.log_evidence), (posterior, exact)):
        kernel = tc.hmc.using(num_kicks=10)
        found = tc.smc_evidence(target, kernel, num_repeats=6, num_moves=5)
        assert abs(found.log_evidence - level) < 3.5 * max(found.standard_error, 0.02)
