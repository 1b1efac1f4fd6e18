"""The gate by which a user's numbers enter: what is taken, what is said, what is refused."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import traceclass as tc
from traceclass.arrays import as_floats, as_numbers


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.float64])
def test_real_numbers_of_every_kind_are_taken(dtype):
    given = np.array([[0, 1], [1, 1]], dtype=dtype)
    taken = as_floats(given, "x")
    assert taken.dtype == jnp.float32
    np.testing.assert_array_equal(taken, given.astype(np.float32))


def test_what_is_taken_is_what_was_given():
    """Lists, JAX's own arrays, small floats, arrays with a mask that hides nothing."""
    np.testing.assert_array_equal(as_floats([[1, 2.5]], "x"), [[1.0, 2.5]])
    np.testing.assert_array_equal(as_floats(jnp.arange(3), "x"), [0, 1, 2])
    assert as_floats(jnp.ones(2, jnp.bfloat16), "x").dtype == jnp.float32
    np.testing.assert_array_equal(as_floats(np.ma.masked_equal([1.0, 2.0], 5.0), "x"), [1.0, 2.0])


def test_double_precision_stays_where_it_is_asked_for(x64):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        taken = as_floats(2**26 + np.arange(10), "x")
    assert taken.dtype == jnp.float64
    np.testing.assert_array_equal(taken, 2**26 + np.arange(10))


def test_a_traced_array_passes():
    assert jax.jit(lambda x: as_floats(x, "x") + 1)(jnp.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_a_masked_observation_is_no_observation():
    y = np.ma.masked_equal([0.1, -9999.0, 0.3], -9999.0)
    with pytest.raises(tc.UserError, match=r"y has 1 masked entries, the first at index \(1,\)"):
        tc.GaussianRegression(np.arange(3.0)[:, None], y, noise=0.1)


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        (2**26 + np.arange(10), 8),  # whole numbers eight apart are told apart: two are left
        (2**60 + np.arange(10), 9),  # and these are equal in double precision already
        (1.6e9 + np.arange(0.0, 256.0, 2.0), 125),  # seconds since 1970, told apart by 128
        (np.float64([1.0, 1.0 + 1e-9]), 1),
    ],
)
def test_values_that_become_equal_are_counted(values, lost):
    words = f"{lost} different values of x become equal to others in float32"
    with pytest.warns(UserWarning, match=words):
        as_floats(values, "x")


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).uniform(size=100_000),  # hundreds are equal, and nobody misses it
        np.repeat(np.arange(5.0), 3),
        np.float32([1e8, 1e8]),
        np.array([0.1, 0.2, 0.3]),
        np.zeros((0, 2)),
    ],
)
def test_nothing_is_said_where_nothing_is_lost(values):
    as_floats(values, "x")


def test_columns_are_judged_apart():
    """A column of large numbers does not hide what a column of small ones loses."""
    x = np.stack([np.linspace(0, 1e9, 5), 1 + 1e-9 * np.arange(5)], axis=1)
    with pytest.warns(UserWarning, match="4 different values of x"):
        as_floats(x, "x")


def test_too_large_is_not_infinite():
    with pytest.raises(tc.UserError, match=r"y holds 1e\+300 at index \(1,\), too large for float"):
        as_floats([0.0, 1e300], "y")


def test_numbers_keep_their_kind():
    assert as_numbers([1, 2], "actions").dtype.kind == "i"
