"""Hyperparameters inferred: the scales they give, their laws, and what is refused."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from as_shipped import OPTIONS
from by_night import by_night
from scipy.stats import kstest, lognorm, norm, uniform

import traceclass as tc
from traceclass.kernels.states import GradientState
from traceclass.priors.tails import StudentTails

ALPHA = tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5)
POSITIVE = tc.LogNormal(median=2.0, sigma=0.7)
POINTS = np.random.default_rng(0).uniform(size=(7, 2))
GRID = np.stack(np.meshgrid([0.1, 0.5, 0.8], [0.2, 0.9], indexing="ij"), axis=-1).reshape(-1, 2)


def normals(size, seed=1):
    """A position, made without a program for each length."""
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def seen(prior, points):
    """What makes `prior.at(points)` of nothing: a grid is seen as one outside a program only."""
    values_of = prior.at(points) if points is GRID else None
    return lambda: prior.at(points) if values_of is None else values_of


def network(**changed):
    return tc.TraceClassNetwork(**({"num_inputs": 2, "widths": (4, 3)} | changed))


def iid(**changed):
    return tc.IidNetwork(**({"num_inputs": 2, "widths": (4, 3)} | changed))


def fourier(interaction):
    def make(**changed):
        return tc.FourierSeries(
            **({"num_inputs": 2, "max_frequency": 3, "interaction": interaction} | changed)
        )

    return make


def cosine(**changed):
    return tc.CosineSeries(**({"num_modes": 4} | changed))


def sines(eigenvalues=(1.0, 0.5, 0.25)):
    k = np.arange(1, 1 + len(eigenvalues))
    return tc.Series(lambda x: jnp.sin(jnp.pi * k * x[:, :1]), eigenvalues, num_inputs=2)


# A prior, the laws of its hyperparameters, the values they take; then the same prior built with
# these numbers, and the deviation that multiplies it where it has no such argument.
CASES = {
    "tcNN": (
        network(),
        {"alpha": ALPHA, "weight_variance": POSITIVE, "bias_variance": POSITIVE},
        {"alpha": 2.3, "weight_variance": 3.0, "bias_variance": 0.4},
        network(alpha=2.3, weight_variance=3.0, bias_variance=0.4),
    ),
    "tcNN, alpha alone": (
        network(weight_variance=(1.0, 2.0, 3.0)),
        {"alpha": tc.Uniform(low=1.0, high=3.0)},
        {"alpha": 1.2},
        network(alpha=1.2, weight_variance=(1.0, 2.0, 3.0)),
    ),
    "tcNN, a law a layer": (
        network(),
        {"weight_variance": (POSITIVE, 5.0, POSITIVE), "bias_variance": [2.0, 2.0, POSITIVE]},
        {
            "weight_variance": np.array([0.5, 5.0, 4.0]),
            "bias_variance": np.array([2.0, 2.0, 0.3]),
        },
        network(weight_variance=(0.5, 5.0, 4.0), bias_variance=(2.0, 2.0, 0.3)),
    ),
    "iid": (
        iid(),
        {"weight_variance": POSITIVE},
        {"weight_variance": 0.6},
        iid(weight_variance=0.6),
    ),
    "Fourier": (fourier(2)(), {"alpha": ALPHA}, {"alpha": 2.6}, fourier(2)(alpha=2.6)),
    "Fourier, no pairs": (fourier(1)(), {"alpha": ALPHA}, {"alpha": 2.6}, fourier(1)(alpha=2.6)),
    "Fourier, full": (
        fourier("full")(),
        {"alpha": ALPHA},
        {"alpha": 2.6},
        fourier("full")(alpha=2.6),
    ),
    "cosine": (cosine(), {"exponent": ALPHA}, {"exponent": 1.9}, cosine(exponent=1.9)),
}
TIMES_VARIANCE = {
    "Fourier": (fourier(2)(), {"alpha": ALPHA, "variance": POSITIVE}, {"alpha": 2.0}),
    "Fourier, full": (fourier("full")(), {"variance": POSITIVE}, {}),
    "cosine": (cosine(), {"variance": POSITIVE}, {}),
    "own series": (sines(), {"variance": POSITIVE}, {}),
}


RARER = ["tcNN, alpha alone", "iid", "Fourier, no pairs", "Fourier, full"]


@pytest.mark.parametrize("points", [POINTS, GRID], ids=["scattered", "grid"])
@pytest.mark.parametrize("name", by_night(CASES, long=RARER))
def test_scales_are_those_of_the_prior_with_these_numbers(name, points):
    prior, laws, numbers, expected = CASES[name]
    hyper = tc.Hyper(prior, **laws)
    our_values_of, their_values_of = seen(hyper, points), seen(expected, points)

    @jax.jit
    def evaluated(numbers, z):
        position = hyper.position(numbers, z)
        values = our_values_of()(position), their_values_of()(z)
        return values, (hyper.parameters(position), expected.parameters(z))

    values, parameters = evaluated(numbers, normals(prior.num_coordinates))
    np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(*map(jax.tree.leaves, parameters), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("name", TIMES_VARIANCE)
def test_variance_multiplies_all_variances(name):
    prior, laws, others = TIMES_VARIANCE[name]
    hyper = tc.Hyper(prior, **laws)

    @jax.jit
    def evaluated(numbers, z):
        position = hyper.position(numbers, z)
        values = hyper.at(POINTS)(position), prior.at(POINTS)(z)
        return values, (hyper.parameters(position), prior.parameters(z))

    values, parameters = evaluated(others | {"variance": 9.0}, normals(prior.num_coordinates))
    np.testing.assert_allclose(values[0], 3 * np.asarray(values[1]), rtol=1e-5, atol=1e-6)
    for mine, other in zip(*map(jax.tree.leaves, parameters), strict=True):
        np.testing.assert_allclose(mine, 3 * np.asarray(other), rtol=1e-5)


def test_tails_act_on_the_coordinates_of_the_function_alone():
    hyper = tc.Hyper(network(), alpha=ALPHA, tails="student", df=5)

    @jax.jit
    def evaluated(z):
        expected = network(alpha=1.8).at(POINTS)(StudentTails(df=5)(z))
        return hyper.at(POINTS)(hyper.position({"alpha": 1.8}, z)), expected

    values, expected = evaluated(normals(hyper.prior.num_coordinates))
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_tails_alone_have_no_coordinates():
    prior = network()
    hyper = tc.Hyper(prior, tails="laplace")
    assert hyper.blocks() == prior.blocks()
    assert hyper.num_coordinates == prior.num_coordinates
    z = normals(prior.num_coordinates)
    assert hyper.hyperparameters(z) == {}
    np.testing.assert_array_equal(hyper.position({}, z), z)
    both = jax.jit(lambda z: (hyper.at(POINTS)(z), prior.at(POINTS)(hyper.tails(z))))
    np.testing.assert_allclose(*both(z), rtol=1e-6, atol=1e-7)


def test_noise_alone_leaves_the_function_bit_for_bit():
    prior = network()
    hyper = tc.Hyper(prior, noise=POSITIVE)
    z = prior.sample(jax.random.key(0))
    # Operation by operation: compiled as a whole, the two may round differently.
    np.testing.assert_array_equal(
        hyper.at(POINTS)(hyper.position({"noise": 0.3}, z)), prior.at(POINTS)(z)
    )


def test_the_function_has_finite_slopes_at_zero_and_far_out():
    hyper = tc.Hyper(network(), alpha=ALPHA, bias_variance=POSITIVE, tails="student", df=4)
    values_of = hyper.at(POINTS)
    slopes_at = jax.jit(jax.grad(lambda z: jnp.sum(values_of(z))))
    rest = np.ones(hyper.num_coordinates - 2, np.float32)
    for position in (0 * np.r_[rest, 1, 1], np.r_[9, 1, rest], np.r_[-9, -9, rest]):
        assert np.isfinite(np.asarray(slopes_at(position.astype(np.float32)))).all()


def test_hyperparameters_have_their_laws():
    """Kolmogorov-Smirnov on 4,000 draws each: false alarm 1e-6 a law."""
    hyper = tc.Hyper(
        network(),
        alpha=ALPHA,
        weight_variance=(POSITIVE, 5.0, tc.Uniform(low=0.5, high=2.5)),
        noise=tc.LogNormal(median=0.1, sigma=1.5),
    )
    sampled = jax.jit(lambda key: jax.vmap(hyper.hyperparameters)(hyper.sample(key, (4000,))))
    draws = jax.tree.map(np.asarray, sampled(jax.random.key(3)))
    weights = draws["weight_variance"]
    assert weights.shape == (4000, 3)
    assert (weights[:, 1] == 5.0).all()
    laws = [
        (draws["alpha"], lognorm(0.5, loc=1.0, scale=0.5)),
        (weights[:, 0], lognorm(0.7, scale=2.0)),
        (weights[:, 2], uniform(0.5, 2.0)),
        (draws["noise"], lognorm(1.5, scale=0.1)),
    ]
    for values, law in laws:
        assert kstest(np.asarray(values, dtype=np.float64), law.cdf).pvalue > 1e-6
    assert float(jax.jit(hyper.noise)(np.zeros(hyper.num_coordinates))) == pytest.approx(0.1)


def test_layout_of_a_position():
    hyper = tc.Hyper(network(), alpha=ALPHA, bias_variance=[POSITIVE, 1.0, POSITIVE])
    assert hyper.names == ("alpha", "bias_variance")
    assert hyper.num_hyperparameters == 3
    assert hyper.blocks() == ((3,), *hyper.prior.blocks())
    assert hyper.num_coordinates == 3 + hyper.prior.num_coordinates
    assert hyper.floats_per_value == hyper.prior.floats_per_value
    position = np.eye(hyper.num_coordinates, dtype=np.float32)[1]
    found = jax.jit(hyper.hyperparameters)(position)
    assert float(found["alpha"]) == 1.5
    np.testing.assert_allclose(found["bias_variance"], [2 * np.exp(0.7), 1.0, 2.0], rtol=1e-6)


def test_evaluate_and_domain_are_those_of_the_inner_prior():
    hyper = tc.Hyper(fourier(2)(), variance=POSITIVE)
    assert (hyper.num_inputs, hyper.inputs, hyper.on_unit_cube) == (2, None, True)
    both = jax.jit(lambda z: (hyper.evaluate(z, POINTS), jax.vmap(hyper.at(POINTS))(z)))
    positions = normals((3, hyper.num_coordinates))
    np.testing.assert_allclose(*both(positions), rtol=1e-5)
    with pytest.warns(UserWarning, match="outside the prior's box"):
        hyper.at(POINTS + 1.0)
    with pytest.raises(ValueError, match="made for num_inputs=2"):
        hyper.at(np.zeros((2, 3)))


def test_refinement_keeps_the_hyperparameters():
    coarse = tc.Hyper(network(), alpha=ALPHA, noise=POSITIVE, tails="student", df=4)
    fine = coarse.refine(widths=(9, 5))
    z = normals(coarse.num_coordinates)
    prolong = jax.jit(lambda key, z: coarse.prolong(key, z, fine))
    prolonged = np.asarray(prolong(jax.random.key(1), z))
    np.testing.assert_array_equal(fine.restrict(prolonged, coarse), z)
    np.testing.assert_array_equal(prolonged[:2], z[:2])
    np.testing.assert_array_equal(
        coarse.prior.restrict(z[2:], coarse.prior), fine.prior.restrict(prolonged[2:], coarse.prior)
    )
    assert fine.prior.widths == (9, 5)
    # Made apart from the same numbers, it is a refinement too.
    same = tc.Hyper(
        network(widths=(9, 5)),
        alpha=tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5),
        noise=tc.LogNormal(median=2.0, sigma=0.7),
        tails="student",
        df=4,
    )
    np.testing.assert_array_equal(same.restrict(prolonged, coarse), z)


@pytest.mark.parametrize(
    "other",
    [
        network(widths=(9, 5)),
        tc.Hyper(network(widths=(9, 5)), alpha=tc.Uniform(low=1, high=2)),
        tc.Hyper(network(widths=(9, 5)), weight_variance=POSITIVE),
        tc.Hyper(network(widths=(9, 5)), alpha=ALPHA, tails="laplace"),
        tc.Hyper(network(widths=(9, 5), bias_variance=2.0), alpha=ALPHA),
    ],
)
def test_another_prior_is_no_refinement(other):
    coarse = tc.Hyper(network(), alpha=ALPHA)
    with pytest.raises(ValueError, match="is not a refinement"):
        coarse.prolong(None, normals(coarse.num_coordinates), other)


def test_own_series_is_refined_by_its_eigenvalues():
    coarse = tc.Hyper(sines(), variance=POSITIVE)
    k = np.arange(1, 5)
    fine = coarse.refine(
        basis=lambda x: jnp.sin(jnp.pi * k * x[:, :1]), eigenvalues=(1.0, 0.5, 0.25, 0.1)
    )
    z = normals(coarse.num_coordinates)
    there_and_back = jax.jit(lambda key, z: fine.restrict(coarse.prolong(key, z, fine), coarse))
    assert there_and_back(jax.random.key(1), z).tolist() == z.tolist()
    with pytest.raises(ValueError, match="is not a refinement"):
        coarse.prolong(jax.random.key(1), z, tc.Hyper(sines((1.0, 0.4, 0.2)), variance=POSITIVE))


H = np.linspace(-9.0, 9.0, 73)


@pytest.mark.parametrize(
    ("law", "exact"),
    [
        (tc.LogNormal(median=3.0, sigma=1.2), lambda h: 3 * np.exp(1.2 * h)),
        (
            tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5),
            lambda h: 1 + 0.5 * np.exp(h / 2),
        ),
        (tc.Uniform(low=0.0, high=4.0), lambda h: 4 * norm.cdf(h)),
        (tc.Uniform(low=1.0, high=3.0), lambda h: 1 + 2 * norm.cdf(h)),
    ],
)
def test_hyperpriors_are_their_maps(law, exact):
    # The tail exp(-h^2/2) turns the rounding of h^2/2, up to 40, into a relative error of 5e-6.
    values_of = jax.jit(jax.vmap(law), compiler_options=OPTIONS)
    slopes_of = jax.jit(jax.vmap(jax.grad(law)), compiler_options=OPTIONS)
    np.testing.assert_allclose(values_of(H.astype(np.float32)), exact(H), rtol=1e-5)
    slopes = slopes_of(H.astype(np.float32))
    assert np.isfinite(slopes).all()
    assert (np.asarray(slopes) > 0).all()
    low, high = law.support
    assert low <= float(law(-9.0)) < float(law(9.0)) <= high
    with jax.enable_x64(True):
        middle = H[abs(H) < 5]
        np.testing.assert_allclose(values_of(middle), exact(middle), rtol=1e-12)
        back = jax.jit(jax.vmap(lambda h: law.coordinate(law(h))), compiler_options=OPTIONS)
        np.testing.assert_allclose(back(middle), middle, atol=1e-8)
        step = 1e-6
        ahead, behind = np.asarray(values_of(middle + step)), np.asarray(values_of(middle - step))
        differences = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(slopes_of(middle), differences, rtol=1e-5, atol=1e-9)


def test_a_function_is_a_hyperprior():
    hyper = tc.Hyper(network(), alpha=lambda h: 1 + jax.nn.softplus(h), noise=jnp.exp)
    found = jax.jit(hyper.hyperparameters)(np.zeros(hyper.num_coordinates))
    assert float(found["alpha"]) == pytest.approx(1 + np.log(2))
    assert float(found["noise"]) == 1.0
    with pytest.raises(ValueError, match=r"the coordinate of 1\.5 is not known"):
        hyper.position({"alpha": 1.5, "noise": 1.0}, np.zeros(hyper.prior.num_coordinates))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tc.LogNormal(median=0.0, sigma=1.0), "median must be positive"),
        (lambda: tc.LogNormal(median=1.0, sigma=-1.0), "sigma must be positive"),
        (lambda: tc.LogNormal(median=1.0, sigma=20.0), r"sigma must be at most 9.\d+ here, got 20"),
        (lambda: tc.ShiftedLogNormal(low=1.0, median=1.0, sigma=1.0), "needs low < median"),
        (lambda: tc.ShiftedLogNormal(low=np.nan, median=1.0, sigma=1.0), "low must be finite"),
        (lambda: tc.Uniform(low=2.0, high=1.0), "Uniform needs low < high, got low=2.0, high=1.0"),
        (lambda: tc.Uniform(low=0.0, high=np.inf), "high must be finite, got inf"),
    ],
)
def test_laws_that_cannot_be_are_explained(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_laws_of_other_things_than_numbers_are_explained():
    with pytest.raises(TypeError, match="low must be a number, got '1'"):
        tc.Uniform(low="1", high=2.0)


@pytest.mark.parametrize(
    ("prior", "given", "error", "words"),
    [
        (network(), {}, ValueError, "nothing to infer. TraceClassNetwork has alpha, weight_var"),
        (iid(), {"alpha": ALPHA}, ValueError, "IidNetwork has no alpha to infer. It has weight_v"),
        (cosine(), {"alpha": ALPHA}, ValueError, "no alpha to infer. It has exponent, variance, n"),
        (sines(), {"exponent": ALPHA}, ValueError, "Series has no exponent.*It has variance, nois"),
        (network(), {"variance": POSITIVE}, ValueError, "TraceClassNetwork has no variance"),
        (
            network(),
            {"alpha": POSITIVE},
            ValueError,
            r"needs alpha > 1, got .* down to 0. .*not summable.*ShiftedLogNormal\(low=1",
        ),
        (fourier(2)(), {"alpha": tc.Uniform(low=0.9, high=2)}, ValueError, "down to 0.9"),
        (fourier(2)(), {"alpha": lambda h: 1 + jax.nn.relu(h)}, ValueError, "down to 1. "),
        (
            cosine(),
            {"exponent": jnp.exp},
            ValueError,
            "needs exponent > 1, got .* down to 0.000123",
        ),
        (
            network(),
            {"noise": tc.Uniform(low=-1, high=1)},
            ValueError,
            "noise must be positive, got a hyperprior with values down to -1",
        ),
        (
            network(),
            {"weight_variance": [POSITIVE, 1.0, tc.Uniform(low=-2, high=1)]},
            ValueError,
            r"weight_variance\[2\] must be positive.* down to -2",
        ),
        (
            network(),
            {"weight_variance": [POSITIVE, 1.0]},
            ValueError,
            "each of the 3 layers.*got 2",
        ),
        (
            network(),
            {"weight_variance": [POSITIVE, -1.0, 1.0]},
            ValueError,
            r"weight_variance\[1\] must be a hyperprior or a positive number, got -1.0",
        ),
        (network(), {"weight_variance": [1.0, 1.0, 1.0]}, TypeError, "holds numbers only"),
        (network(), {"alpha": 1.5}, TypeError, "alpha needs a hyperprior.*got 1.5.*the prior its"),
        (network(), {"noise": 0.1}, TypeError, "set it in the likelihood itself"),
        (network(), {"alpha": [ALPHA]}, TypeError, "alpha needs a hyperprior"),
        (network(), {"noise": lambda h: h}, ValueError, "positive and finite.*got -9 at h = -9"),
        (network(), {"noise": lambda h: h * jnp.ones(2)}, ValueError, r"number, got shape \(2,\)"),
        (network(), {"alpha": ALPHA, "df": 4.0}, ValueError, "belongs to tails"),
        (network(), {"tails": "cauchy"}, ValueError, "unknown tails 'cauchy'"),
        (tc.Hyper(network(), alpha=ALPHA), {"noise": POSITIVE}, TypeError, "in one Hyper"),
    ],
)
def test_what_cannot_be_inferred_is_explained(prior, given, error, words):
    with pytest.raises(error, match=words):
        tc.Hyper(prior, **given)


def test_positions_need_every_hyperparameter():
    hyper = tc.Hyper(network(), alpha=ALPHA, weight_variance=[POSITIVE, 1.0, 2.0])
    z = np.zeros(hyper.prior.num_coordinates)
    with pytest.raises(ValueError, match="each of alpha, weight_variance, got alpha"):
        hyper.position({"alpha": 1.5}, z)
    with pytest.raises(ValueError, match=r"weight_variance must have shape \(3,\), got \(\)"):
        hyper.position({"alpha": 1.5, "weight_variance": 2.0}, z)
    with pytest.raises(ValueError, match="z must have shape"):
        hyper.position({"alpha": 1.5, "weight_variance": [2.0, 1.0, 2.0]}, z[:-1])
    with pytest.raises(ValueError, match="a position must have shape"):
        hyper.hyperparameters(z)


@pytest.mark.long
def test_kernels_run_and_hyperparameters_are_recorded():
    hyper = tc.Hyper(network(), alpha=ALPHA, weight_variance=POSITIVE, noise=POSITIVE)
    likelihood = tc.GaussianRegression(POINTS, np.sin(3 * POINTS[:, 0]), noise=1.0)
    posterior = tc.Posterior(hyper, likelihood)
    run = tc.sample(
        posterior,
        tc.hmc.using(num_kicks=4),
        step_size=0.1,
        num_chains=2,
        num_warmup=5,
        num_samples=10,
        progress=False,
        record={name: lambda z, name=name: hyper.hyperparameters(z)[name] for name in hyper.names},
    )
    expected = jax.jit(jax.vmap(jax.vmap(hyper.hyperparameters)))(run.positions)
    for name in hyper.names:
        np.testing.assert_allclose(run.draws[name], expected[name], rtol=1e-5)
    assert run.predict(POINTS[:2]).mean.shape == (2,)


@eqx.filter_jit
def state_and_values(posterior, z):
    return GradientState(z, *posterior.log_likelihood_and_gradient(z)), posterior.values_of(z)


@pytest.mark.parametrize(
    "laws",
    [{"alpha": ALPHA}, {"weight_variance": tc.LogNormal(median=2.0, sigma=1.0)}],
    ids=lambda laws: next(iter(laws)),
)
@pytest.mark.parametrize(
    "kernel",
    [
        tc.node_swap,
        pytest.param(tc.block_node_swap.using(block=2), marks=pytest.mark.long),
    ],
    ids=lambda kernel: kernel.name,
)
def test_swaps_of_nodes_keep_what_is_cached(laws, kernel):
    """Function, log-likelihood and gradient, hyperparameters included, after 40 swaps."""
    hyper = tc.Hyper(network(), **laws)
    posterior = tc.Posterior(hyper, tc.GaussianRegression(POINTS, np.ones(7), noise=1.0))
    algorithm = kernel.assemble(posterior, kernel.tuning(()))
    z = hyper.sample(jax.random.key(3))
    state, values_before = state_and_values(posterior, z)

    @jax.jit
    def walk(state, key):
        def step(state, key):
            state, info = algorithm.step(key, state)
            return state, info.is_accepted

        return jax.lax.scan(step, state, jax.random.split(key, 40))

    end, accepted = jax.tree.map(np.asarray, walk(state, jax.random.key(4)))
    assert accepted.any()
    assert not np.array_equal(end.position, z)
    assert end.position[0] == np.asarray(z)[0]
    expected, values = state_and_values(posterior, end.position)
    np.testing.assert_allclose(end.log_likelihood, expected.log_likelihood, rtol=1e-4)
    np.testing.assert_allclose(end.gradient, expected.gradient, rtol=1e-3, atol=1e-3)
    if kernel is tc.node_swap:
        np.testing.assert_allclose(values, values_before, atol=1e-4)


def test_swaps_of_nodes_need_gaussian_weights():
    hyper = tc.Hyper(network(), tails="laplace")
    posterior = tc.Posterior(hyper, tc.GaussianRegression(POINTS, np.zeros(7), noise=1.0))
    for kernel in (tc.node_swap, tc.block_node_swap):
        with pytest.raises(ValueError, match="needs Gaussian weights, got a Hyper with tails"):
            kernel.assemble(posterior, kernel.tuning(()))
