"""Groundwater flow: forward solves, pCN beside CUQIpy, tinyDA and plain SciPy, and our kernels.

Measured in turns: rates are medians over rounds, ratios medians of a round's ratios; compilation
and warm-up are not counted. What runs on one core runs in a child process pinned to it. Peers have
the same whitened target, step size and start as ours, and as forward map a plain banded solver, or
our compiled log-likelihood for one chain at a time.

    python -m benchmarks.groundwater [--seconds 15] [--only solve|peers|kernels]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import io
import itertools
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base.array import array_stats
from scipy.linalg import solveh_banded

import traceclass as tc

CELLS, NOISE, NUM_MODES = 20, 0.01, 25
NUM_CHAINS, GROUP_SIZE, ROUNDS, NUM_SAMPLES, THIN, BATCH = 16, 8, 3, 20, 10, 32
# Shorter chains of a peer say how fast it steps, and nothing of how well it mixes.
FEWEST_STEPS = 1_000
BY_ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
# Nodes (i, j) of the 21 x 21 where heads are observed.
NODES = np.array([
    (9, 0), (10, 0), (11, 0), (6, 1), (14, 1), (4, 2), (16, 2), (3, 3), (17, 3), (2, 4), (18, 4),
    (1, 6), (19, 6), (0, 9), (20, 9), (0, 10), (10, 10), (20, 10), (0, 11), (20, 11), (1, 14),
    (19, 14), (2, 16), (18, 16), (3, 17), (17, 17), (4, 18), (16, 18), (6, 19), (14, 19), (9, 20),
    (10, 20), (11, 20)])  # fmt: skip
# Heads at the bottom and at the top are given, not inferred.
IS_INTERIOR = (NODES[:, 1] > 0) & (NODES[:, 1] < CELLS)
SOLVERS = ("SciPy banded", "our log-likelihood")


@functools.cache
def posterior() -> tc.Posterior:
    """The paper's problem, with data made here on twice as many cells."""
    half = np.arange(1, NUM_MODES + 1) - 0.5
    sines = np.sin(half[:, None] ** 2 + half**2)
    truth = np.where((half[:, None] < 10) & (half < 10), sines, 0.0).ravel()
    prior, fine = tc.CosineSeries(num_modes=NUM_MODES), tc.DarcyFlow(cells=2 * CELLS)
    heads = np.asarray(fine.head(prior.at(fine.nodes)(jnp.asarray(truth, dtype=float))))
    noise = NOISE * np.random.default_rng(0).normal(size=len(NODES))
    noisy = heads[tuple(2 * NODES.T)] + noise
    return tc.Posterior(prior, tc.GroundwaterFlow(noisy, NODES, noise=NOISE, cells=CELLS))


class Plain:
    """The same posterior in NumPy and SciPy, double precision, one position at a time.

    Unknown heads p[i, j], j = 1 ... 19, are numbered with j fastest: 399 of them, bandwidth 19.
    """

    def __init__(self):
        x, half = np.linspace(0, 1, CELLS + 1), np.arange(1, NUM_MODES + 1) - 0.5
        self.cosines = np.sqrt(2) * np.cos(np.pi * half * x[:, None])
        self.deviations = (np.pi**2 * (half[:, None] ** 2 + half**2)) ** -0.55
        self.widths = np.r_[0.5, np.ones(CELLS - 1), 0.5][:, None]
        self.bottom, self.top = x, 1 - x
        self.observations = np.asarray(posterior().likelihood.observations, dtype=np.float64)

    def assemble(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lower band (20, 399) of the matrix, and the right-hand side, for u (21, 21)."""
        resistance = np.exp(-u)
        along = 2 / (resistance[:-1, 1:-1] + resistance[1:, 1:-1])
        across = 2 * self.widths / (resistance[:, :-1] + resistance[:, 1:])
        diagonal = across[:, :-1] + across[:, 1:]
        diagonal[:-1] += along
        diagonal[1:] += along
        to_next, b = np.zeros(diagonal.shape), np.zeros(diagonal.shape)
        to_next[:, :-1] = -across[:, 1:-1]
        b[:, 0] = across[:, 0] * self.bottom
        b[:, -1] = across[:, -1] * self.top
        band = np.zeros((CELLS, diagonal.size), order="F")
        band[0], band[1], band[-1, : along.size] = diagonal.ravel(), to_next.ravel(), -along.ravel()
        return band, b.ravel()

    def head(self, u: np.ndarray) -> np.ndarray:
        """Heads (21, 21) of log-permeabilities u (21, 21)."""
        p = solveh_banded(*self.assemble(u), lower=True, check_finite=False)
        return np.column_stack([self.bottom, p.reshape(len(u), -1), self.top])

    def log_likelihood(self, z: np.ndarray) -> float:
        """Up to a constant."""
        coefficients = self.deviations * z.reshape(self.deviations.shape)
        p = self.head(self.cosines @ coefficients @ self.cosines.T)
        misfit = (self.observations - p[NODES[:, 0], NODES[:, 1]]) / NOISE
        return -0.5 * float(misfit @ misfit)


@functools.cache
def level_by(solver: str) -> Callable[[np.ndarray], float]:
    """The log-likelihood that a peer calls, one position at a time."""
    if solver == SOLVERS[0]:
        return Plain().log_likelihood
    compiled = jax.jit(posterior().log_likelihood, compiler_options=BY_ONE_THREAD)
    return lambda z: float(compiled(np.asarray(z, dtype=np.float32)))


def pin() -> None:
    """Keep this process on one core; threads that JAX starts later stay there too."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tc.use_cpu_devices(1)


def timed(work: Callable[[], int], seconds: float) -> tuple[int, float]:
    """Units of work done in at least `seconds`, and the seconds they took."""
    began, done = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds or not done:
        done += work()
    return done, spent


def row(*cells: Any) -> None:
    shown = (
        c if isinstance(c, str) else f"{c:,.0f}" if c * c > 9999 else f"{c:.3g}" for c in cells
    )
    print("| " + " | ".join(shown) + " |", flush=True)


def looped(function: Callable, inputs: Any) -> Callable[[], int]:
    """Work: `function` of all inputs at once, 20 times, each of which depends on the last."""

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 20, lambda _, y: x + 1e-6 * jax.vmap(function)(y), x)

    compiled = jax.jit(loop, compiler_options=BY_ONE_THREAD).lower(inputs).compile()
    return lambda: 20 * len(compiled(inputs).block_until_ready())


def compare_solves(seconds: float) -> None:
    """Table 1, on this core, for the same 32 prior draws."""
    target, plain = posterior(), Plain()
    z = jax.vmap(target.prior.sample)(jax.random.split(jax.random.key(1), 32))
    u = jax.vmap(target.values_of)(z)
    fields = np.asarray(u, dtype=np.float64).reshape(-1, CELLS + 1, CELLS + 1)
    heads = jax.jit(jax.vmap(target.likelihood.flow.head))(u)
    error = np.abs(np.asarray(heads) - [plain.head(field) for field in fields]).max()
    assert error < 1e-5, f"heads of the two solvers differ by {error:.1e}"
    systems = [plain.assemble(field) for field in fields]
    alone = functools.partial(solveh_banded, lower=True, check_finite=False)
    ours = {n: looped(lambda u: target.likelihood.flow.head(u).ravel(), u[:n]) for n in (8, 16, 32)}
    works = {
        "NumPy and SciPy": lambda: len([plain.head(field) for field in fields]),
        "solveh_banded alone": lambda: len([alone(*system) for system in systems]),
        **{f"ours, {n} fields": work for n, work in ours.items()},
        "our log-likelihood, 8": looped(lambda z: target.log_likelihood(z) + 0 * z, z[:8]),
        "our gradient, 8": looped(lambda z: sum(target.log_likelihood_and_gradient(z)), z[:8]),
    }
    rounds = [[np.divide(*timed(w, seconds)) for w in works.values()] for _ in range(2 * ROUNDS)]
    rates = np.array(rounds).T
    print("| one core | a second | / NumPy and SciPy | / solveh_banded alone |\n|---|---|---|---|")
    for name, own in zip(works, rates, strict=True):
        row(name, np.median(own), *(np.median(own / plain) for plain in rates[:2]))
    cost = np.median(rates[-2] / rates[-1])
    print(f"\nvalue and gradient cost {cost:.2f} log-likelihoods\n", flush=True)


class Leg(NamedTuple):
    """A stretch of a run: all steps of all chains, their time, positions (chains, draws, z)."""

    steps: int
    seconds: float
    positions: np.ndarray
    acceptance: float = np.nan


# A peer's chain: what takes a number of steps, and what gives its positions ten steps apart.
def plain_pcn(level_of: Callable, start: np.ndarray, beta: float) -> tuple[Callable, Callable]:
    """The loop anyone would write."""
    z, level, kept = start, level_of(start), []

    def advance(num_steps: int) -> None:
        nonlocal z, level
        for step in range(1, num_steps + 1):
            proposal = np.sqrt(1 - beta**2) * z + beta * np.random.normal(size=z.size)
            proposed = level_of(proposal)
            if np.log(np.random.random()) < proposed - level:
                z, level = proposal, proposed
            if step % THIN == 0:
                kept.append(z)

    return advance, lambda: kept


def cuqipy_pcn(level_of: Callable, start: np.ndarray, beta: float) -> tuple[Callable, Callable]:
    """CUQIpy's; with `Normal`, from which it draws twice as fast as from `Gaussian`."""
    import cuqi
    import cuqi.experimental.mcmc

    prior = cuqi.distribution.Normal(np.zeros(start.size), 1, name="z")
    likelihood = cuqi.likelihood.UserDefinedLikelihood(start.size, lambda z: level_of(z))
    target = cuqi.distribution.Posterior(likelihood, prior)
    sampler = cuqi.experimental.mcmc.PCN(target, scale=beta, initial_point=start)
    return lambda n: sampler.sample(n, Nt=THIN), lambda: sampler.get_samples().samples.T


def tinyda_pcn(
    level_of: Callable, start: np.ndarray, beta: float, is_direct: bool = False
) -> tuple[Callable, Callable]:
    """tinyDA's, which decomposes the prior's covariance matrix anew for every proposal.

    With `is_direct` the draw from N(0, I) is ours, and all else tinyDA's.
    """
    import tinyDA

    prior = SimpleNamespace(cov=np.eye(start.size), logpdf=lambda z: -0.5 * z @ z)
    model = tinyDA.LinkFactory(prior, SimpleNamespace(logpdf=lambda level: level))
    model.evaluate_model = lambda z: (level_of(z), None)
    proposal = tinyDA.CrankNicolson(scaling=beta)
    if is_direct:
        proposal.make_proposal = lambda link: (
            np.sqrt(1 - beta**2) * link.parameters + beta * np.random.normal(size=start.size)
        )
    chain = tinyDA.Chain(model, proposal, start)

    def kept() -> list[np.ndarray]:
        return [link.parameters for link in chain.chain[THIN::THIN]]

    return lambda n: chain.sample(n, progressbar=False), kept


# Module, sampler, and steps a call: CUQIpy takes a mean over a call's steps at each of them.
PEERS = {
    "CUQIpy": ("cuqi", cuqipy_pcn, 100),
    "tinyDA": ("tinyDA", tinyda_pcn, THIN),
    "tinyDA, direct draws": ("tinyDA", functools.partial(tinyda_pcn, is_direct=True), 100),
    "plain NumPy": ("numpy", plain_pcn, 100),
}


def peer_leg(peer: str, solver: str, start: Any, beta: float, seconds: float, seed: int) -> Leg:
    """One chain of a peer's; its first steps are neither timed nor kept."""
    _, build, block = PEERS[peer]
    np.random.seed(seed)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # what peers say when they are imported
        advance, kept = build(level_by(solver), start[0].astype(np.float64), beta)
    advance(block)
    steps, spent = timed(lambda: (advance(block), block)[1], seconds)
    return Leg(steps, spent, np.asarray(kept(), dtype=np.float32)[None, block // THIN :])


class Tuned(NamedTuple):
    """A kernel of ours, by name: as such it can be sent to a child process."""

    name: str
    options: dict[str, Any]
    thin: int = THIN
    step_size: Any = "adapt"

    def run(self, starts: Any, **settings: Any) -> tc.Run:
        """A few draws: always as many, so that a kernel is compiled once."""
        return tc.sample(
            posterior(), getattr(tc, self.name).using(**self.options), step_size=self.step_size,
            num_chains=NUM_CHAINS, group_size=GROUP_SIZE, num_samples=NUM_SAMPLES, thin=self.thin,
            initial_positions=starts, progress=False, **settings,
        )  # fmt: skip

    def warmed_up(self, num_warmup: int, starts: Any) -> tuple[Tuned, np.ndarray]:
        """The kernel tuned, and where its chains are."""
        run = self.run(starts, num_warmup=num_warmup)
        found, options = run.tuning[self.name], self.options
        kicks = found.get("num_kicks")
        # Those of a quarter turn come by themselves; fixing them would compile it again.
        if kicks is not None and kicks != int(tc.hmc.kicks(found["step_size"])):
            options = options | {"num_kicks": int(kicks)}
        return self._replace(options=options, step_size=found["step_size"]), run.last_positions


def our_leg(kernel: Tuned, starts: np.ndarray, seconds: float, seed: int) -> Leg:
    """All chains of one of our kernels, on all devices of this process."""
    runs, spent = [], 0.0
    while spent < seconds or not runs:
        runs.append(kernel.run(starts, num_warmup=0, seed=1000 * seed + len(runs)))
        starts, spent = runs[-1].last_positions, spent + runs[-1].sampling_seconds
    positions = np.concatenate([run.positions for run in runs], axis=1)
    steps = NUM_CHAINS * kernel.thin * positions.shape[1]
    return Leg(steps, spent, positions, float(np.mean([run.acceptance_rate for run in runs])))


@functools.cache
def look() -> Callable[[Any], Any]:
    """Compiled: positions (BATCH, z) -> their interior observed heads and log-likelihoods."""
    target, heads = posterior(), posterior().likelihood.predict
    both = jax.vmap(lambda z: (heads(target.values_of(z))[IS_INTERIOR], target.log_likelihood(z)))
    return jax.jit(both, compiler_options=BY_ONE_THREAD)


class Result:
    """The legs of one contender, each of which begins where the last one ended."""

    def __init__(self, legs: list[Leg]):
        self.rates = np.array([leg.steps / leg.seconds for leg in legs])
        self.steps = sum(leg.steps for leg in legs)
        self.acceptance = float(np.mean([leg.acceptance for leg in legs]))
        positions = np.concatenate([leg.positions for leg in legs], axis=1)
        flat = positions.reshape(-1, positions.shape[-1])
        padded = np.pad(flat, ((0, -len(flat) % BATCH), (0, 0)))
        seen = zip(*map(look(), padded.reshape(-1, BATCH, flat.shape[1])), strict=True)
        heads, level = (np.concatenate(part)[: len(flat)].astype(np.float64) for part in seen)
        self.level, shape = level.mean(), positions.shape[:2]
        ess = [float(array_stats.ess(x.reshape(shape))) for x in (*heads.T, level)]
        # Effective samples a step: of the worst head, and of the log-likelihood.
        self.mixing = np.array([min(ess[:-1]), ess[-1]]) / self.steps


def in_turns(run: dict[str, Callable], starts: np.ndarray) -> dict[str, Result]:
    """Rounds of legs; `run[name](positions, seed)` is one."""
    legs: dict[str, list[Leg]] = {name: [] for name in run}
    for number in range(ROUNDS):
        for name, leg in run.items():
            begin = legs[name][-1].positions[:, -1] if number else starts
            legs[name].append(leg(begin, number + 1))
    return {name: Result(parts) for name, parts in legs.items()}


def report(results: dict[str, Result], base: Result, is_inverse: bool) -> None:
    """Tables 2 and 3: rates, and their ratios to those of `base` (or of base to them)."""
    columns = "it/s", "acceptance", "mean l", *2 * ("ESS/s worst head", "ESS/s l"), "it/s"
    row("ratios last", *columns)
    print("|---" * 9 + "|")
    for name, result in results.items():
        # Chains too short to tell are given the effective samples a step of `base`, marked ~.
        is_known = result.steps >= FEWEST_STEPS
        mixing, name = (result.mixing, name) if is_known else (base.mixing, f"~ {name}")
        speed, power = np.median(result.rates), -1 if is_inverse else 1
        ratios = np.median(result.rates / base.rates) * np.r_[mixing / base.mixing, 1]
        kept = "" if np.isnan(result.acceptance) else result.acceptance
        row(name, speed, kept, f"{result.level:.1f}", *(speed * mixing), *ratios**power)


def compare_peers(child: ProcessPoolExecutor, pcn: Tuned, starts: Any, seconds: float) -> None:
    """Table 2."""
    leg, cores = seconds / ROUNDS, len(jax.devices())

    def of_peer(peer: str, solver: str, z: np.ndarray, seed: int) -> Leg:
        # tinyDA makes ten steps a second, whatever time it has; our solver is the slower for one.
        allowed = leg / 3 if peer == "tinyDA" or solver == SOLVERS[1] else leg
        return child.submit(peer_leg, peer, solver, z[:1], pcn.step_size, allowed, seed).result()

    run = {
        "ours, one core": lambda z, n: child.submit(our_leg, pcn, z, leg / 2, n).result(),
        f"ours, {cores} cores": lambda z, n: our_leg(pcn, z, leg / 2, n),
    }
    installed = [peer for peer in PEERS if importlib.util.find_spec(PEERS[peer][0])]
    for peer in set(PEERS) - set(installed):
        print(f'{peer} is not installed and left out: pip install "traceclass[bench]"')
    pairs = itertools.product(installed, SOLVERS)
    run |= {", ".join(pair): functools.partial(of_peer, *pair) for pair in pairs}
    print(f"pCN, beta = {pcn.step_size:.3f}; ratios are those of ours on one core to the row's\n")
    results = in_turns(run, starts)
    ours, together = (results[name] for name in list(run)[:2])
    report(results, ours, is_inverse=True)
    print(f"\nours on {cores} cores: {np.median(together.rates) / cores:,.0f} it/s a core")
    for peer in installed:
        best = max((results[f"{peer}, {solver}"].rates for solver in SOLVERS), key=np.median)
        times = np.median(ours.rates / best)
        print(f"ours on one core: {times:.2f} times the it/s of {peer} with its faster map")


def compare_kernels(pcn: Tuned, starts: np.ndarray, seconds: float) -> None:
    """Table 3, on all cores."""
    reference = {"reference": tc.laplace(posterior(), rank=len(NODES))}
    plans = {
        "pCNL": (Tuned("pcnl", {}), 2000),
        "HMC": (Tuned("hmc", {}, thin=1), 1000),
        "pCN, reference": (Tuned("pcn", reference, thin=2), 2000),
        "HMC, reference": (Tuned("hmc", reference, thin=1), 1000),
    }
    tuned = {"pCN": pcn}
    tuned |= {name: plan[0].warmed_up(plan[1], starts)[0] for name, plan in plans.items()}
    leg = 0.5 * seconds / ROUNDS
    run = {
        f"{name}, {kernel.step_size:.3g}": lambda z, n, kernel=kernel: our_leg(kernel, z, leg, n)
        for name, kernel in tuned.items()
    }
    print(f"\n{NUM_CHAINS} chains on {len(jax.devices())} cores; kernels and their step sizes\n")
    results = in_turns(run, starts)
    report(results, next(iter(results.values())), is_inverse=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=15.0, help="for each peer")
    parser.add_argument("--only", choices=("solve", "peers", "kernels"))
    seconds, only = vars(parser.parse_args()).values()
    tc.use_cpu_devices()
    # For the child, which begins with them.
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ.update(dict.fromkeys(threads, "1"), TQDM_DISABLE="1")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), pin) as child:
        if only in (None, "solve"):
            child.submit(compare_solves, seconds / 60).result()
        if only == "solve":
            return
        pcn, starts = Tuned("pcn", {}).warmed_up(4000, None)
        if only != "kernels":
            compare_peers(child, pcn, starts, seconds)
    if only != "peers":
        compare_kernels(pcn, starts, seconds)


if __name__ == "__main__":
    main()
