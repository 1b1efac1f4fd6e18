"""Series priors against sums written out term by term, closed forms, and their own counts."""

from __future__ import annotations

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc
from traceclass.priors.product import ProductAtPoints, ProductOnGrid, grid_sides

POINTS = np.random.default_rng(0).uniform(0, 1, (6, 3))

evaluated = eqx.filter_jit(tc.Prior.evaluate)


def normals(size: int) -> np.ndarray:
    """A position of numbers of single precision, made without a program for each length."""
    return np.random.default_rng(1).normal(size=size).astype(np.float32).astype(np.float64)


@eqx.filter_jit
def there_and_back(prior: tc.Prior, z: np.ndarray) -> jax.Array:
    return prior.from_parameters(prior.parameters(z))


def waves(x: float, k: int) -> list[float]:
    return [np.sin(2 * np.pi * k * x), np.cos(2 * np.pi * k * x)]


def fourier_by_hand(prior: tc.FourierSeries, z: np.ndarray, x: np.ndarray) -> float:
    """eq. vf_approx, eq:fourier_basis and eq:fourier_eigenvalues, one term after the other."""
    coefficient = iter(z)
    value = 0.0
    frequencies = range(1, prior.max_frequency + 1)
    if prior.interaction == "full":
        terms = itertools.product(itertools.product(frequencies, (0, 1)), repeat=len(x))
        for term in terms:
            product = np.prod([waves(xi, k)[s] for xi, (k, s) in zip(x, term, strict=True)])
            sd = sum(k**2 for k, _ in term) ** (-prior.alpha / 4)
            value += next(coefficient) * sd * product
        return value
    for xi in x:
        for k in frequencies:
            for wave in waves(xi, k):
                value += next(coefficient) * k ** (-prior.alpha / 2) * wave
    if prior.interaction == 2:
        for xi, xj in itertools.combinations(x, 2):
            for k1 in frequencies:
                for first in waves(xi, k1):
                    for k2 in frequencies:
                        for second in waves(xj, k2):
                            sd = (k1**2 + k2**2) ** (-prior.alpha / 4)
                            value += next(coefficient) * sd * first * second
    assert next(coefficient, None) is None
    return value


@pytest.mark.parametrize(
    ("num_inputs", "interaction", "max_frequency"),
    [(1, 1, 5), (2, 2, 3), (3, 1, 4), (3, 2, 2), (2, "full", 3), (3, "full", 2), (1, "full", 4)],
)
def test_fourier_series_is_the_sum_of_the_paper(num_inputs, interaction, max_frequency):
    prior = tc.FourierSeries(
        num_inputs=num_inputs, max_frequency=max_frequency, alpha=2.3, interaction=interaction
    )
    z = normals(prior.num_coordinates)
    points = POINTS[:, :num_inputs]
    for x, value in zip(points, np.asarray(evaluated(prior, z, points)), strict=True):
        assert value == pytest.approx(fourier_by_hand(prior, z, x), abs=2e-5)


@pytest.mark.parametrize(
    ("num_inputs", "max_frequency", "interaction", "count"),
    [
        (2, 70, 2, 19_880),
        (17, 10, 2, 54_740),
        (2, 7, 2, 224),
        (17, 10, 1, 340),
        (3, 5, "full", 1000),
    ],
)
def test_coefficient_counts_are_the_papers(num_inputs, max_frequency, interaction, count):
    prior = tc.FourierSeries(
        num_inputs=num_inputs, max_frequency=max_frequency, interaction=interaction
    )
    assert prior.num_coordinates == count
    assert sum(np.prod(shape) for shape in prior.blocks()) == count


def test_cosine_series_is_the_sum_of_the_groundwater_example():
    prior = tc.CosineSeries(num_modes=4, exponent=1.1)
    z = normals(prior.num_coordinates)
    coefficients = z.reshape(4, 4)
    values = np.asarray(evaluated(prior, z, POINTS[:, :2]))
    for x, value in zip(POINTS[:, :2], values, strict=True):
        expected = 0.0
        for i1, i2 in itertools.product(range(1, 5), repeat=2):
            variance = (np.pi**2 * ((i1 - 0.5) ** 2 + (i2 - 0.5) ** 2)) ** -1.1
            wave = np.cos(np.pi * (i1 - 0.5) * x[0]) * np.cos(np.pi * (i2 - 0.5) * x[1])
            expected += coefficients[i1 - 1, i2 - 1] * np.sqrt(variance) * 2 * wave
        assert value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_a_grid_is_recognised_and_gives_the_same_values(indexing):
    x, y = np.linspace(0, 1, 7), np.linspace(0, 1, 5) ** 2
    grid = np.stack(np.meshgrid(x, y, indexing=indexing), axis=-1).reshape(-1, 2)
    prior = tc.CosineSeries(num_modes=6)
    on_grid = prior.at(grid)
    assert isinstance(on_grid, ProductOnGrid)
    shuffled = np.random.default_rng(0).permutation(len(grid))
    scattered = prior.at(grid[shuffled])
    assert isinstance(scattered, ProductAtPoints)
    both = jax.jit(lambda z: (on_grid(z), scattered(z)))
    values, expected = map(np.asarray, both(normals(prior.num_coordinates)))
    np.testing.assert_allclose(values[shuffled], expected, atol=1e-5)


def test_one_row_of_points_is_a_grid_and_gaps_are_not():
    line = np.stack([np.full(4, 0.3), np.linspace(0, 1, 4)], axis=1)
    assert grid_sides(jnp.asarray(line)) is not None
    assert grid_sides(jnp.asarray(line[:1])) is not None
    broken = np.concatenate([line, np.stack([np.full(3, 0.5), line[:3, 1]], axis=1)])
    assert grid_sides(jnp.asarray(broken)) is None


def test_own_series_is_its_basis_times_its_deviations():
    k = np.arange(1, 5)
    prior = tc.Series(lambda x: jnp.sin(k * x), 1.0 / k**3, num_inputs=1)
    z = normals(4)
    x = np.linspace(0, 2, 5)[:, None]
    expected = np.sin(k * x) @ (z * k**-1.5)
    np.testing.assert_allclose(evaluated(prior, z, x), expected, atol=1e-6)
    np.testing.assert_allclose(there_and_back(prior, z), z, rtol=1e-6)


@pytest.mark.parametrize(
    "prior",
    [
        tc.FourierSeries(num_inputs=3, max_frequency=3, alpha=2.5),
        tc.FourierSeries(num_inputs=2, max_frequency=3, alpha=3.0, interaction="full"),
        tc.CosineSeries(num_modes=5),
    ],
)
def test_from_parameters_undoes_parameters(prior):
    z = normals(prior.num_coordinates)
    np.testing.assert_allclose(there_and_back(prior, z), z, rtol=1e-5)


def fourier_covariance(prior: tc.FourierSeries, x: np.ndarray, y: np.ndarray) -> float:
    """Closed form: sum k^-a cos(2 pi k (x - y)), and the products of two for pairs."""
    k = np.arange(1, prior.max_frequency + 1)
    cosines = [np.cos(2 * np.pi * k * (a - b)) for a, b in zip(x, y, strict=True)]
    singles = sum(np.sum(k**-prior.alpha * c) for c in cosines)
    decay = (k[:, None] ** 2 + k**2) ** (-prior.alpha / 2)
    return singles + sum(a @ decay @ b for a, b in itertools.combinations(cosines, 2))


def test_fourier_covariance_is_the_closed_form():
    """20,000 functions at 6 points: 21 covariances within 5 standard errors."""
    prior = tc.FourierSeries(num_inputs=3, max_frequency=4, alpha=2.0)
    n = 20_000
    sampled = jax.jit(lambda key: prior.evaluate(prior.sample(key, (n,)), POINTS))
    values = np.asarray(sampled(jax.random.key(5)), dtype=float)
    for a, b in itertools.combinations_with_replacement(range(6), 2):
        products = values[:, a] * values[:, b]
        exact = fourier_covariance(prior, POINTS[a], POINTS[b])
        assert products.mean() == pytest.approx(exact, abs=5 * products.std() / np.sqrt(n))


def test_the_box_takes_the_place_of_the_unit_cube():
    """One period fills the box: the function is the same at opposite sides and nowhere between."""
    box = tc.scale_to_box([-2.0, 10.0], [2.0, 30.0])
    plain = tc.FourierSeries(num_inputs=2, max_frequency=3)
    boxed = tc.FourierSeries(num_inputs=2, max_frequency=3, inputs=box)
    z = normals(plain.num_coordinates)
    unit = POINTS[:, :2]
    stretched = unit * np.array([4.0, 20.0]) + np.array([-2.0, 10.0])
    values, expected = evaluated(boxed, z, stretched), evaluated(plain, z, unit)
    np.testing.assert_allclose(values, expected, atol=1e-4)
    line = np.array([[-2.0, 15.0], [0.0, 15.0], [2.0, 15.0]])
    ends = np.asarray(evaluated(boxed, z, line))
    assert ends[0] == pytest.approx(ends[2], abs=1e-4)
    assert abs(ends[1] - ends[0]) > 1e-2


def test_total_and_tail_variance_are_the_sums():
    """Closed forms against 4,000 terms a side and the integral of the rest."""
    prior = tc.FourierSeries(num_inputs=3, max_frequency=5, alpha=4.0)
    k = np.arange(1, 4001, dtype=float)
    lattice = np.sum((k[:, None] ** 2 + k**2) ** -2.0)
    exact = 3 * 2 * np.sum(k**-4.0) + 3 * 4 * lattice
    assert prior.total_variance() == pytest.approx(exact, rel=1e-6)
    kept = 3 * 2 * np.sum(k[:5] ** -4.0) + 12 * np.sum((k[:5, None] ** 2 + k[:5] ** 2) ** -2.0)
    assert prior.tail_variance(5) == pytest.approx(exact - kept, rel=1e-4)
    cosine = tc.CosineSeries(num_modes=3, exponent=2.0)
    half = k - 0.5
    lattice = np.sum((np.pi**2 * (half[:, None] ** 2 + half**2)) ** -2.0)
    assert cosine.total_variance() == pytest.approx(lattice, rel=1e-6)
    assert cosine.tail_variance(0) == cosine.total_variance()
    assert tc.FourierSeries(num_inputs=2, max_frequency=5, alpha=2.0).total_variance() == np.inf
    own = tc.Series(lambda x: x ** jnp.arange(3), [1.0, 0.5, 0.25], num_inputs=1)
    assert (own.total_variance(), own.tail_variance(1)) == (1.75, 0.75)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tc.FourierSeries(num_inputs=2, max_frequency=0), "max_frequency must be at least"),
        (lambda: tc.FourierSeries(num_inputs=2, max_frequency=3, alpha=1.0), "alpha > 1, got 1.0"),
        (lambda: tc.FourierSeries(num_inputs=1, max_frequency=3), "at least 2 inputs"),
        (lambda: tc.FourierSeries(num_inputs=3, max_frequency=3, interaction=3), '1, 2 or "full"'),
        (
            lambda: tc.FourierSeries(num_inputs=17, max_frequency=10, interaction="full"),
            r"has 13,107,200,000,000,000,000,000 coefficients.*GiB for one",
        ),
        (lambda: tc.CosineSeries(num_modes=0), "num_modes must be at least 1"),
        (lambda: tc.CosineSeries(num_modes=3, exponent=1.0), "exponent > 1, got 1.0"),
        (lambda: tc.CosineSeries(num_modes=10**6), "has 1,000,000,000,000 coefficients"),
        (lambda: tc.Series(lambda x: x, [1.0, 2.0], num_inputs=1), r"\(n, 2\).*to \(3, 1\)"),
        (lambda: tc.Series(lambda x: x, [0.0], num_inputs=1), "positive, got 0.0 at index 0"),
        (lambda: tc.Series(lambda x: x, [np.nan], num_inputs=1), "eigenvalues must be finite"),
        (lambda: tc.Series(lambda x: x, [], num_inputs=1), "one variance a basis function"),
    ],
)  # fmt: skip
def test_bad_arguments_are_explained(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.long
def test_series_work_with_every_likelihood():
    prior = tc.FourierSeries(
        num_inputs=2, max_frequency=3, inputs=tc.scale_to_box([-1.0, -1.0], [1.0, 1.0])
    )
    successors = np.random.default_rng(0).uniform(-1, 1, (5, 2, 2))
    posterior = tc.Posterior(prior, tc.ActionChoice(successors, np.zeros(5, int), noise=0.1))
    run = tc.sample(
        posterior, tc.pcn, num_chains=2, num_warmup=400, num_samples=20, thin=2, progress=False
    )
    assert np.isfinite(run.draws["log_likelihood"]).all()
