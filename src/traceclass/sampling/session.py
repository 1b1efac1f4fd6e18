"""The host's side of a run: warm-up, then draws, chunk by chunk, committed if there is a store.

What the host keeps between two chunks is all a run is: the chains, what the adaptation has learnt,
and how far they are. Keys come from (seed, chain, global step), so a session that begins from a
committed chunk makes the same draws as one that never stopped.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from traceclass.errors import UserValueError
from traceclass.kernels.base import Kernel, Tuning
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation import MIN_WARMUP, Annealing
from traceclass.sampling.checkpoint import chains_in, checkpoint, learnt_in
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
from traceclass.sampling.files import StoreError
from traceclass.sampling.interrupt import Interrupted, Pending
from traceclass.sampling.looks import Looks
from traceclass.sampling.progress import Progress, Status
from traceclass.sampling.run import Run, leading_move
from traceclass.sampling.store import Store
from traceclass.sampling.until import Until
from traceclass.sampling.warmup import Adaptation

# Any fixed number sets the sampler's keys apart from key(seed) itself.
_TAG = 0x7C1A55
# A commit is due after a tenth of the time so far, within these bounds, and when it takes at most
# a fiftieth of the time since the last one; and before draws fill the memory.
_SECONDS_BETWEEN_COMMITS = (1.0, 30.0)
_MOST_SHARE_OF_COMMITS = 0.02
_MOST_BYTES_BETWEEN_COMMITS = 64 * 2**20


@dataclasses.dataclass(kw_only=True)
class Session:
    """One call of `sample`."""

    posterior: Posterior
    program: Program
    adaptation: Adaptation
    tuning: list[Tuning]
    num_chains: int
    num_warmup: int
    num_samples: int
    thin: int
    seed: int
    position_every: int
    chunk_size: int | None
    until: Until | None
    progress: Progress
    signals: Pending
    store: Store | None

    def __post_init__(self):
        # Tagged, so that a user who splits key(seed) for the data does not get the chains' keys.
        root = jax.random.fold_in(jax.random.key(self.seed), _TAG)
        self.key_start, self.key_steps = jax.random.split(root)
        # What chains run on: the posterior, but for a part of warm-up after a hopeless start.
        self.target, self.inverse_temperature = self.posterior.tempered(1.0), 1.0
        self.warmup_done = self.draws_done = 0
        self.seconds = {"compile": 0.0, "warmup": 0.0, "sampling": 0.0}
        # Draws since the last commit; without a store, all of them.
        self.pending: list[dict[str, np.ndarray]] = []
        self.began = self.last_commit = time.monotonic()
        self.commit_seconds = 0.0
        # How many draws there are to be; grows while `until` is not reached.
        self.goal = self.num_samples
        self.stopped_by = "num_samples"

    @property
    def moves(self) -> tuple[Kernel, ...]:
        return self.program.kernel.moves

    @property
    def traced_tuning(self) -> tuple[Tuning, ...]:
        return traced(self.tuning)

    def run(self, initial_positions: Any) -> Run:
        """All of it: start or take up, warm up, draw."""
        try:
            began = time.perf_counter()
            self._begin(initial_positions)
            if not self._is_finished():
                self.advance(0, 0, 1, keep=False)  # no steps: compiles, and no more
            self.seconds["compile"] += time.perf_counter() - began
            self._warm_up()
            self._draw()
        finally:
            self.progress.close()
        recorded = self.store.draws if self.store is not None else _joined(self.pending)
        return Run(
            posterior=self.posterior,
            recorded=recorded,
            last_positions=np.asarray(self.chains.state.position).copy(),
            running_moments=jax.tree.map(np.asarray, self.chains.moments),
            num_samples=self.draws_done,
            stopped_by=self.stopped_by,
            **self._description(),
        )

    def _is_finished(self) -> bool:
        """Whether nothing is left to do, so that nothing need be compiled."""
        if self.warmup_done < self.num_warmup or self.draws_done < self.num_samples:
            return False
        if self.until is None:
            return True
        goal = self.num_samples
        while goal < min(self.draws_done, self.until.max_samples):
            goal = self.until.next_goal(goal)
        is_look = self.draws_done == goal
        return is_look and (
            goal >= self.until.max_samples or self.until.is_reached(self._recorded())
        )

    def _description(self) -> dict[str, Any]:
        """What a `Run` says besides its draws; plain values, so that a chunk can keep them."""
        return {
            "moves": list(_names(self.moves)),
            "tunings": [{k: np.asarray(v).item() for k, v in t.items()} for t in self.tuning],
            "targets": list(self.adaptation.targets),
            "num_chains": self.num_chains,
            "num_devices": self.program.mesh.size,
            "thin": self.thin,
            "num_warmup": self.num_warmup,
            "seed": self.seed,
            "sampling_seconds": self.seconds["sampling"],
            "warmup_seconds": self.seconds["warmup"],
            "compile_seconds": self.seconds["compile"],
        }

    def _begin(self, positions: Any) -> None:
        if self.store is not None and self.store.contents.damage is not None:
            warnings.warn(
                f"{self.store.contents.damage} It was set aside; the run goes on from draw "
                f"{self.store.contents.num_draws}.",
                stacklevel=2,
            )
        if self.store is not None and self.store.contents.chunks:
            try:
                self._take_up(self.store)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                raise StoreError(
                    f"{self.store.path} cannot be resumed: its last chunk lacks {error}."
                ) from error
            return
        if positions is None:
            chains, levels, finite = start(
                self.program, self.target, self.traced_tuning, self.key_start, self.num_chains
            )
        else:
            chains, levels, finite = self._at(positions)
        levels = np.asarray(levels)
        _check_start(levels, np.asarray(finite), given=positions is not None)
        self.chains = self._spread(chains)
        worst = float(levels.min()) if self.program.kernel.anneals else 0.0
        self.annealing = Annealing(worst, self.num_warmup)

    def _at(self, positions: Any) -> tuple[Chain, Any, Any]:
        return start_at(self.program, self.target, self.traced_tuning, self.key_start, positions)

    def _spread(self, chains: Chain) -> Chain:
        """Chains on the devices they will run on."""
        by_chain = jax.sharding.NamedSharding(
            self.program.mesh, jax.sharding.PartitionSpec("chains")
        )
        return jax.device_put(chains, by_chain)

    def _take_up(self, store: Store) -> None:
        """Begin where the last chunk ended."""
        meta, arrays = store.contents.last()
        self.warmup_done, self.draws_done = meta["warmup_done"], store.contents.num_draws
        self.tuning = [dict(tuning) for tuning in meta["description"]["tunings"]]
        self.seconds = {name: meta["description"][f"{name}_seconds"] for name in self.seconds}
        self.inverse_temperature = meta["inverse_temperature"]
        self.target = self.posterior.tempered(self.inverse_temperature)
        self.annealing = Annealing(meta["worst_start"], self.num_warmup)
        self.adaptation.remember(learnt_in(arrays))
        z = jax.ShapeDtypeStruct(
            (self.num_chains, self.posterior.prior.num_coordinates), jnp.result_type(float)
        )
        like, _, _ = eqx.filter_eval_shape(self._at, z)
        self.chains = self._spread(chains_in(arrays, like))

    def _commit(self) -> None:
        """Bring all since the last commit to the store."""
        if self.store is None:
            return
        began = time.monotonic()
        state = checkpoint(self.chains, self.adaptation.memory())
        meta = {
            "description": self._description(),
            "warmup_done": self.warmup_done,
            "asked": self.goal,
            "inverse_temperature": self.inverse_temperature,
            "worst_start": self.annealing.worst,
            "moments": [name for name, _ in self.program.moments],
        }
        self.store.commit(meta, _joined(self.pending), state)
        self.pending.clear()
        self.last_commit = time.monotonic()
        self.commit_seconds = self.last_commit - began

    def look(self, *, cut: bool) -> None:
        """Between two calls of the program: commit if it is time, or stop if a signal came."""
        if self.store is None:
            return
        stop = self.signals.number
        if stop is not None or (self._is_due() if self.chunk_size is None else cut):
            self._commit()
        if stop is not None:
            where = (
                f"draw {self.draws_done} of {self.num_samples}"
                if self.warmup_done == self.num_warmup
                else f"warm-up step {self.warmup_done} of {self.num_warmup}"
            )
            raise Interrupted(
                f"stopped after {where}; {self.store.path} keeps all of it, resume goes on.", stop
            )

    def _is_due(self) -> bool:
        now = time.monotonic()
        least, most = _SECONDS_BETWEEN_COMMITS
        pause = min(most, max(least, 0.1 * (now - self.began)))
        pause = max(pause, self.commit_seconds / _MOST_SHARE_OF_COMMITS)
        full = sum(a.nbytes for part in self.pending for a in part.values())
        return now - self.last_commit >= pause or full >= _MOST_BYTES_BETWEEN_COMMITS

    def _temper(self, inverse_temperature: float) -> None:
        """Chains at the same positions on another target; what they keep of it is made anew."""
        if inverse_temperature == self.inverse_temperature:
            return
        self.inverse_temperature = inverse_temperature
        self.target = self.posterior.tempered(inverse_temperature)
        self.chains = self._spread(self._at(self.chains.state.position)[0])

    def advance(
        self, first_step: int, num_draws: int, steps_per_draw: int, *, keep: bool
    ) -> tuple[Tally, dict[str, np.ndarray]]:
        """One call of the compiled program; tallies and draws come back as (chains, draws, ...)."""
        schedule = Schedule(
            jnp.uint32(first_step), jnp.int32(num_draws), jnp.uint32(steps_per_draw), np.array(keep)
        )
        self.chains, tally, draws = advance(
            self.program,
            self.target,
            self.traced_tuning,
            self.key_steps,
            self.chains,
            schedule,
        )
        # Copies: a view would keep the whole buffer alive, of which the draws may be a small part.
        tally = Tally(*(np.asarray(part)[:, :num_draws].copy() for part in tally))
        return tally, {n: np.asarray(d)[:, :num_draws].copy() for n, d in draws.items() if keep}

    def _warm_up(self) -> None:
        began, seconds, first = time.monotonic(), self.seconds["warmup"], self.warmup_done
        while self.warmup_done < self.num_warmup:
            done = self.warmup_done
            if self.num_warmup >= MIN_WARMUP:
                self._temper(self.annealing.inverse_temperature(done))
            self.tuning, window = self.adaptation.window(done, self.tuning)
            steps = min(window, self.num_warmup - done)
            tally, _ = self.advance(done, 1, steps, keep=False)
            self.warmup_done = done = done + steps
            rates, tried = _rates(tally)
            each = tried / self.num_chains
            self.adaptation.update(done, rates, each, self.chains.state.position)
            if done == self.num_warmup:
                self.tuning = self.adaptation.settled(self.tuning)
            self.seconds["warmup"] = seconds + time.monotonic() - began
            left = (time.monotonic() - began) * (self.num_warmup - done) / (done - first)
            self.show("warm-up", done, self.num_warmup, rates[self.lead], None, left)
            self.look(cut=True)

    @property
    def lead(self) -> int:
        return leading_move([move.rule is not None for move in self.moves])

    def _draw(self) -> None:
        """Draws until there are `num_samples`, or until they are good enough."""
        deadline = None
        if self.until is not None and self.until.max_time is not None:
            deadline = self.began + self.until.max_time
        looks = Looks(self)
        while True:
            while self.draws_done < self.goal:
                if deadline is not None and time.monotonic() > deadline:
                    self.stopped_by = "max_time"
                    return self._commit_rest()
                looks.advance(self.goal)
            if self.until is None:
                return self._commit_rest()
            if self.draws_done == self.goal and self.until.is_reached(self._recorded()):
                self.stopped_by = "until"
                return self._commit_rest()
            if self.goal >= self.until.max_samples:
                self.stopped_by = "max_samples"
                return self._commit_rest()
            self.goal = self.until.next_goal(self.goal)

    def _commit_rest(self) -> None:
        if self.store is not None and (self.pending or not self.store.contents.chunks):
            self._commit()

    def _recorded(self) -> dict[str, np.ndarray]:
        """All draws so far of what `until` looks at."""
        names = ("log_likelihood", *(name for name, _ in self.program.record))
        return {name: self.history(name) for name in names}

    def history(self, name: str) -> np.ndarray:
        """All draws so far of one functional."""
        stored = []
        if self.store is not None and self.store.contents.num_draws:
            stored = [self.store.draws[name]]
        return np.concatenate([*stored, *(part[name] for part in self.pending)], axis=1)

    def show(
        self, phase: str, done: int, total: int, rate: float, ess: float | None, left: float
    ) -> None:
        step_size = self.tuning[self.lead].get("step_size")
        size = None if step_size is None else float(step_size)
        self.progress.show(Status(phase, done, total, rate, size, ess, left))


def traced(tuning: Sequence[Tuning]) -> tuple[Tuning, ...]:
    """What is tuned, as the arrays the compiled program takes."""
    return tuple(
        {
            name: jnp.asarray(value, dtype=jnp.int32 if name == "num_kicks" else float)
            for name, value in of_move.items()
        }
        for of_move in tuning
    )


def _joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {n: np.concatenate([p[n] for p in parts], axis=1) for n in parts[0]} if parts else {}


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
        raise UserValueError(
            f"chain {first} cannot start: {what} at {where}. "
            "Check the data and the likelihood, or pass initial_positions= where it is finite."
        )
