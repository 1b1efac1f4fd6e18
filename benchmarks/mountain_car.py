"""Log-likelihoods and pCN steps a second on mountain car, beside a plain NumPy/SciPy program.

Both sides run in this process, in turns, on the same 50 demonstrations, and the result is the
ratio of their rates: what the machine does besides hits both. Compilation is not counted. The
plain side runs one chain, as such programs do; ours runs 8, spread over the cores, and the rate
is that of all of them together.

    python -m benchmarks.mountain_car
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr

import traceclass as tc
from benchmarks.plain_reference import PlainPosterior
from traceclass.sampling.devices import chain_mesh

car = tc.control.mountain_car
ROUNDS = 3
NUM_CHAINS = 8
BETA = 0.1


def problems(width: int) -> tuple[tc.Posterior, PlainPosterior]:
    """The same posterior in both programs."""
    widths, alpha, variance, noise = (width,) * 3, 1.5, 2.0, 0.1
    demonstrations = car.demonstrate(jax.random.key(0))
    successors = car.successors(demonstrations.states)
    to_box = tc.scale_to_box(car.LOW, car.HIGH)
    prior = tc.TraceClassNetwork(
        num_inputs=2,
        widths=widths,
        alpha=alpha,
        weight_variance=variance,
        bias_variance=variance,
        inputs=to_box,
    )
    ours = tc.Posterior(prior, tc.ActionChoice(successors, demonstrations.actions, noise=noise))
    points = np.asarray(to_box(successors.reshape(-1, 2)), dtype=float)
    actions = np.asarray(demonstrations.actions)
    plain = PlainPosterior(widths, alpha, variance, points, actions, car.NUM_ACTIONS, noise)
    return ours, plain


def rate(work: Callable[[], int]) -> float:
    """Units of work a second."""
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)


def exact_log_prob(plain: PlainPosterior, values: np.ndarray) -> float:
    """Each integral around its mode, in logarithms and to 1e-13: slow, but right in the tails."""
    total = 0.0
    for row, action in zip(values.reshape(-1, plain.num_actions), plain.chosen, strict=True):
        gaps = (row[action] - np.delete(row, action)) / plain.noise

        def level(t, gaps=gaps):
            return -0.5 * t * t + log_ndtr(t + gaps).sum()

        grid = np.linspace(-1, 80, 4001)
        mode = grid[np.argmax([level(t) for t in grid])]
        top = level(mode)

        def relative(t, level=level, top=top):
            return np.exp(level(t) - top)

        integral = quad(relative, mode - 9, mode + 9, epsabs=0, epsrel=1e-13, limit=200)[0]
        total += top + np.log(integral / np.sqrt(2 * np.pi))
    return float(total)


def in_turns(mine: Callable[[], int], theirs: Callable[[], int]) -> tuple[float, float, float]:
    """Median rates of both and median ratio, measured one after the other, several times."""
    mine()  # compiled before it is timed
    rates = np.array([[rate(mine), rate(theirs)] for _ in range(ROUNDS)])
    ours, plain = np.median(rates, axis=0)
    return float(ours), float(plain), float(np.median(rates[:, 0] / rates[:, 1]))


def evaluations(function: Callable, inputs: np.ndarray, repeats: int) -> Callable[[], int]:
    """Work that evaluates `function` on a batch, spread over the devices, `repeats` times."""
    by_chain = jax.sharding.NamedSharding(
        chain_mesh(len(inputs)), jax.sharding.PartitionSpec("chains")
    )
    batch = jax.device_put(jnp.asarray(inputs, dtype=float), by_chain)
    evaluate = jax.jit(jax.vmap(function))

    def work() -> int:
        for _ in range(repeats):
            evaluate(batch).block_until_ready()
        return repeats * len(inputs)

    return work


def steps(posterior: tc.Posterior, positions: np.ndarray, num_steps: int) -> Callable[[], int]:
    """Work that takes pCN steps from `positions`."""

    def work() -> int:
        tc.sample(
            posterior,
            tc.pcn,
            step_size=BETA,
            num_chains=len(positions),
            num_warmup=0,
            num_samples=8,
            thin=num_steps,
            initial_positions=positions,
            progress=False,
        )
        return 8 * num_steps * len(positions)

    return work


def repeated(function: Callable, inputs: np.ndarray) -> Callable[[], int]:
    """Work of the plain program: one input after the other."""

    def work() -> int:
        for one in inputs:
            function(one.astype(float))
        return len(inputs)

    return work


def row(network: str, what: str, figures: tuple[float, float, float], errors: str = "") -> None:
    ours, plain, ratio = figures
    print(f"| {network} | {what} | {ours:,.0f} | {plain:,.1f} | {ratio:,.0f} | {errors} |")


def errors(ours: tc.Posterior, plain: PlainPosterior, tables: np.ndarray) -> str:
    """Largest errors of both sides, relative to max(1, |l|), on tables of values (T, M)."""
    exact = np.array([exact_log_prob(plain, t) for t in tables])
    order = jnp.argsort(ours.likelihood.by_action(jnp.arange(tables[0].size)).ravel())
    mine = jax.vmap(ours.likelihood.log_prob)(jnp.asarray(tables, dtype=float)[:, order])
    theirs = np.array([plain.log_prob(t) for t in tables])
    scale = np.maximum(1, np.abs(exact))
    worst = [np.max(np.abs(np.asarray(side) - exact) / scale) for side in (mine, theirs)]
    return f"{worst[0]:.0e}, {worst[1]:.0e}"


def compare(width: int) -> None:
    """One table row for each thing measured."""
    ours, plain = problems(width)
    network = f"3x{width}"
    warm = tc.sample(
        ours,
        tc.pcn,
        step_size=BETA,
        num_chains=NUM_CHAINS,
        num_warmup=4000,
        num_samples=8,
        thin=50,
        progress=False,
    )
    draws = warm.flat_positions()
    repeats, num_steps = (200, 2000) if width < 50 else (20, 200)
    few = draws[::2][:30]
    if width == 10:
        for x64 in (False, True):
            with jax.enable_x64(x64):
                ours, plain = problems(width)
                tables = np.array([plain.values(z.astype(float)) for z in few])
                spread = np.random.default_rng(0).uniform(-3, 3, (4, tables[0].size))
                log_prob = ours.likelihood.log_prob
                figures = in_turns(
                    evaluations(log_prob, np.repeat(tables, 8, axis=0)[:64], repeats),
                    repeated(plain.log_prob, tables),
                )
                precision = "float64" if x64 else "float32"
                row("values given", f"likelihood, {precision}, posterior", figures,
                    errors(ours, plain, tables[:6]))  # fmt: skip
                print(f"| | gaps within 60 sigma | | | | {errors(ours, plain, spread)} |")
        ours, plain = problems(width)
    row(
        network,
        "network and likelihood",
        in_turns(
            evaluations(ours.log_likelihood, draws, repeats), repeated(plain.log_likelihood, few)
        ),
    )

    def plain_steps() -> int:
        plain.pcn(np.random.default_rng(0), draws[0].astype(float), BETA, 30)
        return 30

    row(network, "pCN steps", in_turns(steps(ours, draws[::8], num_steps), plain_steps))


def main() -> None:
    tc.use_cpu_devices()
    print(f"mountain car, 50 demonstrations, {NUM_CHAINS} chains on {len(jax.devices())} devices;")
    print("rates a second; errors of the log-likelihood relative to max(1, |l|), ours and plain\n")
    print("| network | what | traceclass | plain NumPy + quad | ratio | errors |")
    print("|---|---|---|---|---|---|")
    for width in (10, 100):
        compare(width)


if __name__ == "__main__":
    main()
