"""Refinement: new coordinates come from the prior, old ones stay, and functions converge."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc

NETWORK = tc.TraceClassNetwork(num_inputs=2, widths=(4, 3), alpha=1.5)
PAIRS = [
    (NETWORK, NETWORK.refine(widths=(6, 9))),
    (
        tc.IidNetwork(num_inputs=1, widths=(2,)),
        tc.IidNetwork(num_inputs=1, widths=(2,)).refine(widths=(5,)),
    ),
    (
        tc.FourierSeries(num_inputs=3, max_frequency=2),
        tc.FourierSeries(num_inputs=3, max_frequency=2).refine(max_frequency=4),
    ),
    (tc.CosineSeries(num_modes=3), tc.CosineSeries(num_modes=3).refine(num_modes=5)),
]


prolonged = eqx.filter_jit(tc.Prior.prolong)


def normals(size):
    """A position, made without a program for each length."""
    return np.random.default_rng(0).normal(size=size).astype(np.float32)


@pytest.mark.parametrize(("coarse", "fine"), PAIRS)
def test_restrict_undoes_prolong(coarse, fine):
    z = normals(coarse.num_coordinates)
    longer = np.asarray(prolonged(coarse, jax.random.key(1), z, fine))
    assert longer.shape == (fine.num_coordinates,)
    np.testing.assert_array_equal(fine.restrict(longer, coarse), z)


@pytest.mark.parametrize(("coarse", "fine"), PAIRS)
def test_the_finer_function_with_silent_new_terms_is_the_coarse_one(coarse, fine):
    """Old coordinates keep their meaning: with the new ones at zero, nothing changes."""
    points = np.random.default_rng(0).uniform(0, 1, (9, coarse.num_inputs))

    @jax.jit
    def evaluated(z):
        silent = coarse.prolong(None, z, fine)
        return silent, fine.evaluate(silent, points), coarse.evaluate(z, points)

    z = normals(coarse.num_coordinates)
    silent, values, expected = evaluated(z)
    assert np.count_nonzero(silent) == np.count_nonzero(z)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def test_parameters_of_old_nodes_stay():
    fine = PAIRS[0][1]

    @jax.jit
    def parameters(key, z):
        return NETWORK.parameters(z), fine.parameters(NETWORK.prolong(key, z, fine))

    both = parameters(jax.random.key(3), normals(NETWORK.num_coordinates))
    for old, new in zip(*jax.tree.map(np.asarray, both), strict=True):
        rows, columns = old.weights.shape
        np.testing.assert_allclose(new.weights[:rows, :columns], old.weights, rtol=1e-6)
        np.testing.assert_allclose(new.biases[:rows], old.biases, rtol=1e-6)


def test_a_prolonged_prior_draw_is_a_prior_draw():
    """Variance of all coordinates of 20,000 prolonged draws, 5 standard errors."""
    coarse, fine = PAIRS[3]

    def draw(key):
        z = coarse.sample(jax.random.fold_in(key, 0))
        return coarse.prolong(jax.random.fold_in(key, 1), z, fine)

    draws = jax.jit(lambda key: jax.vmap(draw)(jax.random.split(key, 20_000)))(jax.random.key(0))
    draws = np.asarray(draws, dtype=np.float64)
    assert draws.var() == pytest.approx(1.0, abs=5 * np.sqrt(2 / draws.size))
    assert draws.mean() == pytest.approx(0.0, abs=5 / np.sqrt(draws.size))


def test_own_series_is_refined_by_a_longer_one():
    def sines(count):
        return lambda x: jnp.sin(jnp.arange(1, count + 1) * x)

    coarse = tc.Series(sines(2), [1.0, 0.5], num_inputs=1)
    fine = coarse.refine(basis=sines(3), eigenvalues=[1.0, 0.5, 0.1])
    z = normals(2)
    longer = np.asarray(prolonged(coarse, jax.random.key(0), z, fine))
    np.testing.assert_array_equal(fine.restrict(longer, coarse), z)
    with pytest.raises(ValueError, match="present 2 eigenvalues first"):
        coarse.refine(basis=sines(3), eigenvalues=[1.0, 0.4, 0.1])


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: NETWORK.refine(widths=(4, 2)), r"none below the present \(4, 3\); got \(4, 2\)"),
        (lambda: NETWORK.refine(widths=(4, 3, 3)), "one width a hidden layer"),
        (lambda: PAIRS[2][0].refine(max_frequency=1), "max_frequency >= 2, got 1"),
        (lambda: PAIRS[3][0].refine(num_modes=1), "num_modes >= 3, got 1"),
        (
            lambda: NETWORK.prolong(
                jax.random.key(0),
                np.zeros(NETWORK.num_coordinates),
                tc.TraceClassNetwork(num_inputs=2, widths=(6, 9), alpha=1.6),
            ),
            "is not a refinement of",
        ),
        (lambda: NETWORK.restrict(np.zeros(NETWORK.num_coordinates), PAIRS[0][1]), "refinement"),
    ],
)
def test_what_is_no_refinement_is_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def mean_sup_differences(coarser: list[tc.Prior], fine: tc.Prior, points: np.ndarray) -> list:
    """E sup |v_fine - v_coarse| over the points, for 150 draws of the finer function."""

    @jax.jit
    def means(key):
        draws = fine.sample(key, (150,))
        values = fine.evaluate(draws, points)
        found = []
        for coarse in coarser:
            short = jax.vmap(lambda z, coarse=coarse: fine.restrict(z, coarse))(draws)
            difference = values - coarse.evaluate(short, points)
            found.append(jnp.max(jnp.abs(difference), axis=1).mean())
        return found

    return [float(mean) for mean in means(jax.random.key(7))]


def fitted_rate(sizes, errors) -> float:
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 9)] * 2), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("alpha", [1.3, pytest.param(1.8, marks=pytest.mark.long)])
def test_trace_class_networks_converge_at_the_rate_of_the_theory(alpha):
    """The left-out nodes carry variance sum_{j > N} j^-2a ~ N^(1-2a): the error falls like
    N^(1/2-a). 150 coupled draws give the slope to about 0.1; 0.25 allows for the finite reference
    width and the preasymptotic range."""
    sizes = (8, 16, 32, 64)
    fine = tc.TraceClassNetwork(num_inputs=2, widths=(256, 256), alpha=alpha)
    coarser = [tc.TraceClassNetwork(num_inputs=2, widths=(n, n), alpha=alpha) for n in sizes]
    errors = mean_sup_differences(coarser, fine, GRID)
    assert fitted_rate(sizes, errors) == pytest.approx(0.5 - alpha, abs=0.25)


def test_series_converge_at_the_rate_of_the_theory():
    """One dimension: sum_{k > K} k^-a ~ K^(1-a), so the error falls like K^((1-a)/2), up to the
    square root of a logarithm that the supremum adds."""
    sizes, alpha = (4, 8, 16, 32), 3.0
    fine = tc.FourierSeries(num_inputs=1, max_frequency=1024, alpha=alpha, interaction=1)
    x = np.linspace(0, 1, 200)[:, None]
    coarser = [
        tc.FourierSeries(num_inputs=1, max_frequency=k, alpha=alpha, interaction=1) for k in sizes
    ]
    errors = mean_sup_differences(coarser, fine, x)
    assert fitted_rate(sizes, errors) == pytest.approx((1 - alpha) / 2, abs=0.2)


def test_the_iid_network_does_not_converge():
    """Without summable variances wider networks are other functions: no decay."""
    sizes = (8, 16, 32, 64)
    fine = tc.IidNetwork(num_inputs=2, widths=(128, 128), weight_variance=0.3)
    coarser = [tc.IidNetwork(num_inputs=2, widths=(n, n), weight_variance=0.3) for n in sizes]
    errors = mean_sup_differences(coarser, fine, GRID)
    assert min(errors) > 0.5 * max(errors)


@pytest.mark.long
def test_log_likelihoods_converge_too_but_not_for_the_iid_network():
    """|l(z_N) - l(z_fine)| at N = 64 against N = 8, data from a smooth function."""
    x = np.linspace(-1, 1, 12)[:, None]
    like = tc.GaussianRegression(x, np.sin(2 * x[:, 0]), noise=0.5)

    levels = jax.vmap(like.log_prob)

    def ratio_of_changes(make):
        fine = make(512)

        @jax.jit
        def medians(key):
            draws = fine.sample(key, (300,))

            def median(coarse):
                short = jax.vmap(lambda z: fine.restrict(z, coarse))(draws)
                change = levels(fine.evaluate(draws, x)) - levels(coarse.evaluate(short, x))
                return jnp.median(jnp.abs(change))

            return median(make(64)), median(make(8))

        late, early = medians(jax.random.key(1))
        return float(late) / float(early)

    def trace_class(n):
        return tc.TraceClassNetwork(num_inputs=1, widths=(n,), alpha=1.5)

    def iid(n):
        return tc.IidNetwork(num_inputs=1, widths=(n,), weight_variance=0.3)

    ratio = {make.__name__: ratio_of_changes(make) for make in (trace_class, iid)}
    assert ratio["trace_class"] < 0.3
    assert ratio["iid"] > 0.5


@pytest.mark.long
def test_a_chain_goes_on_at_a_larger_width():
    """The promise of the paper's introduction: nodes added in the middle of a run."""
    x = np.linspace(-1, 1, 10)[:, None]
    like = tc.GaussianRegression(x, np.sin(2 * x[:, 0]), noise=0.3)
    narrow = tc.TraceClassNetwork(num_inputs=1, widths=(50,), alpha=1.5)
    wide = narrow.refine(widths=(500,))
    settings = {"num_chains": 4, "step_size": 0.1, "thin": 20, "progress": False}
    before = tc.sample(tc.Posterior(narrow, like), tc.pcn, num_samples=50, **settings)
    keys = jax.random.split(jax.random.key(0), 4)
    prolong = jax.jit(jax.vmap(lambda key, z: narrow.prolong(key, z, wide)))
    starts = prolong(keys, before.positions[:, -1])
    after = tc.sample(
        tc.Posterior(wide, like), tc.pcn, num_samples=50, num_warmup=0,
        initial_positions=starts, **settings,
    )  # fmt: skip
    jump = after.draws["log_likelihood"][:, 0] - before.draws["log_likelihood"][:, -1]
    spread = before.draws["log_likelihood"].std()
    assert np.abs(jump).max() < 6 * spread
    assert after.acceptance_rate == pytest.approx(before.acceptance_rate, abs=0.1)
