"""`tc.sample`: warm-up, then draws, chunk by chunk, of all chains at once."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Kernel, KernelFactory, Tuning, as_kernel
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation import MIN_WARMUP, WINDOW, Annealing, MoveAdaptation
from traceclass.sampling.chunk import (
    MAX_START_TRIES,
    Chain,
    Program,
    Schedule,
    Tally,
    advance,
    start,
    start_at,
)
from traceclass.sampling.devices import chain_mesh
from traceclass.sampling.functionals import (
    Functional,
    bytes_per_draw,
    check_functionals,
    check_memory,
)
from traceclass.sampling.progress import Progress, Status, ess_so_far, make_progress
from traceclass.sampling.run import Run, leading_move
from traceclass.validation import require_count

# Any fixed number sets the sampler's keys apart from key(seed) itself.
_TAG = 0x7C1A55
# A chunk is the time between two looks at the progress bar.
_SECONDS_PER_CHUNK = 1.0
# Draws of one chunk live on the devices until it ends; the buffer is made anew for every chunk,
# warm-up windows included, so it is kept small.
_MAX_BYTES_PER_CHUNK = 4 * 2**20


def sample(
    posterior: Posterior,
    kernel: KernelFactory,
    *,
    step_size: float | Sequence[float] | str = "adapt",
    num_chains: int = 4,
    num_warmup: int = 2_000,
    num_samples: int = 1_000,
    thin: int | None = None,
    seed: int = 0,
    record: Mapping[str, Functional] | None = None,
    moments: Mapping[str, Functional] | None = None,
    store_positions: bool = True,
    initial_positions: Any = None,
    chunk_size: int | None = None,
    progress: bool = True,
) -> Run:
    """Run `num_chains` chains of `kernel` on `posterior` and keep `num_samples` draws of each.

    Chains start at prior draws (or at `initial_positions`, (chains, z)), take `num_warmup` steps
    in which `step_size="adapt"` is tuned to the kernel's target acceptance, and `tc.hmc`'s number
    of kicks to the autocorrelation it leaves; what was found is frozen (`run.tuning`), and then
    `thin` steps make each draw kept (None: 10, but 1 for `tc.hmc`). Chains are vmapped, and spread
    over the JAX devices there are (see `tc.use_cpu_devices`).

    `record` maps names to functions of a position; their values are kept for every draw.
    `moments` does the same for functions too large to keep: only a running mean and variance
    stay (`run.moments(name)`). `store_positions=False` keeps no positions.

    The draws depend on the seed, the number of chains and the machine, not on `chunk_size` (draws
    between two looks at the progress; chosen by time if None).
    """
    num_chains = require_count(num_chains, "num_chains", "Nothing runs without a chain.")
    num_warmup = require_count(num_warmup, "num_warmup", "Steps cannot be negative.", 0)
    num_samples = require_count(num_samples, "num_samples", "A run needs draws.")
    kernel = as_kernel(kernel)
    thin = kernel.thin if thin is None else thin
    thin = require_count(thin, "thin", "It is the number of steps between two draws.")
    _check_steps(num_warmup + num_samples * thin)
    seed = require_count(seed, "seed", "Seeds are counted from 0.", 0)
    if seed >= 2**32:
        raise ValueError(f"seed must be below 2**32, got {seed}: JAX would wrap it around.")
    if chunk_size is not None:
        chunk_size = require_count(chunk_size, "chunk_size", "A chunk holds draws.")
    record, moments = record or {}, moments or {}
    moment_shapes = check_functionals(posterior, moments).values()
    shapes = check_functionals(posterior, record)
    draw_bytes = bytes_per_draw(posterior, shapes, store_positions) * num_chains
    # Running moments are a mean and a sum of squares a chain, however many draws there are.
    moment_bytes = 2 * num_chains * sum(s.size * s.dtype.itemsize for s in moment_shapes)
    check_memory(draw_bytes * num_samples + moment_bytes, store_positions)
    fitting = max(1, _MAX_BYTES_PER_CHUNK // draw_bytes)
    adapted = _is_adapted(kernel, step_size, num_warmup)
    run = _Sampling(
        posterior=posterior,
        program=Program(
            kernel=kernel,
            record=tuple(record.items()),
            moments=tuple(moments.items()),
            store_positions=store_positions,
            capacity=min(num_samples, fitting, chunk_size or num_samples),
            mesh=chain_mesh(num_chains),
        ),
        adaptations=_adaptations(kernel, num_warmup, posterior) if adapted else {},
        tuning=list(kernel.tuning(_first_step_sizes(kernel) if adapted else step_size)),
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thin=thin,
        seed=seed,
        chunk_size=chunk_size,
        progress=make_progress(progress),
    )
    return run.run(initial_positions)


@dataclasses.dataclass(kw_only=True)
class _Sampling:
    """One call of `sample`: what the host keeps between chunks."""

    posterior: Posterior
    program: Program
    adaptations: dict[int, MoveAdaptation]
    tuning: list[Tuning]
    num_chains: int
    num_warmup: int
    num_samples: int
    thin: int
    seed: int
    chunk_size: int | None
    progress: Progress

    def __post_init__(self):
        # Tagged, so that a user who splits key(seed) for the data does not get the chains' keys.
        root = jax.random.fold_in(jax.random.key(self.seed), _TAG)
        self.key_start, self.key_steps = jax.random.split(root)
        # What chains run on: the posterior, but for a part of warm-up after a hopeless start.
        self.target, self.inverse_temperature = self.posterior.tempered(1.0), 1.0

    @property
    def moves(self) -> tuple[Kernel, ...]:
        return self.program.kernel.moves

    @property
    def traced_tuning(self) -> tuple[Tuning, ...]:
        return tuple(
            {
                name: jnp.asarray(value, dtype=jnp.int32 if name == "num_kicks" else float)
                for name, value in tuning.items()
            }
            for tuning in self.tuning
        )

    def run(self, initial_positions: Any) -> Run:
        try:
            began = time.perf_counter()
            chains, levels = self._start(initial_positions)
            self._advance(chains, 0, 0, 1, keep=False)  # no steps: compiles, and no more
            compiled = time.perf_counter()
            chains = self._warm_up(chains, Annealing(levels, self.num_warmup))
            warm = time.perf_counter()
            chains, tally, draws = self._draw(chains)
            done = time.perf_counter()
        finally:
            self.progress.close()
        return Run(
            posterior=self.posterior,
            positions=draws.pop("position", None),
            draws=draws,
            tally=tally,
            moves=_names(self.moves),
            tunings=[{k: np.asarray(v).item() for k, v in t.items()} for t in self.tuning],
            targets=[
                move.rule.target if number in self.adaptations and move.rule else None
                for number, move in enumerate(self.moves)
            ],
            num_devices=self.program.mesh.size,
            thin=self.thin,
            num_warmup=self.num_warmup,
            seed=self.seed,
            sampling_seconds=done - warm,
            warmup_seconds=warm - compiled,
            compile_seconds=compiled - began,
            running_moments=jax.tree.map(np.asarray, chains.moments),
        )

    def _start(self, positions: Any) -> tuple[Chain, np.ndarray]:
        tuning = self.traced_tuning
        if positions is None:
            chains, levels, finite = start(
                self.program, self.target, tuning, self.key_start, self.num_chains
            )
        else:
            shape = (self.num_chains, self.posterior.prior.num_coordinates)
            positions = jnp.asarray(positions, dtype=float)
            if positions.shape != shape:
                raise ValueError(
                    f"initial_positions must have shape (num_chains, num_coordinates) = {shape}, "
                    f"got {positions.shape}."
                )
            chains, levels, finite = start_at(self.program, self.target, tuning, positions)
        _check_start(np.asarray(levels), np.asarray(finite), given=positions is not None)
        return self._spread(chains), np.asarray(levels)

    def _spread(self, chains: Chain) -> Chain:
        """Chains on the devices they will run on."""
        by_chain = jax.sharding.NamedSharding(
            self.program.mesh, jax.sharding.PartitionSpec("chains")
        )
        return jax.device_put(chains, by_chain)

    def _temper(self, chains: Chain, inverse_temperature: float) -> Chain:
        """Chains at the same positions on another target; what they keep of it is made anew."""
        if inverse_temperature == self.inverse_temperature:
            return chains
        self.inverse_temperature = inverse_temperature
        self.target = self.posterior.tempered(inverse_temperature)
        tuning, positions = self.traced_tuning, chains.state.position
        return self._spread(start_at(self.program, self.target, tuning, positions)[0])

    def _advance(
        self, chains: Chain, first_step: int, num_draws: int, steps_per_draw: int, *, keep: bool
    ) -> tuple[Chain, Tally, dict[str, np.ndarray]]:
        """One call of the compiled program; tallies and draws come back as (chains, draws, ...)."""
        schedule = Schedule(
            jnp.uint32(first_step), jnp.int32(num_draws), jnp.uint32(steps_per_draw), np.array(keep)
        )
        chains, tally, draws = advance(
            self.program,
            self.target,
            self.traced_tuning,
            self.key_steps,
            chains,
            schedule,
        )
        tally = Tally(*(np.asarray(part)[:, :num_draws] for part in tally))
        return chains, tally, {n: np.asarray(d)[:, :num_draws] for n, d in draws.items() if keep}

    def _warm_up(self, chains: Chain, annealing: Annealing) -> Chain:
        began = time.monotonic()
        done = 0
        while done < self.num_warmup:
            if self.adaptations:
                chains = self._temper(chains, annealing.inverse_temperature(done))
            steps = min(WINDOW, self.num_warmup - done)
            for number, adaptation in self.adaptations.items():
                self.tuning[number], window = adaptation.window(done)
                steps = min(steps, window)
            chains, tally, _ = self._advance(chains, done, 1, steps, keep=False)
            done += steps
            rates, tried = _rates(tally)
            for number, adaptation in self.adaptations.items():
                each = tried[number] / self.num_chains
                adaptation.update(done, rates[number], each, chains.state.position)
            self._show("warm-up", done, self.num_warmup, rates[self._lead], None, began)
        for number, adaptation in self.adaptations.items():
            self.tuning[number] = adaptation.settled()
        return chains

    @property
    def _lead(self) -> int:
        return leading_move([move.rule is not None for move in self.moves])

    def _draw(self, chains: Chain) -> tuple[Chain, Tally, dict[str, np.ndarray]]:
        began = last_look = time.monotonic()
        tallies: list[Tally] = []
        chunks: list[dict[str, np.ndarray]] = []
        done, size, ess = 0, self.chunk_size or 1, None
        accepted, tried = 0.0, 0
        while done < self.num_samples:
            chunk_began = time.monotonic()
            size = min(size, self.program.capacity, self.num_samples - done)
            chains, tally, draws = self._advance(
                chains, self.num_warmup + done * self.thin, size, self.thin, keep=True
            )
            tallies.append(tally)
            chunks.append(draws)
            done += size
            now = time.monotonic()
            if self.progress.wants_ess and now - last_look > 2.0:
                ess = ess_so_far(np.concatenate([c["log_likelihood"] for c in chunks], axis=1))
                last_look = now
            accepted += float(tally.acceptance_rate[..., self._lead].sum())
            tried += int(tally.tried[..., self._lead].sum())
            rate = accepted / max(tried, 1)
            self._show("sampling", done * self.thin, self.num_samples * self.thin, rate, ess, began)
            if self.chunk_size is None:
                # Not more than double: the first chunk is too short to time well.
                pace = _SECONDS_PER_CHUNK / max(now - chunk_began, 1e-6)
                size = max(1, int(size * min(2.0, pace)))
        joined = {n: np.concatenate([c[n] for c in chunks], axis=1) for n in chunks[0]}
        tally = Tally(*(np.concatenate(parts, axis=1) for parts in zip(*tallies, strict=True)))
        return chains, tally, joined

    def _show(
        self, phase: str, done: int, total: int, rate: float, ess: float | None, began: float
    ) -> None:
        left = (time.monotonic() - began) * (total - done) / done
        step_size = self.tuning[self._lead].get("step_size")
        size = None if step_size is None else float(step_size)
        self.progress.show(Status(phase, done, total, rate, size, ess, left))


def _check_steps(num_steps: int) -> None:
    if num_steps >= 2**32:
        raise ValueError(
            f"a chain of {num_steps:,} steps is too long: the global step, from which every key "
            "comes, must stay below 2**32. Thin less or keep fewer draws."
        )


def _is_adapted(kernel: Kernel, step_size: Any, num_warmup: int) -> bool:
    """Whether step sizes are to be found; fixed ones are checked by the kernel."""
    if not isinstance(step_size, str):
        kernel.check_step_size(step_size)
        return False
    if step_size != "adapt":
        raise ValueError(f'step_size must be a number or "adapt", got {step_size!r}.')
    rules = [move.rule for move in kernel.moves if move.rule is not None]
    if any(rule.target is None for rule in rules):
        raise ValueError(
            'step_size="adapt" needs a kernel of traceclass, which knows its target '
            "acceptance rate; pass a number for other kernels."
        )
    if rules and num_warmup < MIN_WARMUP:
        raise ValueError(
            f'step_size="adapt" needs num_warmup >= {MIN_WARMUP}, got {num_warmup}: the step '
            "size is found in warm-up. Use e.g. num_warmup=2000, or pass a number."
        )
    return True


def _adaptations(
    kernel: Kernel, num_warmup: int, posterior: Posterior
) -> dict[int, MoveAdaptation]:
    """One for each move with a step size, by the move's number."""
    return {
        number: MoveAdaptation(move, num_warmup, posterior)
        for number, move in enumerate(kernel.moves)
        if move.rule is not None
    }


def _first_step_sizes(kernel: Kernel) -> Any:
    """What adaptation begins from, in the form `kernel.tuning` takes."""
    first = tuple(move.rule.first for move in kernel.moves if move.rule is not None)
    return first[0] if len(first) == 1 else first


def _names(moves: Sequence[Kernel]) -> tuple[str, ...]:
    """The moves' names, numbered where one occurs twice."""
    names = [move.name for move in moves]
    return tuple(
        name if names.count(name) == 1 else f"{name}_{names[: number + 1].count(name)}"
        for number, name in enumerate(names)
    )


def _rates(tally: Tally) -> tuple[np.ndarray, np.ndarray]:
    """The mean acceptance rate of each move over all chains, and how often it was tried."""
    tried = tally.tried.sum(axis=(0, 1))
    return tally.acceptance_rate.sum(axis=(0, 1)) / np.maximum(tried, 1), tried


def _check_start(levels: np.ndarray, finite: np.ndarray, *, given: bool) -> None:
    hopeless = np.flatnonzero(~finite)
    if hopeless.size:
        first = int(hopeless[0])
        where = "its initial position" if given else f"{MAX_START_TRIES} prior draws in a row"
        what = f"the log-likelihood is {levels[first]}"
        if np.isfinite(levels[first]):
            what = "the gradient of the log-likelihood is not finite"
        raise ValueError(
            f"chain {first} cannot start: {what} at {where}. "
            "Check the data and the likelihood, or pass initial_positions= where it is finite."
        )
