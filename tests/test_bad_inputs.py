"""Bad input of every kind: one line of our own error class, no hang, no memory."""

from __future__ import annotations

import datetime
import functools
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from linear import cosine_prior

import traceclass as tc
from traceclass import scores

NAN, INF = float("nan"), float("inf")
# What is no number, whatever it is meant for.
NO_NUMBER = (None, "1", b"1", 1j, [], {}, [1.0, 2.0], object(), NAN, INF, -INF, 10**400)
NO_VARIANCE = tuple(value for value in NO_NUMBER if value != [1.0, 2.0])
NOT_POSITIVE = (*NO_NUMBER, 0, -1.5, np.datetime64("2020-01-01"), True)
NO_COUNT = (None, "3", 1.5, NAN, -1, [], [3, 4], 1j, True, object(), np.array([1, 2]))
MASKED = np.ma.masked_equal([[1.0], [-9999.0], [3.0]], -9999.0)
DATES = np.array([["2020-01-01"]] * 3, dtype="datetime64[D]")
NO_COLUMN = (
    None, "abc", b"abc", [["a"], ["b"], ["c"]], [["1"], ["2"], ["3"]], [[1.0], [2.0, 3.0]],
    [[1j], [0.0], [1.0]], [[None], [1.0], [2.0]], MASKED, DATES, DATES - DATES[0], object(), {},
    {1.0, 2.0}, [], np.zeros((3, 0)), np.zeros((2, 2, 2)), [[NAN], [0.0], [1.0]],
    [[INF], [0.0], [1.0]], [[1e300], [0.0], [1.0]], [[10**400], [0], [1]],
    [[datetime.date(2020, 1, 1)]] * 3, np.zeros(3, dtype=[("a", float), ("b", float)]),
)  # fmt: skip
X = np.linspace(0.0, 1.0, 3)[:, None]
Y = np.array([0.0, 0.5, 1.0])
LIKELIHOOD = tc.GaussianRegression(X, Y, noise=0.3)
FLAT = [np.ravel(v) if isinstance(v, np.ndarray) and v.ndim == 2 else v for v in NO_COLUMN]
SUCCESSORS = np.zeros((2, 3, 1))
# For scores: two cases of two classes, and what is no such table, class, value or row.
LOG_HALVES = np.log(np.full((2, 2), 0.5))
NO_ROW = (
    None, 3.0, "ab", b"ab", ["a", "b"], [1j, 0.0], DATES[:, 0], MASKED[:, 0], object(), {},
    [[1.0], [2.0, 3.0]], [datetime.date(2020, 1, 1)],
)  # fmt: skip
NO_VALUES = (*NO_ROW, [], [[0.0, 1.0]], [1.0, 2.0, 3.0], [NAN, 1.0])
NO_CLASSES = (*NO_ROW, [], [0.0, 1.0], [True, False], [[0, 1]], [0], [0, 2], [0, -1])
NO_TABLE = (*NO_ROW, [], [0.0, 1.0], np.zeros((2, 0)), np.zeros((2, 2, 2)), np.full((2, 2), NAN),
            np.zeros((3, 3)))  # fmt: skip
NOT_CALLABLE = (None, 3, "f", [], object())
NOT_A_POSTERIOR = (None, 3, "p", X, cosine_prior(), tc.hmc)


@functools.cache
def posterior() -> tc.Posterior:
    return tc.Posterior(cosine_prior(), LIKELIHOOD)


@functools.cache
def hyper_posterior() -> tc.Posterior:
    law = tc.LogNormal(median=1.0, sigma=1.0)
    return tc.Posterior(tc.Hyper(cosine_prior(), variance=law), LIKELIHOOD)


@functools.cache
def finished() -> tc.Run:
    return tc.sample(
        posterior(), tc.pcn, step_size=0.3, num_warmup=0, num_samples=8, progress=False
    )


def sampled(**changed: Any) -> Any:
    arguments = {"step_size": 0.3, "num_warmup": 0, "num_samples": 4, "progress": False} | changed
    return tc.sample(
        arguments.pop("posterior", posterior()), arguments.pop("kernel", tc.pcn), **arguments
    )


def network(**changed: Any) -> Any:
    return tc.TraceClassNetwork(**({"num_inputs": 1, "widths": (3,)} | changed))


def regression(**changed: Any) -> Any:
    return tc.GaussianRegression(**({"x": X, "y": Y, "noise": 0.1} | changed))


def choice(**changed: Any) -> Any:
    arguments = {"successors": SUCCESSORS, "actions": [0, 1], "noise": 0.1} | changed
    return tc.ActionChoice(**arguments)


def flow(**changed: Any) -> Any:
    arguments = {"heads": [0.1], "nodes": [[1, 1]], "noise": 0.1, "cells": 3} | changed
    return tc.GroundwaterFlow(**arguments)


def darcy(**changed: Any) -> Any:
    return tc.DarcyFlow(**({"cells": 3} | changed))


def fourier() -> tc.FourierSeries:
    return tc.FourierSeries(num_inputs=1, max_frequency=3, interaction=1)


def series(**changed: Any) -> Any:
    return tc.Series(**({"basis": lambda x: x, "eigenvalues": [1.0], "num_inputs": 1} | changed))


# One line each: what is made, with which argument, of which values.
TABLE: list[tuple[Callable[..., Any], str, tuple[Any, ...] | list[Any]]] = [
    (network, "num_inputs", (*NO_COUNT, 0)),
    (network, "widths", (None, "3", 1.5, (), (0,), (-1,), (1.5,), ("3",), [[3]], {}, (True,))),
    (network, "alpha", (*NOT_POSITIVE, 1.0, 0.5)),
    (network, "weight_variance", (*NO_VARIANCE, 0, (1.0, 2.0, 3.0), (1.0, -1.0), ("1", 1.0))),
    (network, "bias_variance", (*NO_VARIANCE, -1, (1.0, 2.0, 3.0), (1.0, NAN))),
    (network, "activation", (None, 3, "sine", [], jnp.cos, object())),
    (network, "inputs", (3, "box", [], object())),
    (functools.partial(tc.FourierSeries, max_frequency=2), "num_inputs", NO_COUNT),
    (functools.partial(tc.FourierSeries, num_inputs=1), "max_frequency", (*NO_COUNT, 0)),
    (functools.partial(tc.FourierSeries, num_inputs=2, max_frequency=2), "alpha", NOT_POSITIVE),
    (tc.CosineSeries, "num_modes", (*NO_COUNT, 0)),
    (functools.partial(tc.CosineSeries, num_modes=2), "exponent", NOT_POSITIVE),
    (series, "basis", NOT_CALLABLE),
    (series, "eigenvalues", (*FLAT, [0.0], [-1.0], [1.0, 2.0])),
    (functools.partial(tc.scale_to_box, high=[1.0]), "low", (*FLAT, [2.0], [1.0])),
    (functools.partial(tc.scale_to_box, low=[0.0]), "high", (None, "a", [NAN], [1j], [0.0], DATES)),
    (regression, "x", NO_COLUMN),
    (regression, "y", FLAT),
    (regression, "noise", NOT_POSITIVE),
    (choice, "successors", (*NO_COLUMN[:16], *NO_COLUMN[17:], np.zeros((2, 1, 1)))),
    (choice, "actions", (*FLAT, [0, 3], [0, -1], [0.0, 1.0], [0], [[0, 1]], ["0", "1"])),
    (choice, "noise", NOT_POSITIVE),
    (choice, "saturation", ("a", 0.0, -1.0, NAN, [], 1j)),
    (flow, "heads", FLAT),
    (flow, "nodes", (None, "a", [[1]], [[-1, 0]], [[9, 9]], [[1.0, 2.0]], DATES, [], [[1j, 0]])),
    (flow, "noise", NOT_POSITIVE),
    (darcy, "cells", (*NO_COUNT[:6], 0, 1, (3,), (3, 1), "ab")),
    (darcy, "low", ("a", None, (0,), (1, 1), (NAN, 0), (0, INF), ("a", "b"))),
    (darcy, "source", ("a", NAN, [1.0, 2.0], lambda x: x, 1j)),
    (functools.partial(tc.Likelihood, log_prob=jnp.sum), "points", NO_COLUMN),
    (functools.partial(tc.Likelihood, X), "log_prob", NOT_CALLABLE),
    (functools.partial(tc.Posterior, likelihood=LIKELIHOOD), "prior", (None, 3, "p", LIKELIHOOD)),
    (functools.partial(tc.Posterior, cosine_prior()), "likelihood", (None, 3, "l", cosine_prior())),
    (sampled, "posterior", NOT_A_POSTERIOR),
    (lambda posterior: tc.sample(posterior), "posterior", NOT_A_POSTERIOR),
    (sampled, "kernel", (None, 3, "pcn", [], object(), tc.cycle)),
    (sampled, "step_size", (None, "0.1", NAN, INF, 0.0, -1.0, 1.5, [], [0.1, 0.2], 1j, object())),
    (sampled, "num_chains", (*NO_COUNT, 0)),
    (sampled, "num_warmup", NO_COUNT),
    (sampled, "num_samples", (*NO_COUNT, 0, 2**33)),
    (sampled, "thin", (*NO_COUNT[1:], 0)),
    (sampled, "seed", (*NO_COUNT, 2**32, 10**400)),
    (sampled, "record", ([1], "a", {"a": 1}, {1: jnp.sum}, {"": jnp.sum}, {"a/b": jnp.sum},
                         {"position": jnp.sum}, {"a": None}, {"a": lambda _: "x"},
                         {"a": lambda z: (z, z)}, 5, [jnp.sum],
                         {"a": lambda z: np.asarray(z)}, {"a": lambda z: float(z[0])})),
    (sampled, "moments", ([1], "a", {"a": 1}, {1: jnp.sum}, {"": jnp.sum}, 5)),
    (sampled, "store_positions", (None, "yes", 1.5, -1, 0.0, [], object())),
    (sampled, "initial_positions", (*NO_COLUMN[1:], np.zeros((4, 5)), np.zeros((3, 6)))),
    (sampled, "num_starts", (*NO_COUNT[1:], 0, 1, 3)),
    (sampled, "store", ("", 3, [], object(), "a\0b", "x" * 300)),
    (sampled, "until", (5, "ess", {}, [], {"ess": 100}, object())),
    (sampled, "chunk_size", (*NO_COUNT[1:], 0)),
    (sampled, "group_size", (*NO_COUNT[1:], 0, 3)),
    (sampled, "progress", (None, 3, [], object())),
    (tc.Until, "ess", NOT_POSITIVE),
    (tc.Until, "rhat", (*NO_NUMBER, 1.0, 0.5, True)),
    (functools.partial(tc.Until, ess=10), "max_samples", (*NO_COUNT, 0)),
    (functools.partial(tc.Until, ess=10), "max_time", NOT_POSITIVE[1:]),
    (functools.partial(tc.Until, ess=10), "of", (None, 3, "a", ["b", 2], object())),
    (functools.partial(tc.tempered, tc.pcn), "num_temperatures", (*NO_COUNT[1:], 1)),
    (functools.partial(tc.tempered, tc.pcn), "schedule",
     (3, "a", (), (1,), (0, 1), (1, NAN, 0), (1, 1j, 0))),
    (functools.partial(tc.tempered, tc.pcn), "steps_per_swap", (*NO_COUNT, 0)),
    (tc.tempered, "kernel", (None, 3, "pcn", [])),
    (lambda kernels: tc.cycle(*kernels), "kernels", ((), (None,), (3,), ("pcn",), (tc.pcn, None))),
    (functools.partial(tc.mixture, tc.pcn, tc.hmc), "weights",
     (3, "a", (1.0,), (1.0, 0.0), (1.0, NAN), (1j, 1.0))),
    (tc.laplace, "posterior", NOT_A_POSTERIOR),
    (lambda **o: tc.laplace(posterior(), **o), "rank", (*NO_COUNT[1:], 0)),
    (tc.compare, "runs", (None, 3, "a", [], {}, [finished], {"a": 3}, {"a": None})),
    (functools.partial(tc.smc_evidence, kernel=tc.pcn), "posterior", NOT_A_POSTERIOR),
    (lambda **o: finished().predict(**o), "x", (*NO_COLUMN, np.zeros((0, 1)), np.zeros((3, 2)))),
    (lambda **o: finished().predict(X, **o), "quantiles",
     ("a", None, 3, [], [2.0], [-0.1], [NAN], [None], 1j)),
    (lambda **o: cosine_prior().at(**o), "points", NO_COLUMN),
    (lambda **o: cosine_prior().tail_variance(**o), "num_terms", NO_COUNT),
    (lambda **o: network().tail_variance(**o), "width", (*NO_COUNT[:6], (3, 4), 1j, object())),
    (lambda **o: fourier().tail_variance(**o), "max_frequency", NO_COUNT),
    (lambda **o: tc.centred(hyper_posterior(), **o), "block", (*NO_COUNT[1:], 0)),
    (tc.use_cpu_devices, "count", (*NO_COUNT[1:], 0)),
    (functools.partial(scores.log_score, outcomes=[0, 1]), "log_probabilities", NO_TABLE),
    (functools.partial(scores.accuracy, LOG_HALVES), "outcomes", NO_CLASSES),
    (functools.partial(scores.calibration, LOG_HALVES, [0, 1]), "num_bins", (*NO_COUNT, 0)),
    (functools.partial(scores.probability_scores, LOG_HALVES), "outcomes", NO_CLASSES),
    (functools.partial(scores.balanced_accuracy, outcomes=[0, 1]), "predicted", NO_CLASSES[:-2]),
    (scores.calibration_error, "bins", (None, 3, "a", [], [1], [{}], [{"count": 1}])),
    (functools.partial(scores.coverage, values=[0.0, 1.0], level=0.9), "draws", NO_TABLE),
    (functools.partial(scores.coverage, LOG_HALVES, level=0.9), "values", NO_VALUES),
    (functools.partial(scores.coverage, LOG_HALVES, [0.0, 1.0]), "level", (*NO_NUMBER, 0, 1, 2)),
    (functools.partial(scores.crps, LOG_HALVES), "values", NO_VALUES),
    (scores.standard_error, "values", NO_ROW),
    (scores.mean_over, "values", (None, 3, *NO_ROW[4:], [[1.0], [2.0]])),
    (functools.partial(scores.means_over, names=["a"]), "rows", (None, 3, "ab", [1], [None])),
    (functools.partial(scores.mean_failures, [1, 2]), "num_episodes", (*NO_COUNT, 0, 1)),
    (functools.partial(scores.binomial_error, num_episodes=4), "failures", (*NO_NUMBER, -1, 5)),
    (functools.partial(scores.paired_difference, theirs=[0.0, 1.0]), "ours", NO_VALUES[:-1]),
    (scores.drift, "rates", (*NO_TABLE[:-2], [1.0, 2.0], [[1.0]])),
    (tc.open_run, "path", ("", None, 3, [], "/nowhere", "a\0b", "x" * 300, object())),
]  # fmt: skip


def cases() -> Iterator[Any]:
    for number, (make, name, values) in enumerate(TABLE):
        of = getattr(getattr(make, "func", make), "__name__", "").strip("<>")
        for place, value in enumerate(values):
            yield pytest.param(make, name, value, id=f"{number}-{of}-{name}-{place}")


CASES = list(cases())


def test_there_are_at_least_three_hundred():
    assert len(CASES) >= 300


@pytest.mark.parametrize(("make", "name", "value"), CASES)
def test_bad_input_is_one_clear_line(make, name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tc.UserError) as caught:
        make(**{name: value})
    words = str(caught.value)
    assert "\n" not in words
    assert 15 < len(words) < 420, words
    assert not list(tmp_path.iterdir())


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory in use is not known")
def test_refusals_take_no_memory():
    """All of them twice; what the first time leaves (caches, compiled checks) is not counted."""
    used = []
    for _ in range(2):
        for case in CASES:
            make, name, value = case.values
            if make is not sampled:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with pytest.raises(tc.UserError):
                        make(**{name: value})
        gc.collect()
        used.append(resident_bytes())
    assert used[1] - used[0] < 100 * 2**20
