"""What holds for every shape, dtype and setting that a user may give, tried by hypothesis."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from linear import cosine_prior
from scipy.stats import norm

import traceclass as tc
from traceclass.arrays import as_floats
from traceclass.kernels.base import as_kernel
from traceclass.sampling.files import read_arrays, write_arrays
from traceclass.sampling.settings import checked_settings
from traceclass.validation import shortened

quick = settings(max_examples=60, deadline=None)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
NUMBERS = hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes(sizes=(16, 32, 64))
ANYTHING = hnp.arrays(hnp.scalar_dtypes() | hnp.complex_number_dtypes(), SHAPES)


@quick
@given(hnp.arrays(NUMBERS, SHAPES))
def test_real_numbers_come_in_as_they_are_rounded(array):
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("ignore")  # what single precision makes equal is told
        rounded = array.astype(np.float32)
        if (np.isinf(rounded) & np.isfinite(array)).any():
            with pytest.raises(tc.UserError, match="too large for float32"):
                as_floats(array, "x")
        else:
            np.testing.assert_array_equal(as_floats(array, "x"), rounded)


@quick
@given(ANYTHING)
def test_whatever_is_given_is_an_array_or_one_line(array):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            taken = as_floats(array, "x")
        except tc.UserError as error:
            text = str(error)
        else:
            text = ""
            assert taken.shape == array.shape
    assert "\n" not in text


@quick
@given(st.integers(1, 5), st.integers(1, 3), st.data())
def test_regression_is_the_normal_density_or_a_refusal(n, d, data):
    """Arrays of any finite numbers of the right shapes are data; others are refused."""
    numbers = st.floats(-1e3, 1e3, width=32)
    x = data.draw(hnp.arrays(np.float32, (n, d), elements=numbers))
    y = data.draw(
        hnp.arrays(np.float32, hnp.array_shapes(max_dims=2, max_side=5), elements=numbers)
    )
    noise = data.draw(st.floats(0.1, 10.0))
    if y.shape != (n,):
        with pytest.raises(tc.UserError, match="y must hold one number for each"):
            tc.GaussianRegression(x, y, noise=noise)
        return
    found = tc.GaussianRegression(x, y, noise=noise)
    np.testing.assert_array_equal(found.points, x)
    expected = norm.logpdf(y.astype(np.float64), scale=noise).sum()
    assert float(found.log_prob(np.zeros(n, np.float32))) == pytest.approx(expected, rel=1e-4)


@quick
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(1, 4),
    st.floats(1.01, 5.0),
    st.floats(1e-3, 1e3),
)
def test_networks_of_all_sizes_have_the_coordinates_they_say(widths, num_inputs, alpha, variance):
    prior = tc.TraceClassNetwork(
        num_inputs=num_inputs, widths=widths, alpha=alpha, weight_variance=variance
    )
    sizes = [num_inputs, *widths, 1]
    count = sum((into + 1) * out for into, out in itertools.pairwise(sizes))
    assert prior.num_coordinates == count
    z = jax.ShapeDtypeStruct((count,), np.float32)
    shapes = [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(prior.parameters, z))]
    assert sum(int(np.prod(shape)) for shape in shapes) == count
    assert 0 < prior.tail_variance(max(widths)) < prior.total_variance()
    wider = prior.refine(widths=[width + 1 for width in widths])
    back = jax.eval_shape(lambda z: wider.restrict(prior.prolong(None, z, wider), prior), z)
    assert back.shape == (count,)


@quick
@given(st.dictionaries(st.text(min_size=1, max_size=8), hnp.arrays(NUMBERS, SHAPES), max_size=4))
def test_arrays_of_all_shapes_are_stored_bit_for_bit(arrays):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chunk-00000000.tc"
        write_arrays(file, {"number": 0}, arrays)
        meta, found = read_arrays(file)
    assert meta == {"number": 0}
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


POSTERIOR = tc.Posterior(cosine_prior(), tc.GaussianRegression(np.zeros((1, 1)), [0.0], noise=1.0))
ODD = st.none() | st.booleans() | st.integers(-5, 2**34) | st.floats() | st.text(max_size=3)


NAMES = (
    "num_chains", "num_warmup", "num_samples", "thin", "seed", "chunk_size", "store_positions",
    "group_size", "step_size", "until", "record", "num_starts",
)  # fmt: skip


@quick
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, ODD)))
def test_settings_are_checked_or_refused_in_one_line(changes):
    """Whatever is asked of `tc.sample`: settings that can be run, or the line that says why not."""
    usual = {
        "step_size": 0.3, "num_chains": 4, "num_warmup": 0, "num_samples": 5, "thin": None,
        "seed": 0, "record": None, "moments": None, "store_positions": True,
        "initial_positions": None, "until": None, "chunk_size": None, "group_size": None,
        "num_starts": None,
    }  # fmt: skip
    try:
        found = checked_settings(POSTERIOR, as_kernel(tc.pcn), **(usual | changes))
    except tc.UserError as error:
        text = str(error)
    else:
        text = ""
        assert found.num_chains % found.group_size == 0
        assert found.num_chains % found.num_starts == 0
        assert found.num_warmup + found.num_samples * found.thin < 2**32
        assert 0 < found.step_size <= 1
    assert "\n" not in text


@quick
@given(st.text() | st.integers() | st.binary() | st.lists(st.floats()), st.integers(10, 80))
def test_what_is_shown_is_short_and_one_line(value, length):
    text = shortened(value, length)
    assert len(text) <= length or isinstance(value, int)
    assert "\n" not in text
