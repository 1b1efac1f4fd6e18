"""Hyperparameters inferred: the scales they give, their laws, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from as_shipped import OPTIONS
from scipy.stats import kstest, lognorm, norm, uniform

import traceclass as tc
from traceclass.kernels.states import GradientState
from traceclass.priors.tails import StudentTails

ALPHA = tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5)
POSITIVE = tc.LogNormal(median=2.0, sigma=0.7)
POINTS = np.random.default_rng(0).uniform(size=(7, 2))
GRID = np.stack(np.meshgrid([0.1, 0.5, 0.8], [0.2, 0.9], indexing="ij"), axis=-1).reshape(-1, 2)


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
    k = jnp.arange(1, 1 + len(eigenvalues))
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


@pytest.mark.parametrize("points", [POINTS, GRID], ids=["scattered", "grid"])
@pytest.mark.parametrize("name", CASES)
def test_scales_are_those_of_the_prior_with_these_numbers(name, points):
    prior, laws, numbers, expected = CASES[name]
    hyper = tc.Hyper(prior, **laws)
    z = prior.sample(jax.random.key(1))
    position = hyper.position(numbers, z)
    values = jax.jit(hyper.at(points))(position)
    np.testing.assert_allclose(values, jax.jit(expected.at(points))(z), rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(
        jax.tree.leaves(jax.jit(hyper.parameters)(position)),
        jax.tree.leaves(jax.jit(expected.parameters)(z)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("name", TIMES_VARIANCE)
def test_variance_multiplies_all_variances(name):
    prior, laws, others = TIMES_VARIANCE[name]
    hyper = tc.Hyper(prior, **laws)
    z = prior.sample(jax.random.key(1))
    position = hyper.position(others | {"variance": 9.0}, z)
    np.testing.assert_allclose(
        jax.jit(hyper.at(POINTS))(position),
        3 * np.asarray(jax.jit(prior.at(POINTS))(z)),
        rtol=1e-5,
        atol=1e-6,
    )
    ours = jax.tree.leaves(jax.jit(hyper.parameters)(position))
    theirs = jax.tree.leaves(jax.jit(prior.parameters)(z))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, 3 * np.asarray(other), rtol=1e-5)


def test_tails_act_on_the_coordinates_of_the_function_alone():
    hyper = tc.Hyper(network(), alpha=ALPHA, tails="student", df=5)
    z = hyper.prior.sample(jax.random.key(2))
    expected = network(alpha=1.8).at(POINTS)(StudentTails(df=5)(z))
    values = hyper.at(POINTS)(hyper.position({"alpha": 1.8}, z))
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_tails_alone_have_no_coordinates():
    prior = network()
    hyper = tc.Hyper(prior, tails="laplace")
    assert hyper.blocks() == prior.blocks()
    assert hyper.num_coordinates == prior.num_coordinates
    z = prior.sample(jax.random.key(0))
    assert hyper.hyperparameters(z) == {}
    np.testing.assert_array_equal(hyper.position({}, z), z)
    np.testing.assert_allclose(
        hyper.at(POINTS)(z), prior.at(POINTS)(hyper.tails(z)), rtol=1e-6, atol=1e-7
    )


def test_noise_alone_leaves_the_function_bit_for_bit():
    prior = network()
    hyper = tc.Hyper(prior, noise=POSITIVE)
    z = prior.sample(jax.random.key(0))
    np.testing.assert_array_equal(
        hyper.at(POINTS)(hyper.position({"noise": 0.3}, z)), prior.at(POINTS)(z)
    )


def test_the_function_has_finite_slopes_at_zero_and_far_out():
    hyper = tc.Hyper(network(), alpha=ALPHA, bias_variance=POSITIVE, tails="student", df=4)
    values_of = hyper.at(POINTS)
    slopes_at = jax.jit(jax.grad(lambda z: jnp.sum(values_of(z))))
    for position in (
        jnp.zeros(hyper.num_coordinates),
        jnp.ones(hyper.num_coordinates).at[0].set(9.0),
        jnp.ones(hyper.num_coordinates).at[:2].set(-9.0),
    ):
        assert np.isfinite(np.asarray(slopes_at(position))).all()


def test_hyperparameters_have_their_laws():
    """Kolmogorov-Smirnov on 4,000 draws each: false alarm 1e-6 a law."""
    hyper = tc.Hyper(
        network(),
        alpha=ALPHA,
        weight_variance=(POSITIVE, 5.0, tc.Uniform(low=0.5, high=2.5)),
        noise=tc.LogNormal(median=0.1, sigma=1.5),
    )
    draws = jax.jit(jax.vmap(hyper.hyperparameters))(hyper.sample(jax.random.key(3), (4000,)))
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
    assert float(hyper.noise(jnp.zeros(hyper.num_coordinates))) == pytest.approx(0.1)


def test_layout_of_a_position():
    hyper = tc.Hyper(network(), alpha=ALPHA, bias_variance=[POSITIVE, 1.0, POSITIVE])
    assert hyper.names == ("alpha", "bias_variance")
    assert hyper.num_hyperparameters == 3
    assert hyper.blocks() == ((3,), *hyper.prior.blocks())
    assert hyper.num_coordinates == 3 + hyper.prior.num_coordinates
    assert hyper.floats_per_value == hyper.prior.floats_per_value
    position = jnp.zeros(hyper.num_coordinates).at[1].set(1.0)
    found = hyper.hyperparameters(position)
    assert float(found["alpha"]) == 1.5
    np.testing.assert_allclose(found["bias_variance"], [2 * np.exp(0.7), 1.0, 2.0], rtol=1e-6)


def test_evaluate_and_domain_are_those_of_the_inner_prior():
    hyper = tc.Hyper(fourier(2)(), variance=POSITIVE)
    assert (hyper.num_inputs, hyper.inputs, hyper.on_unit_cube) == (2, None, True)
    positions = hyper.sample(jax.random.key(0), (3,))
    np.testing.assert_allclose(
        hyper.evaluate(positions, POINTS), jax.vmap(hyper.at(POINTS))(positions), rtol=1e-5
    )
    with pytest.warns(UserWarning, match="outside the prior's box"):
        hyper.at(POINTS + 1.0)
    with pytest.raises(ValueError, match="made for num_inputs=2"):
        hyper.at(np.zeros((2, 3)))


def test_refinement_keeps_the_hyperparameters():
    coarse = tc.Hyper(network(), alpha=ALPHA, noise=POSITIVE, tails="student", df=4)
    fine = coarse.refine(widths=(9, 5))
    z = coarse.sample(jax.random.key(0))
    prolonged = coarse.prolong(jax.random.key(1), z, fine)
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
        coarse.prolong(jax.random.key(0), coarse.sample(jax.random.key(0)), other)


def test_own_series_is_refined_by_its_eigenvalues():
    coarse = tc.Hyper(sines(), variance=POSITIVE)
    k = jnp.arange(1, 5)
    fine = coarse.refine(
        basis=lambda x: jnp.sin(jnp.pi * k * x[:, :1]), eigenvalues=(1.0, 0.5, 0.25, 0.1)
    )
    z = coarse.sample(jax.random.key(0))
    assert fine.restrict(coarse.prolong(jax.random.key(1), z, fine), coarse).tolist() == z.tolist()
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
        middle = jnp.asarray(H[abs(H) < 5])
        np.testing.assert_allclose(values_of(middle), exact(np.asarray(middle)), rtol=1e-12)
        back = jax.jit(jax.vmap(lambda h: law.coordinate(law(h))), compiler_options=OPTIONS)
        np.testing.assert_allclose(back(middle), middle, atol=1e-8)
        step = 1e-6
        differences = (values_of(middle + step) - values_of(middle - step)) / (2 * step)
        np.testing.assert_allclose(slopes_of(middle), differences, rtol=1e-5, atol=1e-9)


def test_a_function_is_a_hyperprior():
    hyper = tc.Hyper(network(), alpha=lambda h: 1 + jax.nn.softplus(h), noise=jnp.exp)
    found = hyper.hyperparameters(jnp.zeros(hyper.num_coordinates))
    assert float(found["alpha"]) == pytest.approx(1 + np.log(2))
    assert float(found["noise"]) == 1.0
    with pytest.raises(ValueError, match=r"the coordinate of 1\.5 is not known"):
        hyper.position({"alpha": 1.5, "noise": 1.0}, jnp.zeros(hyper.prior.num_coordinates))


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
    z = jnp.zeros(hyper.prior.num_coordinates)
    with pytest.raises(ValueError, match="each of alpha, weight_variance, got alpha"):
        hyper.position({"alpha": 1.5}, z)
    with pytest.raises(ValueError, match=r"weight_variance must have shape \(3,\), got \(\)"):
        hyper.position({"alpha": 1.5, "weight_variance": 2.0}, z)
    with pytest.raises(ValueError, match="z must have shape"):
        hyper.position({"alpha": 1.5, "weight_variance": [2.0, 1.0, 2.0]}, z[:-1])
    with pytest.raises(ValueError, match="a position must have shape"):
        hyper.hyperparameters(z)


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
    positions = jnp.asarray(run.positions)
    for name in hyper.names:
        expected = jax.vmap(jax.vmap(lambda z, name=name: hyper.hyperparameters(z)[name]))(
            positions
        )
        np.testing.assert_allclose(run.draws[name], expected, rtol=1e-5)
    assert run.predict(POINTS[:2]).mean.shape == (2,)


@pytest.mark.parametrize(
    "laws",
    [{"alpha": ALPHA}, {"weight_variance": tc.LogNormal(median=2.0, sigma=1.0)}],
    ids=lambda laws: next(iter(laws)),
)
@pytest.mark.parametrize(
    "kernel", [tc.node_swap, tc.block_node_swap.using(block=2)], ids=lambda kernel: kernel.name
)
def test_swaps_of_nodes_keep_what_is_cached(laws, kernel):
    """Function, log-likelihood and gradient, hyperparameters included, after 40 swaps."""
    hyper = tc.Hyper(network(), **laws)
    posterior = tc.Posterior(hyper, tc.GaussianRegression(POINTS, np.ones(7), noise=1.0))
    algorithm = kernel.assemble(posterior, kernel.tuning(()))
    z = hyper.sample(jax.random.key(3))
    level_and_gradient = jax.jit(posterior.log_likelihood_and_gradient)
    begin = GradientState(z, *level_and_gradient(z))
    keys = jax.random.split(jax.random.key(4), 40)

    def step(state, key):
        state, info = algorithm.step(key, state)
        return state, info.is_accepted

    end, accepted = jax.jit(lambda state: jax.lax.scan(step, state, keys))(begin)
    assert accepted.any()
    assert not np.array_equal(end.position, z)
    assert end.position[0] == z[0]
    level, gradient = level_and_gradient(end.position)
    np.testing.assert_allclose(end.log_likelihood, level, rtol=1e-4)
    np.testing.assert_allclose(end.gradient, gradient, rtol=1e-3, atol=1e-3)
    if kernel is tc.node_swap:
        values = posterior.values_of(end.position)
        np.testing.assert_allclose(values, posterior.values_of(z), atol=1e-4)


def test_swaps_of_nodes_need_gaussian_weights():
    hyper = tc.Hyper(network(), tails="laplace")
    posterior = tc.Posterior(hyper, tc.GaussianRegression(POINTS, np.zeros(7), noise=1.0))
    for kernel in (tc.node_swap, tc.block_node_swap):
        with pytest.raises(ValueError, match="needs Gaussian weights, got a Hyper with tails"):
            kernel.assemble(posterior, kernel.tuning(()))
