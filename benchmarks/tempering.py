"""Tempering where plain chains do not agree: a network of HalfCheetah's size, and two modes.

    python -m benchmarks.tempering [--minutes 14] [--control 5]

The demonstrations are synthetic: states uniform in the box, eight actions with their own
displacement each and some scatter, and choices of an expert whose value function is a draw of the
prior (17 inputs, three layers of ten). What is compared are value differences at ten other states.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, NamedTuple

import jax
import numpy as np

import traceclass as tc

NUM_STATES, NUM_ACTIONS, NUM_INPUTS, NOISE = 100, 8, 17, 0.1
NUM_TESTS = 10


class Cheetah(NamedTuple):
    """The posterior, value differences at test states, and l at the expert's own function."""

    posterior: tc.Posterior
    differences: Any
    true_level: float


def cheetah(seed: int = 0) -> Cheetah:
    """100 demonstrations of a known network."""
    rng = np.random.default_rng(seed)
    prior = tc.TraceClassNetwork(
        num_inputs=NUM_INPUTS, widths=(10, 10, 10), weight_variance=2.0, bias_variance=2.0
    )
    count = NUM_STATES + NUM_TESTS
    states = rng.uniform(-1, 1, size=(count, NUM_INPUTS))
    effects = rng.normal(size=(NUM_ACTIONS, NUM_INPUTS))
    effects *= 0.5 / np.linalg.norm(effects, axis=1, keepdims=True)
    scatter = 0.1 * rng.normal(size=(count, NUM_ACTIONS, NUM_INPUTS))
    successors = np.clip(states[:, None] + effects + scatter, -1, 1)
    z = prior.sample(jax.random.key(seed + 100))
    values = np.asarray(prior.evaluate(z, successors.reshape(-1, NUM_INPUTS)))
    noisy = values.reshape(count, NUM_ACTIONS) + NOISE * rng.normal(size=(count, NUM_ACTIONS))
    seen = slice(NUM_STATES)
    likelihood = tc.ActionChoice(successors[seen], noisy.argmax(axis=1)[seen], noise=NOISE)
    posterior = tc.Posterior(prior, likelihood)
    values_of = prior.at(successors[NUM_STATES:].reshape(-1, NUM_INPUTS))

    def differences(z: Any) -> Any:
        by_action = values_of(z).reshape(NUM_TESTS, NUM_ACTIONS)
        return by_action[:, 1:] - by_action[:, :1]

    return Cheetah(posterior, differences, float(posterior.log_likelihood(z)))


def judged(problem: Cheetah, kernel: Any, minutes: float, **settings: Any) -> tc.Run:
    """A run of four chains that ends when they agree, or after so many minutes; printed."""
    began = time.perf_counter()
    run = tc.sample(
        problem.posterior,
        kernel,
        record={"difference": problem.differences},
        store_positions=False,
        until=tc.Until(rhat=1.04, max_samples=10**6, max_time=60 * minutes),
        **settings,
    )
    table = run.summary().table
    levels = ", ".join(f"{level:.1f}" for level in run.draws["log_likelihood"].mean(axis=1))
    of_differences = table["r_hat"].drop("log_likelihood")
    print(
        f"{kernel.name}: {time.perf_counter() - began:.0f} s (compiling {run.compile_seconds:.0f}, "
        f"warm-up {run.warmup_seconds:.0f}), {run.num_samples} draws of {run.thin} steps, stopped "
        f"by {run.stopped_by}; R-hat of value differences {of_differences.max():.3f}, of the "
        f"log-likelihood {table['r_hat']['log_likelihood']:.3f}; least ESS "
        f"{table['ess_bulk'].min():.0f}; mean log-likelihood by chain {levels}",
        flush=True,
    )
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=14.0)
    parser.add_argument("--control", type=float, default=0.0, help="minutes for plain HMC")
    parser.add_argument("--temperatures", type=int, default=12)
    arguments = parser.parse_args()
    tc.use_cpu_devices()
    problem = cheetah()
    print(f"log-likelihood of the expert's own function: {problem.true_level:.1f}", flush=True)
    kernel = tc.tempered(tc.hmc, num_temperatures=arguments.temperatures)
    progress = sys.stderr.isatty()
    run = judged(
        problem, kernel, arguments.minutes, num_warmup=2_000, num_samples=1_000, thin=4,
        progress=progress,
    )  # fmt: skip
    print(run.tempering)
    print(run.evidence)
    print("round trips of each replica, a row a chain:")
    print(run.tempering.round_trips)
    if arguments.control:
        judged(problem, tc.hmc, arguments.control, num_warmup=2_000, progress=progress)


if __name__ == "__main__":
    main()
