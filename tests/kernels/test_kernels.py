"""Limits, caches and failures that all kernels share, and what each promises of itself."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_night import by_night
from linear import cosine_prior, flat, linear_gaussian
from scipy.stats import chisquare, norm, spearmanr

import traceclass as tc
from traceclass.kernels.base import as_kernel
from traceclass.kernels.hmc import quarter_turn, trajectory
from traceclass.kernels.metropolis import decide
from traceclass.kernels.nodes import node_table
from traceclass.kernels.states import (
    GradientState,
    State,
    init_with_gradient,
    standard_normal,
)
from traceclass.priors.series import BasisAtPoints

POINT = np.zeros((1, 1))
SIZED = {"pcn": 0.3, "pcnl": 0.01, "hmc": 0.1, "random_walk": 0.2, "mala": 0.15}


@functools.cache
def network_posterior(widths=(5, 4), alpha: float = 1.5) -> tc.Posterior:
    x = np.linspace(-1, 1, 9)[:, None]
    prior = (
        tc.TraceClassNetwork(num_inputs=1, widths=widths, alpha=alpha)
        if alpha > 1
        else tc.IidNetwork(num_inputs=1, widths=widths)
    )
    return tc.Posterior(prior, tc.GaussianRegression(x, np.sin(3 * x[:, 0]), noise=0.5))


COMPOSED = {
    "cycle(hmc, node_swap)": (tc.cycle(tc.hmc, tc.node_swap), 0.1),
    "cycle(pcn, pcnl)": (tc.cycle(tc.pcn, tc.pcnl), (0.3, 0.01)),
    "cycle(node_swap, mala, pcn)": (tc.cycle(tc.node_swap, tc.mala, tc.pcn), (0.15, 0.3)),
    "mixture(hmc, pcn, block)": (tc.mixture(tc.hmc, tc.pcn, tc.block_node_swap), (0.1, 0.3)),
    "cycle(mixture, block)": (
        tc.cycle(tc.mixture(tc.pcnl, tc.node_swap), tc.block_node_swap),
        0.01,
    ),
}
ALL = {name: (getattr(tc, name), size) for name, size in SIZED.items()} | COMPOSED
ALL |= {name: (getattr(tc, name), None) for name in ("elliptical_slice", "node_swap")}


@functools.partial(jax.jit, static_argnums=0)
def moved(algorithm, position, key):
    """The state one step after `position`."""
    return algorithm.step(key, algorithm.init(jnp.asarray(position)))[0]


LATER = ("random_walk", "mala", "cycle(pcn, pcnl)", "cycle(node_swap, mala, pcn)")


@pytest.mark.parametrize("name", by_night(ALL, long=(*LATER, "cycle(mixture, block)")))
def test_what_is_cached_is_that_of_the_position(name):
    """After every one of 40 steps: log-likelihood and gradient, through all parts."""
    kernel, step_size = ALL[name]
    posterior = network_posterior()
    algorithm = kernel(posterior, step_size)

    @jax.jit
    def walk():
        def step(state, key):
            state, info = algorithm.step(key, state)
            exact = posterior.log_likelihood_and_gradient(state.position)
            cached = (state.log_likelihood, getattr(state, "gradient", exact[1]))
            return state, (state.position, cached, exact, info.is_accepted)

        start = algorithm.init(posterior.prior.sample(jax.random.key(0)))
        return jax.lax.scan(step, start, jax.random.split(jax.random.key(1), 40))[1]

    positions, cached, exact, accepted = walk()
    assert np.any(accepted)
    assert len(np.unique(positions, axis=0)) > 3
    np.testing.assert_allclose(cached[0], exact[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(cached[1], exact[1], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", by_night(["pcn", "pcnl", "hmc"], long=["pcn"]))
def test_without_data_everything_is_accepted(name):
    """The prior is kept exactly: only rounding may reject, at any width."""
    posterior = flat(tc.TraceClassNetwork(num_inputs=1, widths=(200, 200)))
    run = tc.sample(
        posterior, getattr(tc, name), step_size=0.5, num_chains=2, num_warmup=0, num_samples=5,
        thin=2, progress=False,
    )  # fmt: skip
    assert run.acceptance_rate > 0.999
    assert abs(run.positions.var() - 1) < 5 * np.sqrt(2 / run.positions[:, -1].size)


def test_pcnl_without_gradient_is_pcn():
    """beta = sqrt(8 delta) / (2 + delta), same noise, same decision."""
    posterior = flat(cosine_prior())
    delta = 0.7
    beta = float(np.sqrt(8 * delta) / (2 + delta))
    plain, with_gradient = (
        moved(algorithm, posterior.prior.sample(jax.random.key(0)), jax.random.key(1))
        for algorithm in (tc.pcn(posterior, beta), tc.pcnl(posterior, delta))
    )
    np.testing.assert_allclose(with_gradient.position, plain.position, rtol=1e-5)


def test_a_quarter_turn_forgets_where_it_began():
    """Flat likelihood, no jitter to speak of: cos(pi/2) of the start is left."""
    posterior = flat(cosine_prior())
    assert int(quarter_turn(0.1)) == 16
    assert int(quarter_turn(1.0)) == 2
    algorithm = tc.hmc(posterior, np.pi / 2, num_kicks=1)
    starts = np.full((2, 6), 50.0) * [[1], [-1]]
    ends = np.array([moved(algorithm, z, jax.random.key(2)).position for z in starts])
    # What is left is the jitter's: cos(pi/2 (1 + 0.2 u)), at most sin(0.1 pi).
    assert np.abs(ends[0] - ends[1]).max() <= 100 * np.sin(0.1 * np.pi)


def test_the_jitter_of_the_step_is_independent_of_the_momentum():
    """20,000 moves from zero without data: the end is sin(K epsilon) p, epsilon = s (1 + 0.2 u).

    With K = 1 and s = 0.5, |end| / |p| says u. It comes from a key of its own: from the momentum's
    key it would come from the bits of the momentum. Rank correlations of each coordinate with u and
    with |u| stay below 5 standard errors.
    """
    posterior = flat(cosine_prior())
    algorithm = tc.hmc(posterior, 0.5, num_kicks=1)

    @jax.jit
    def ends(key):
        keys = jax.random.split(key, 20_000)
        start = algorithm.init(jnp.zeros(6))
        return jax.vmap(lambda key: algorithm.step(key, start)[0].position)(keys)

    @jax.jit
    def momenta(key):
        keys = jax.random.split(key, 20_000)
        return jax.vmap(lambda key: standard_normal(jax.random.split(key, 3)[1], jnp.zeros(6)))(
            keys
        )

    @jax.jit
    def jitters(key):
        keys = jax.random.split(key, 20_000)
        return jax.vmap(lambda key: jax.random.uniform(jax.random.split(key, 3)[0], minval=-1))(
            keys
        )

    key = jax.random.key(4)
    end, p, drawn = (np.asarray(f(key), dtype=np.float64) for f in (ends, momenta, jitters))
    sine = np.linalg.norm(end, axis=1) / np.linalg.norm(p, axis=1)
    np.testing.assert_allclose(end, sine[:, None] * p, rtol=1e-4, atol=1e-5)
    u = (np.arcsin(sine) / 0.5 - 1) / 0.2
    np.testing.assert_allclose(u, drawn, atol=1e-3)
    assert abs(u.mean()) < 5 / np.sqrt(3 * 20_000)
    assert abs(u.var() - 1 / 3) < 5 * np.sqrt(4 / 45 / 20_000)
    for values in (u, np.abs(u)):
        for coordinate in range(6):
            for power in (p[:, coordinate], p[:, coordinate] ** 2):
                assert abs(spearmanr(values, power).statistic) < 5 / np.sqrt(20_000)


def test_hmc_energy_is_exact_where_single_precision_would_drown_it():
    """2 million coordinates: |z|^2/2 is 10^6 with spacing 0.06; the energy error is right to 1e-3.

    The data see only the first layer's first node, so the same trajectory in double precision
    of the coordinates that matter is the oracle.
    """

    class UnitSeries(tc.Series):
        """All eigenvalues are one, and two million of them take JAX long to read."""

        def at(self, points):
            return BasisAtPoints(self.basis(jnp.asarray(points, dtype=float)))

    prior = UnitSeries(
        lambda x: jnp.concatenate([x, jnp.zeros((len(x), 2_000_000 - 1))], axis=1),
        np.ones(2_000_000), num_inputs=1,
    )  # fmt: skip
    small = tc.Series(lambda x: x, np.ones(1), num_inputs=1)
    data = tc.GaussianRegression(np.ones((1, 1)), np.ones(1), noise=0.2)
    z, p = np.random.default_rng(0).normal(size=(2, 2_000_000)).astype(np.float32)

    @functools.partial(jax.jit, static_argnums=0)
    def energy_error(posterior, z, p):
        step_size = jnp.asarray(0.1, dtype=z.dtype)
        return trajectory(posterior, init_with_gradient(posterior, z), p, step_size, 10)[2]

    with jax.enable_x64(True):
        want = float(energy_error(tc.Posterior(small, data), *np.float64([z[:1], p[:1]])))
    got = energy_error(tc.Posterior(prior, data), z, p)
    assert abs(want) > 0.01
    assert float(got) == pytest.approx(want, abs=1e-3)


@pytest.mark.parametrize(
    "name",
    by_night(
        ["pcn", "pcnl", "hmc", "random_walk", "mala", "elliptical_slice"],
        long=["pcnl", "random_walk", "mala"],
    ),
)
def test_nan_is_never_taken(name):
    """NaN where v(0) < 0: started inside, no chain leaves; Metropolis kernels count it."""
    posterior = tc.Posterior(
        cosine_prior(), tc.Likelihood(POINT, lambda v: jnp.where(v[0] > 0, -v[0], jnp.nan))
    )
    run = tc.sample(
        posterior, getattr(tc, name), step_size=0.6, num_chains=8, num_warmup=0, num_samples=50,
        thin=1, progress=False,
    )  # fmt: skip
    values = jax.jit(jax.vmap(posterior.values_of))(run.flat_positions())
    assert np.min(values) > 0
    assert np.isfinite(run.draws["log_likelihood"]).all()
    if name != "elliptical_slice":
        assert run.num_nonfinite.sum() > 0


def test_a_ratio_that_is_not_a_number_is_rejected_and_flagged():
    """A finite log-likelihood with an infinite gradient makes one; its acceptance rate is 0."""
    proposal = State(jnp.zeros(2), jnp.zeros(()))
    accepted, info = decide(jax.random.key(0), jnp.asarray(jnp.nan), proposal)
    assert not bool(accepted)
    assert bool(info.is_nonfinite)
    assert float(info.acceptance_rate) == 0.0


def test_a_gradient_that_is_not_finite_cannot_start():
    """sqrt(|v|) has a finite value and an infinite gradient at 0, where every draw is put."""
    posterior = tc.Posterior(
        cosine_prior(), tc.Likelihood(POINT, lambda v: jnp.sqrt(jnp.abs(0.0 * v[0])))
    )
    with pytest.raises(ValueError, match="gradient of the log-likelihood is not finite at 100"):
        tc.sample(posterior, tc.hmc, step_size=0.1, num_warmup=0, num_samples=1, progress=False)
    assert tc.sample(posterior, tc.pcn, step_size=0.1, num_warmup=0, num_samples=1,
                     progress=False).acceptance_rate == 1.0  # fmt: skip


@pytest.mark.parametrize(
    ("law", "alpha", "weights"),
    [
        ("geometric", 1.5, [1, 1 / 3, 1 / 9, 1 / 27]),
        ("power", 1.5, [1, 2**-1.5, 3**-1.5, 4**-1.5]),
        ("uniform", 1.5, [1, 1, 1, 1]),
        ("geometric", 0, [1, 1, 1, 1]),
        ("power", 0, [1, 1, 1, 1]),
    ],
)
def test_the_law_of_the_swapped_pair(law, alpha, weights):
    """All pairs, the first included, in 20,000 picks; chi-square at 1e-5. Layers are uniform."""
    posterior = network_posterior((5, 1, 5), alpha)
    table = node_table(posterior, law, move="node_swap")

    @jax.jit
    def picked(key):
        picks = jax.vmap(table.pick)(jax.random.split(key, 20_000))
        layers, nodes = np.divmod(np.arange(8), 4)
        return picks.first[:, 0], jax.vmap(table.pair)(layers, nodes).first[:, 0]

    pairs, places = map(np.asarray, picked(jax.random.key(0)))
    counts = np.array([(pairs == place).sum() for place in places])
    assert counts.sum() == 20_000
    expected = np.tile(np.array(weights) / np.sum(weights), 2) / 2 * 20_000
    assert chisquare(counts, expected).pvalue > 1e-5


def test_swaps_without_a_pair_do_nothing():
    posterior = network_posterior((1, 1))
    start = np.ones(posterior.prior.num_coordinates, dtype=np.float32)
    for kernel in (tc.node_swap, tc.block_node_swap):
        algorithm = kernel(posterior)
        step = jax.jit(lambda z, a=algorithm: a.step(jax.random.key(1), a.init(z)))
        after, info = step(start)
        np.testing.assert_array_equal(after.position, start)
        assert float(info.acceptance_rate) == 1.0


def test_swaps_of_equal_nodes_are_always_accepted():
    posterior = network_posterior((6, 6), alpha=0)
    run = tc.sample(
        posterior, tc.cycle(tc.pcn, tc.node_swap), step_size=0.1, num_warmup=0, num_samples=20,
        thin=1, progress=False,
    )  # fmt: skip
    assert run.move_acceptance_rates["node_swap"] == pytest.approx(1.0, abs=1e-6)
    assert 0 < run.move_acceptance_rates["pcn"] < 1


def test_a_block_as_large_as_the_network_is_node_swap():
    posterior = network_posterior()
    start = np.random.default_rng(0).normal(size=posterior.prior.num_coordinates)
    keys = jax.vmap(jax.random.key)(np.arange(20))
    after = [
        np.asarray(jax.vmap(functools.partial(moved, algorithm, start))(keys).position)
        for algorithm in (tc.node_swap(posterior), tc.block_node_swap(posterior, block=5))
    ]
    np.testing.assert_allclose(after[1], after[0], rtol=1e-5)
    assert len(np.unique(after[0], axis=0)) > 1


def test_swaps_need_nodes_and_a_law_they_know():
    posterior, _, _ = linear_gaussian()
    for kernel in (tc.node_swap, tc.block_node_swap):
        with pytest.raises(ValueError, match=r"needs a network prior .* got Series"):
            kernel(posterior)
        with pytest.raises(ValueError, match="geometric, power, uniform; got law='zipf'"):
            kernel(network_posterior(), law="zipf")
    with pytest.raises(ValueError, match="block must be at least 1, got 0"):
        tc.block_node_swap(network_posterior(), block=0)


def test_options_are_fixed_and_checked():
    assert tc.hmc.using(num_kicks=7) == tc.hmc.using(num_kicks=7) != tc.hmc
    assert as_kernel(functools.partial(tc.hmc, num_kicks=7)) == tc.hmc.using(num_kicks=7)
    with pytest.raises(TypeError, match=r"hmc has no option 'steps'; its options: num_kicks"):
        tc.hmc.using(steps=3)
    with pytest.raises(TypeError, match="a kernel is"):
        as_kernel("hmc")


@pytest.mark.parametrize("num_kicks", [0, -3])
def test_trajectories_need_a_kick(num_kicks):
    with pytest.raises(ValueError, match="num_kicks must be at least 1"):
        tc.hmc.using(num_kicks=num_kicks)(network_posterior(), 0.1)


@pytest.mark.parametrize(
    ("kernel", "step_size", "words"),
    [
        (tc.cycle(tc.pcn, tc.pcnl), ("adapt", 0.01), "got 'adapt'"),
        (tc.pcn, (0.1,), r"got \(0.1,\)"),
        (tc.pcn, "0.1", "got '0.1'"),
    ],
)
def test_step_sizes_that_are_none_are_named(kernel, step_size, words):
    with pytest.raises(ValueError, match=words):
        kernel(network_posterior(), step_size)


def test_step_sizes_of_a_composition_may_be_an_array():
    tc.cycle(tc.pcn, tc.pcnl)(network_posterior(), np.array([0.1, 0.01]))
    with pytest.raises(ValueError, match="cycle needs at least one kernel"):
        tc.cycle()


def test_what_is_no_kernel_is_explained():
    import blackjax

    with pytest.raises(TypeError, match=r"For BlackJAX's own write e\.g\. lambda"):
        as_kernel(blackjax.nuts)
    with pytest.raises(TypeError, match="pass hmc by itself"):
        as_kernel(functools.partial(tc.hmc, network_posterior()))


@pytest.mark.long
def test_elliptical_slices_end_where_single_precision_is_coarse():
    """With 1e6 added to l, l + log u is l for most u."""
    x = np.linspace(-1, 1, 8)[:, None]
    shifted = tc.Likelihood(x, lambda v: 1e6 - jnp.sum((v - jnp.sin(3 * x[:, 0])) ** 2) / 0.02)
    posterior = tc.Posterior(tc.TraceClassNetwork(num_inputs=1, widths=(5,)), shifted)
    run = tc.sample(
        posterior, tc.elliptical_slice, num_warmup=0, num_samples=50, thin=100, progress=False
    )
    assert np.isfinite(run.draws["log_likelihood"]).all()
    assert (np.ptp(run.positions, axis=1) > 0).all()


def test_compositions_say_what_they_need():
    posterior = network_posterior()
    with pytest.raises(
        ValueError, match=r"cycle of 2 kernels with a step size .* pcn, hmc; got 0.1"
    ):
        tc.cycle(tc.pcn, tc.hmc)(posterior, 0.1)
    with pytest.raises(ValueError, match="needs at least one kernel"):
        tc.cycle()
    with pytest.raises(ValueError, match=r"one positive number for each of the 2 kernels"):
        tc.mixture(tc.pcn, tc.hmc, weights=(1.0, 0.0))
    with pytest.raises(ValueError, match="pcn needs a step size in"):
        tc.cycle(tc.pcn, tc.node_swap)(posterior, 3.0)


def test_a_composition_carries_the_state_its_first_part_needs():
    posterior = network_posterior()
    position = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), jnp.float32)
    gradient_first = tc.cycle(tc.node_swap, tc.hmc, tc.pcn)(posterior, (0.1, 0.1))
    assert isinstance(jax.eval_shape(gradient_first.init, position), GradientState)
    plain_first = tc.cycle(tc.pcn, tc.hmc)(posterior, (0.1, 0.1))
    assert isinstance(jax.eval_shape(plain_first.init, position), State)


def test_mixture_picks_by_its_weights():
    posterior = network_posterior()
    kernel = tc.mixture(tc.pcn, tc.random_walk, weights=(3.0, 1.0))
    run = tc.sample(
        posterior, kernel, step_size=(0.1, 0.1), num_chains=8, num_warmup=0, num_samples=100,
        thin=5, progress=False,
    )  # fmt: skip
    shares = run.tally.tried.sum(axis=(0, 1)) / run.tally.tried.sum()
    assert abs(shares[0] - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 4000)


@pytest.mark.long
def test_acceptance_survives_refinement():
    """Width 16 to 256 at fixed steps, from posterior draws, prolonged: pCN and HMC do not fall."""
    rates = {}
    x = np.linspace(-1, 1, 20)[:, None]
    likelihood = tc.GaussianRegression(x, np.sin(3 * x[:, 0]), noise=0.3)
    coarse = tc.TraceClassNetwork(num_inputs=1, widths=(16, 16))
    run = tc.sample(
        tc.Posterior(coarse, likelihood), tc.hmc, num_warmup=800, num_samples=1, progress=False
    )
    for width in (16, 256):
        prior = coarse.refine(widths=(width, width))
        keys = jax.random.split(jax.random.key(0), 4)
        starts = [
            coarse.prolong(*pair, prior) for pair in zip(keys, run.positions[:, 0], strict=True)
        ]
        for kernel, thin in ((tc.pcn, 100), (tc.hmc.using(num_kicks=5), 10)):
            rates[kernel.name, width] = tc.sample(
                tc.Posterior(prior, likelihood), kernel, step_size=0.05, num_warmup=0,
                num_samples=4, thin=thin, initial_positions=starts, progress=False,
            ).acceptance_rate  # fmt: skip
    for name in ("pcn", "hmc"):
        assert rates[name, 256] > 0.75 * rates[name, 16], rates


@pytest.mark.parametrize(
    ("name", "step_size", "exponent"),
    [
        ("random_walk", 0.02, lambda s, d: s * d / 2),
        pytest.param("mala", 0.45, lambda s, d: s**3 * d / 8, marks=pytest.mark.long),
    ],
)
def test_the_controls_fall_with_width_as_theory_says(name, step_size, exponent):
    """No data: acceptance 2 Phi(-s sqrt(d)/2) and 2 Phi(-s^3 sqrt(d)/8), within 0.05, falling."""
    rates = []
    for width in (20, 100):
        prior = tc.TraceClassNetwork(num_inputs=1, widths=(width, width))
        run = tc.sample(
            flat(prior), getattr(tc, name), step_size=step_size, num_chains=4, num_warmup=0,
            num_samples=1, thin=200, progress=False,
        )  # fmt: skip
        theory = 2 * norm.sf(exponent(step_size, np.sqrt(prior.num_coordinates)))
        assert run.acceptance_rate == pytest.approx(theory, abs=0.05)
        rates.append(run.acceptance_rate)
    assert rates[1] < 0.5 * rates[0]
