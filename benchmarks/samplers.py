"""Effective samples a second of our kernels and of BlackJAX's, with one tuning for all chains.

Mountain car at widths 10, 30 and 100 and a linear-Gaussian problem. Every kernel is tuned by its
own warm-up: ours by `tc.sample`, NUTS by BlackJAX's window adaptation (diagonal metric), MCLMC by
BlackJAX's own tuner. They then run as 8 chains over the same devices in the same driver, in turns,
for four rounds that start at the same posterior draws for all; ESS (bulk, arviz-stats) is that of
the 32 chains together, and the time to compile and to warm up is left out. On more posteriors, with
a tuning for each chain: `benchmarks.posteriors`.

    python -m benchmarks.samplers [--seconds 120] [--widths 10 30 100] [--per-evaluation]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base.array import array_stats

import traceclass as tc
from benchmarks.posteriors.problems import Problem, linear_gaussian, mountain_car

NUM_CHAINS = 8
ROUNDS = 4
BURN_IN = 1_500


class Contender(NamedTuple):
    """A kernel, tuned: what `tc.sample` runs it with."""

    kernel: Any
    step_size: Any
    gradients_a_step: str


def tuned(problem: Problem, wanted: Sequence[str]) -> tuple[dict[str, Contender], np.ndarray]:
    """Contenders after their own warm-up, and where rounds start (rounds, chains, z)."""
    posterior = problem.posterior
    quiet = {"num_chains": NUM_CHAINS, "progress": False}
    warm = tc.sample(posterior, tc.hmc, num_warmup=BURN_IN, num_samples=ROUNDS, thin=30, **quiet)
    starts = np.swapaxes(warm.positions, 0, 1)
    kicks = warm.tuning["hmc"]["num_kicks"]

    def ours(kernel: tc.Kernel, gradients: str) -> Contender:
        run = tc.sample(
            posterior, kernel, num_warmup=2000, num_samples=4, initial_positions=starts[0], **quiet
        )
        return Contender(kernel, run.step_size, gradients)

    make = {
        "hmc": lambda: Contender(tc.hmc.using(num_kicks=kicks), warm.step_size, f"{kicks}"),
        "pcn": lambda: ours(tc.pcn, "0"),
        "pcnl": lambda: ours(tc.pcnl, "1"),
        "elliptical_slice (BlackJAX)": lambda: Contender(tc.elliptical_slice, None, "0"),
        "NUTS (BlackJAX)": lambda: nuts(posterior, starts[0, 0]),
        "MCLMC (BlackJAX)": lambda: mclmc(posterior, starts[0, 0]),
    }
    return {name: make[name]() for name in make if name.split()[0] in wanted}, starts


def nuts(posterior: tc.Posterior, start: np.ndarray) -> Contender:
    """Step size and diagonal metric by BlackJAX's window adaptation, 1,500 steps as for HMC."""
    import blackjax  # late: it starts JAX, and devices are set before

    warmup = blackjax.window_adaptation(blackjax.nuts, posterior.logdensity)
    (_, found), _ = jax.jit(lambda key, z: warmup.run(key, z, num_steps=1500))(
        jax.random.key(1), jnp.asarray(start)
    )
    metric = found["inverse_mass_matrix"]

    def build(posterior: tc.Posterior, step_size: Any) -> Any:
        return blackjax.nuts(posterior.logdensity, step_size, metric)

    return Contender(build, float(found["step_size"]), "tree")


def mclmc(posterior: tc.Posterior, start: np.ndarray) -> Contender:
    """Step size and momentum decoherence length by BlackJAX's tuner; unadjusted, so biased."""
    import blackjax

    state = blackjax.mcmc.mclmc.init(jnp.asarray(start), posterior.logdensity, jax.random.key(2))

    found = blackjax.mclmc_find_L_and_step_size(
        mclmc_kernel=blackjax.mcmc.mclmc.build_kernel(),
        num_steps=20_000,
        state=state,
        rng_key=jax.random.key(3),
        logdensity_fn=posterior.logdensity,
    )[1]

    def build(posterior: tc.Posterior, step_size: Any) -> Any:
        return blackjax.mclmc(
            posterior.logdensity, found.L, step_size, inverse_mass_matrix=found.inverse_mass_matrix
        )

    return Contender(build, float(found.step_size), "2")


class Tally:
    """Draws and seconds of one contender, round after round."""

    def __init__(self):
        self.values: list[np.ndarray] = []
        self.levels: list[np.ndarray] = []
        self.rates: list[float] = []
        self.seconds = 0.0

    def add(self, run: tc.Run) -> None:
        self.values.append(run.draws["values"])
        self.levels.append(run.draws["log_likelihood"][..., None])
        self.rates.append(run.acceptance_rate)
        self.seconds += run.sampling_seconds

    def ess_a_second(self, parts: list[np.ndarray]) -> float:
        """The smallest over components, of the chains of all rounds together."""
        draws = np.concatenate(parts).astype(np.float64)
        ess = min(float(array_stats.ess(draws[..., k])) for k in range(draws.shape[-1]))
        return ess / self.seconds


def race(name_of: str, problem: Problem, seconds: float, wanted: Sequence[str]) -> None:
    """One row for each contender."""
    contenders, starts = tuned(problem, wanted)
    tallies = {name: Tally() for name in contenders}
    plans = {name: plan(problem, c, starts[0], seconds / ROUNDS) for name, c in contenders.items()}
    for number in range(ROUNDS):
        for name, contender in contenders.items():
            tallies[name].add(go(problem, contender, starts[number], number, *plans[name]))
    ours = tallies["hmc"].ess_a_second(tallies["hmc"].values) if "hmc" in tallies else None
    for name, tally in tallies.items():
        contender, values = contenders[name], tally.ess_a_second(tally.values)
        size = "" if contender.step_size is None else f"{contender.step_size:.3g}"
        faster = "" if ours is None else f"{ours / values:.2g}"
        print(
            f"| {name_of} | {name} | {size} | {contender.gradients_a_step} | "
            f"{np.mean(tally.rates):.2f} | {tally.seconds:.0f} | {values:.3g} | "
            f"{tally.ess_a_second(tally.levels):.3g} | {faster} |",
            flush=True,
        )


def per_evaluation(saturation: float | None, num_samples: int = 4000) -> None:
    """ESS a million evaluations (of the likelihood for pCN, with its gradient for the others)."""
    problem = mountain_car(10, saturation)
    contenders, starts = tuned(problem, ("hmc", "pcn", "pcnl"))
    for name in ("pcn", "pcnl", "hmc"):
        contender, tally = contenders[name], Tally()
        cost = int(contender.gradients_a_step) or 1
        thin = max(1, 100 // cost)
        for number in range(ROUNDS):
            tally.add(go(problem, contender, starts[number], number, num_samples, thin))
        evaluations = ROUNDS * NUM_CHAINS * num_samples * thin * cost / 1e6
        values, level = (
            tally.ess_a_second(part) * tally.seconds / evaluations
            for part in (tally.values, tally.levels)
        )
        print(
            f"| {saturation} | {name} | {contender.step_size:.3g} | {np.mean(tally.rates):.2f} | "
            f"{values:.3g} | {level:.3g} |",
            flush=True,
        )


def plan(
    problem: Problem, contender: Contender, start: np.ndarray, seconds: float
) -> tuple[int, int]:
    """How many draws, how many steps apart, fill the time; timed on what is already compiled."""
    steps = 8
    go(problem, contender, start, 0, 4, steps)
    # Longer and longer, until the time is that of steps and not that of calls.
    while (run := go(problem, contender, start, 0, 4, steps)).sampling_seconds < 0.5:
        steps *= 4
    total = max(100, int(4 * steps / run.sampling_seconds * seconds))
    thin = max(1, total // 1500)
    return total // thin, thin


def go(
    problem: Problem,
    contender: Contender,
    start: np.ndarray,
    seed: int,
    num_samples: int,
    thin: int,
) -> tc.Run:
    return tc.sample(
        problem.posterior,
        contender.kernel,
        step_size=contender.step_size,
        num_chains=NUM_CHAINS,
        num_warmup=0,
        num_samples=num_samples,
        thin=thin,
        seed=seed,
        record={"values": problem.predictions},
        initial_positions=start,
        store_positions=False,
        progress=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0, help="for each kernel and problem")
    parser.add_argument("--widths", type=int, nargs="*", default=[10, 30, 100])
    everyone = ["hmc", "pcn", "pcnl", "elliptical_slice", "NUTS", "MCLMC"]
    parser.add_argument("--kernels", nargs="*", default=everyone, choices=everyone)
    parser.add_argument(
        "--per-evaluation", action="store_true", help="also pCNL against pCN an evaluation"
    )
    arguments = parser.parse_args()
    tc.use_cpu_devices()
    print(f"{NUM_CHAINS} chains on {len(jax.devices())} devices, {arguments.seconds:g} s each\n")
    print(
        "| problem | kernel | step size | gradients a step | acceptance | seconds | smallest ESS/s "
        "of values | ESS/s of the log-likelihood | HMC is faster by |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for width in arguments.widths:
        name = f"mountain car 3x{width}"
        race(name, mountain_car(width), arguments.seconds, arguments.kernels)
    name = "linear-Gaussian, 625 terms"
    race(name, linear_gaussian(), arguments.seconds, arguments.kernels)
    if arguments.per_evaluation:
        compare_per_evaluation()


def compare_per_evaluation() -> None:
    print("\nper evaluation, mountain car 3x10, values through c tanh(v/c)\n")
    print("| c | kernel | step size | acceptance | smallest ESS of values a million | of the l |")
    print("|---|---|---|---|---|---|")
    for saturation in (None, 1.0):
        per_evaluation(saturation)


if __name__ == "__main__":
    main()
