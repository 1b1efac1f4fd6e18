"""Series prior, linear-Gaussian data: mean, covariance and log-likelihood of a long run."""

from __future__ import annotations

import pytest
from closed_form import closed_form_scores

import traceclass as tc

# The posterior's largest precision is 91, so explicit gradient steps are stable below
# 2 / sqrt(91) = 0.21 (HMC, MALA; s^2 = 4 delta to first order for pCNL): these stay below it.
RUNS = {
    "pcn": (tc.pcn, 0.5, {}),
    "pcnl": (tc.pcnl, 0.005, {}),
    "hmc": (tc.hmc, 0.12, {"thin": 1, "num_warmup": 100}),
    "random_walk": (tc.random_walk, 0.3, {}),
    "mala": (tc.mala, 0.14, {}),
    "elliptical_slice": (tc.elliptical_slice, 0.5, {"num_warmup": 100}),
    "cycle": (tc.cycle(tc.pcn, tc.hmc), (0.5, 0.12), {"thin": 1, "num_warmup": 100}),
    "mixture": (tc.mixture(tc.pcn, tc.pcnl), (0.5, 0.005), {}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_linear_gaussian_posterior_is_the_closed_form(name, count_as):
    """28 scores below 5 in each of 8 runs: false alarm below 2e-4."""
    count_as("kernels on the closed form")
    kernel, step_size, settings = RUNS[name]
    assert closed_form_scores(kernel, step_size, **settings).max() < 5


@pytest.mark.long
@pytest.mark.parametrize("kernel", [tc.pcn, tc.pcnl, tc.hmc], ids=lambda kernel: kernel.name)
def test_what_warm_up_finds_leaves_the_closed_form(kernel):
    """Adapted step sizes and kicks are frozen before the first draw, so nothing is biased."""
    scores = closed_form_scores(kernel, "adapt", num_warmup=800, thin=None, num_chains=400)
    assert scores.max() < 5
