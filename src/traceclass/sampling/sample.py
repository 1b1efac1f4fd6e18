"""`tc.sample`: warm-up, then draws, chunk by chunk, of all chains at once."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Kernel, KernelFactory
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation import MIN_WARMUP, WINDOW, StepSizeAdaptation
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
from traceclass.sampling.run import Run
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
    step_size: float | str = "adapt",
    num_chains: int = 4,
    num_warmup: int = 2_000,
    num_samples: int = 1_000,
    thin: int = 10,
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
    in which `step_size="adapt"` is tuned to the kernel's target acceptance and then frozen, and
    then `thin` steps for each draw kept. They are vmapped, and spread over the JAX devices there
    are (see `tc.use_cpu_devices`).

    `record` maps names to functions of a position; their values are kept for every draw.
    `moments` does the same for functions too large to keep: only a running mean and variance
    stay (`run.moments(name)`). `store_positions=False` keeps no positions.

    The draws depend on the seed, the number of chains and the machine, not on `chunk_size` (draws
    between two looks at the progress; chosen by time if None).
    """
    num_chains = require_count(num_chains, "num_chains", "Nothing runs without a chain.")
    num_warmup = require_count(num_warmup, "num_warmup", "Steps cannot be negative.", 0)
    num_samples = require_count(num_samples, "num_samples", "A run needs draws.")
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
    adaptation = _adaptation(kernel, step_size, num_warmup)
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
        adaptation=adaptation,
        step_size=adaptation.step_size if adaptation else float(step_size),
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
    adaptation: StepSizeAdaptation | None
    step_size: float
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

    def run(self, initial_positions: Any) -> Run:
        try:
            began = time.perf_counter()
            chains = self._start(initial_positions)
            self._advance(chains, 0, 0, 1, keep=False)  # no steps: compiles, and no more
            compiled = time.perf_counter()
            chains = self._warm_up(chains)
            warm = time.perf_counter()
            chains, tally, draws = self._draw(chains)
            done = time.perf_counter()
        finally:
            self.progress.close()
        return Run(
            posterior=self.posterior,
            positions=draws.pop("position", None),
            draws=draws,
            acceptance=tally.acceptance_rate / self.thin,
            num_accepted=tally.accepted.sum(axis=1),
            num_nonfinite=tally.nonfinite.sum(axis=1),
            step_size=self.step_size,
            target_acceptance=self.adaptation.target if self.adaptation else None,
            num_devices=self.program.mesh.size,
            thin=self.thin,
            num_warmup=self.num_warmup,
            seed=self.seed,
            sampling_seconds=done - warm,
            warmup_seconds=warm - compiled,
            compile_seconds=compiled - began,
            running_moments=jax.tree.map(np.asarray, chains.moments),
        )

    def _start(self, positions: Any) -> Chain:
        step_size = jnp.asarray(self.step_size, dtype=float)
        if positions is None:
            chains, levels = start(
                self.program, self.posterior, step_size, self.key_start, self.num_chains
            )
        else:
            shape = (self.num_chains, self.posterior.prior.num_coordinates)
            positions = jnp.asarray(positions, dtype=float)
            if positions.shape != shape:
                raise ValueError(
                    f"initial_positions must have shape (num_chains, num_coordinates) = {shape}, "
                    f"got {positions.shape}."
                )
            chains, levels = start_at(self.program, self.posterior, step_size, positions)
        self._check_start(np.asarray(levels), given=positions is not None)
        by_chain = jax.sharding.NamedSharding(
            self.program.mesh, jax.sharding.PartitionSpec("chains")
        )
        return jax.device_put(chains, by_chain)

    def _check_start(self, levels: np.ndarray, *, given: bool) -> None:
        hopeless = np.flatnonzero(~np.isfinite(levels))
        if hopeless.size:
            first = int(hopeless[0])
            where = "its initial position" if given else f"{MAX_START_TRIES} prior draws in a row"
            raise ValueError(
                f"chain {first} cannot start: the log-likelihood is {levels[first]} at {where}. "
                "Check the data and the likelihood, or pass initial_positions= where it is finite."
            )

    def _advance(
        self, chains: Chain, first_step: int, num_draws: int, steps_per_draw: int, *, keep: bool
    ) -> tuple[Chain, Tally, dict[str, np.ndarray]]:
        """One call of the compiled program; tallies and draws come back as (chains, draws, ...)."""
        schedule = Schedule(
            jnp.uint32(first_step), jnp.int32(num_draws), jnp.uint32(steps_per_draw), np.array(keep)
        )
        chains, tally, draws = advance(
            self.program,
            self.posterior,
            jnp.asarray(self.step_size, dtype=float),
            self.key_steps,
            chains,
            schedule,
        )
        tally = Tally(*(np.asarray(part)[:, :num_draws] for part in tally))
        return chains, tally, {n: np.asarray(d)[:, :num_draws] for n, d in draws.items() if keep}

    def _warm_up(self, chains: Chain) -> Chain:
        began = time.monotonic()
        done = 0
        while done < self.num_warmup:
            steps = min(WINDOW, self.num_warmup - done)
            chains, tally, _ = self._advance(chains, done, 1, steps, keep=False)
            done += steps
            rate = float(tally.acceptance_rate.mean()) / steps
            if self.adaptation:
                self.adaptation.update(rate)
                self.step_size = self.adaptation.step_size
            self._show("warm-up", done, self.num_warmup, rate, None, began)
        if self.adaptation:
            self.step_size = self.adaptation.settled()
        return chains

    def _draw(self, chains: Chain) -> tuple[Chain, Tally, dict[str, np.ndarray]]:
        began = last_look = time.monotonic()
        tallies: list[Tally] = []
        chunks: list[dict[str, np.ndarray]] = []
        done, size, accepted, ess = 0, self.chunk_size or 1, 0.0, None
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
            accepted += float(tally.acceptance_rate.sum())
            rate = accepted / (done * self.thin * self.num_chains)
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
        self.progress.show(Status(phase, done, total, rate, self.step_size, ess, left))


def _check_steps(num_steps: int) -> None:
    if num_steps >= 2**32:
        raise ValueError(
            f"a chain of {num_steps:,} steps is too long: the global step, from which every key "
            "comes, must stay below 2**32. Thin less or keep fewer draws."
        )


def _adaptation(
    kernel: KernelFactory, step_size: float | str, num_warmup: int
) -> StepSizeAdaptation | None:
    """The adaptation a run asks for, if any; a fixed step size is checked by the kernel."""
    if isinstance(step_size, str):
        if step_size != "adapt":
            raise ValueError(f'step_size must be a number or "adapt", got {step_size!r}.')
        if not isinstance(kernel, Kernel):
            raise ValueError(
                'step_size="adapt" needs a kernel of traceclass, which knows its target '
                "acceptance rate; pass a number for other kernels."
            )
        if num_warmup < MIN_WARMUP:
            raise ValueError(
                f'step_size="adapt" needs num_warmup >= {MIN_WARMUP}, got {num_warmup}: the step '
                "size is found in warm-up. Use e.g. num_warmup=2000, or pass a number."
            )
        return StepSizeAdaptation(kernel, num_warmup)
    if isinstance(kernel, Kernel):
        kernel.check_step_size(step_size)
    return None
