"""Heavier tails: the right quantiles, slopes and variance, in both precisions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from as_shipped import OPTIONS
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import laplace, norm, t

from traceclass.priors.tails import LaplaceTails, StudentTails, tails_named

DEGREES = (2.1, 3.0, 4.0, 5.0, 10.0, 30.0, 100.0)
Z = np.concatenate([np.linspace(1e-3, 12.0, 2001), [1e-6, 1e-2, 0.1]])


def compiled(tails):
    return jax.jit(tails, compiler_options=OPTIONS)


def student(z, df):
    """The quantile of unit variance, from the tail, where it keeps its digits."""
    return t.isf(ndtr(-z), df) * np.sqrt((df - 2) / df)


def unit_laplace(z):
    return laplace.isf(ndtr(-z)) / np.sqrt(2)


@pytest.mark.parametrize("df", DEGREES)
def test_student_is_its_quantile(df, x64):
    tails = compiled(StudentTails(df=df))
    values = np.asarray(tails(Z))
    # Nearest to zero the reference itself loses digits, in 1/2 - Phi(-z).
    np.testing.assert_allclose(values[:-3], student(Z[:-3], df), rtol=2e-6)
    np.testing.assert_allclose(tails(-Z), -values, rtol=1e-15)


def test_laplace_is_its_quantile(x64):
    tails = compiled(LaplaceTails())
    np.testing.assert_allclose(tails(jnp.asarray(Z)), unit_laplace(Z), rtol=1e-7)
    np.testing.assert_allclose(tails(jnp.asarray(-Z)), -unit_laplace(Z), rtol=1e-7)


@pytest.mark.parametrize("df", DEGREES)
def test_student_in_single_precision(df):
    z = np.float32(np.linspace(-9.0, 9.0, 1001))
    exact = np.sign(z) * student(np.abs(z.astype(np.float64)), df)
    # e^(u/2) turns the rounding of u = z^2/df, up to 81/2.1, into a relative error of 2e-6.
    values = compiled(StudentTails(df=df))(jnp.asarray(z))
    np.testing.assert_allclose(values, exact, rtol=1e-5, atol=1e-7)


def test_laplace_in_single_precision():
    z = np.float32(np.linspace(-9.0, 9.0, 1001))
    exact = np.sign(z) * unit_laplace(np.abs(z.astype(np.float64)))
    values = compiled(LaplaceTails())(jnp.asarray(z))
    np.testing.assert_allclose(values, exact, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("tails", [LaplaceTails(), StudentTails(df=2.1), StudentTails(df=5.0)])
def test_slopes(tails, x64):
    z = np.array([-9.0, -2.0, -0.3, -1e-3, 1e-3, 0.0099, 0.0101, 0.7, 3.0, 9.0])
    step = 1e-6
    values_of = compiled(tails)
    ahead, behind = np.asarray(values_of(z + step)), np.asarray(values_of(z - step))
    differences = (ahead - behind) / (2 * step)
    # Laplace's slope has a kink at 0, so its curvature does not vanish between z +- step.
    slopes = compiled(jax.vmap(jax.grad(tails)))(z)
    np.testing.assert_allclose(slopes, differences, rtol=1e-6)


STUDENTS = [StudentTails(df=df) for df in DEGREES]


@compiled
def slopes_of_all(z):
    """Of Laplace's tails, then of Student's."""
    return [jax.grad(tails)(z) for tails in (LaplaceTails(), *STUDENTS)]


@pytest.mark.parametrize("z", [0.0, -0.0, 1e-30])
def test_slope_at_zero_is_the_ratio_of_the_densities(z):
    """T'(0) = phi(0) / f(0), f the density of unit variance."""
    of_laplace, *of_student = map(float, slopes_of_all(np.float32(z)))
    assert of_laplace == pytest.approx(norm.pdf(0) * np.sqrt(2), rel=1e-6)
    for df, slope in zip(DEGREES, of_student, strict=True):
        exact = norm.pdf(0) / t.pdf(0, df) * np.sqrt((df - 2) / df)
        assert slope == pytest.approx(exact, rel=2e-6)


@pytest.mark.parametrize("tails", [LaplaceTails(), StudentTails(df=4.0), StudentTails(df=30.0)])
def test_variance_is_one(tails, x64):
    """The part beyond |z| = 12 is below 1e-15 for df >= 4."""
    values_of = compiled(tails)
    value, _ = quad(lambda z: float(values_of(z)) ** 2 * norm.pdf(z), 0.0, 12.0, limit=200)
    assert 2 * value == pytest.approx(1.0, abs=1e-6)


def test_equal_tails_are_the_same():
    assert StudentTails(df=4) == StudentTails(df=4.0)
    assert StudentTails(df=4) != StudentTails(df=5)
    assert hash(LaplaceTails()) == hash(LaplaceTails())
    assert LaplaceTails() != StudentTails(df=4)


@pytest.mark.parametrize(
    ("tails", "df", "error", "words"),
    [
        ("cauchy", None, ValueError, "unknown tails 'cauchy'. Use \"student\" .with df."),
        ("student", None, ValueError, 'tails="student" needs df'),
        ("student", 2.0, ValueError, "needs df > 2, got 2.0. At or below 2 the law has no var"),
        ("student", np.inf, ValueError, "needs df > 2, got inf"),
        ("student", "4", TypeError, "df must be a number, got '4'"),
        ("laplace", 4.0, ValueError, "df=4.0 belongs to tails=\"student\", got tails='laplace'"),
        (None, 4.0, ValueError, "belongs to tails"),
    ],
)
def test_what_cannot_be_is_explained(tails, df, error, words):
    with pytest.raises(error, match=words):
        tails_named(tails, df)
