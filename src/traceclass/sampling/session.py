"""The host's side of a run: warm-up, then draws, chunk by chunk, committed if there is a store.

What the host keeps between two chunks is all a run is: the chains, what the adaptation has learnt,
and how far they are. Keys come from (seed, chain, global step), so a session that begins from a
committed chunk makes the same draws as one that never stopped.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Kernel, Tuning
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation import MIN_WARMUP, Annealing, adaptation_of
from traceclass.sampling.adaptation.left_behind import beside_others, is_look, left_behind
from traceclass.sampling.adaptation.windows import Seen
from traceclass.sampling.chunk import GRADIENT, Chain, Program, Schedule, Tally, traced
from traceclass.sampling.devices import Spread
from traceclass.sampling.files import StoreError
from traceclass.sampling.interrupt import Interrupted, Pending
from traceclass.sampling.progress import Pace, Progress, Status, ess_so_far
from traceclass.sampling.run import TALLY, Run, leading_move
from traceclass.sampling.settings import Settings
from traceclass.sampling.side_by_side import ForEach, advance_shares, in_turn, side_by_side
from traceclass.sampling.start import check_start, gradients_in_words, start, start_at
from traceclass.sampling.store import Store
from traceclass.sampling.stored import chains_in, learnt_in, named_state
from traceclass.sampling.until import Until

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
    settings: Settings
    # The program of this run, where all chains are tuned alike, or each by itself.
    program_of: Callable[[bool], Program]
    spread: Spread
    progress: Progress
    signals: Pending
    store: Store | None

    def __post_init__(self):
        settings = self.settings
        # Tagged, so that a user who splits key(seed) for the data does not get the chains' keys.
        root = jax.random.fold_in(jax.random.key(settings.seed), _TAG)
        self.key_start, self.key_steps = jax.random.split(root)
        # What chains run on: the posterior, except in a part of warm-up after a hopeless start.
        self.target, self.inverse_temperature = self.posterior.tempered(1.0), 1.0
        self.tuning: list[Tuning] = list(settings.tuning)
        self.adaptation = adaptation_of(
            settings.kernel,
            settings.num_warmup,
            self.posterior,
            settings.num_chains,
            sizes_are_given=not settings.is_adapted,
        )
        self.program = self.program_of(self.adaptation.is_by_chain)
        if self.adaptation.is_by_chain:
            self.tuning, _ = self.adaptation.window(0, self.tuning)
        self.warmup_done = self.draws_done = 0
        # Chains that were left behind in warm-up, and beside which others they began again.
        self.restarts: list[dict[str, int]] = []
        self.seconds = {"compile": 0.0, "warmup": 0.0, "sampling": 0.0}
        # Draws since the last commit; without a store, all of them.
        self.pending: list[dict[str, np.ndarray]] = []
        self.began = self.last_commit = time.monotonic()
        self.commit_seconds = 0.0
        # How many draws there are to be; grows while `until` is not reached.
        self.goal = settings.num_samples
        self.stopped_by = "num_samples"
        self.lead = leading_move([move.rule is not None for move in settings.kernel.moves])
        # Side by side when all is compiled: the first share compiles for the others.
        self.for_each_share: ForEach = in_turn

    def run(self) -> Run:
        """Begin or take up the run, warm up, and draw."""
        try:
            began = time.perf_counter()
            self._begin()
            if not self._is_finished():
                with gradients_in_words():
                    self._compile()
            self.seconds["compile"] += time.perf_counter() - began
            num_threads = min(self.spread.num_shares, self.spread.num_cores or 1)
            with side_by_side(num_threads) as self.for_each_share:
                self._warm_up()
                if self._is_warm():
                    self._draw()
                else:
                    self._end_in_warm_up()
            self.for_each_share = in_turn
        finally:
            self.progress.close()
        recorded = self.store.draws if self.store is not None else _joined(self.pending)
        if not self.draws_done:
            recorded = self._nothing_drawn()
        return Run(
            posterior=self.posterior,
            recorded=recorded,
            last_positions=np.asarray(self.chains.state.position).copy(),
            running_moments=jax.tree.map(np.asarray, self.chains.moments),
            num_samples=self.draws_done,
            stopped_by=self.stopped_by,
            **self._description(),
        )

    def _compile(self) -> None:
        """Make no steps, in turn: the first share compiles for the others, and no more."""
        for_each_share, self.for_each_share = self.for_each_share, in_turn
        self.advance(0, 0, 1, keep=False)
        self.for_each_share = for_each_share

    def _is_finished(self) -> bool:
        """Whether nothing is left to do, so that nothing need be compiled."""
        settings, until = self.settings, self.settings.until
        if self.warmup_done < settings.num_warmup or self.draws_done < settings.num_samples:
            return False
        if until is None:
            return True
        goal = settings.num_samples
        while goal < min(self.draws_done, until.max_samples):
            goal = until.next_goal(goal)
        is_look = self.draws_done == goal
        return is_look and (goal >= until.max_samples or until.is_reached(self._recorded()))

    def _description(self) -> dict[str, Any]:
        """What a `Run` says besides its draws; plain values, so that a chunk can keep them."""
        starts = self.settings.num_starts
        apart = {
            "chain_tunings": [_of_chains(tuning) for tuning in self.tuning],
            "moved_by": list(self.adaptation.moved_by),
        }
        return {
            **(apart if self.program.tunes_chains else {}),
            **({"restarts": self.restarts} if self.restarts else {}),
            **({"num_starts": starts} if starts < self.settings.num_chains else {}),
            "moves": list(_names(self.settings.kernel.moves)),
            "tunings": [_in_the_middle(tuning) for tuning in self.tuning],
            "targets": list(self.adaptation.targets),
            "num_chains": self.settings.num_chains,
            "num_devices": self.program.mesh.size,
            "num_cores": self.spread.num_cores,
            "num_cores_used": self.spread.num_cores_used,
            "idle_cores": self.spread.idle_cores,
            "thin": self.settings.thin,
            "num_warmup": self.settings.num_warmup,
            "seed": self.settings.seed,
            "sampling_seconds": self.seconds["sampling"],
            "warmup_seconds": self.seconds["warmup"],
            "compile_seconds": self.seconds["compile"],
        }

    def _begin(self) -> None:
        """Put the chains where they start, or where the last chunk of the store ended."""
        if self.store is not None and self.store.contents.damage is not None:
            warnings.warn(
                f"{self.store.contents.damage} It was set aside; the run goes on from draw "
                f"{self.store.contents.num_draws}.",
                stacklevel=2,
            )
        if self.store is not None and self.store.contents.chunks:
            try:
                return self._take_up(self.store)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                raise StoreError(
                    f"{self.store.path} cannot be resumed: its last chunk lacks {error}."
                ) from error
        positions, num_chains = self.settings.initial_positions, self.settings.num_chains
        with gradients_in_words():
            if positions is None:
                each = num_chains // self.settings.num_starts
                started = start(
                    self.program, self.target, self._traced(), self.key_start, num_chains, each
                )
            else:
                started = self._at(positions)
        log_likelihoods = np.asarray(started[1])
        check_start(log_likelihoods, np.asarray(started[2]), given=positions is not None)
        self.chains = self._spread(started[0])
        worst = float(log_likelihoods.min()) if self.settings.kernel.anneals else 0.0
        self.annealing = Annealing(worst, self.settings.num_warmup)

    def _at(self, positions: Any) -> tuple[Chain, Any, Any]:
        return start_at(self.program, self.target, self._traced(), self.key_start, positions)

    def _traced(self) -> tuple[Tuning, ...]:
        """What is tuned as the program takes it: where chains are tuned apart, for each of them."""
        shared = traced(self.tuning)
        if not self.program.tunes_chains:
            return shared
        num_chains = self.settings.num_chains
        return jax.tree.map(lambda a: a if a.ndim else jnp.broadcast_to(a, num_chains), shared)

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
        self.restarts = list(meta["description"].get("restarts", []))
        self.inverse_temperature = meta["inverse_temperature"]
        self.target = self.posterior.tempered(self.inverse_temperature)
        self.annealing = Annealing(meta["worst_start"], self.settings.num_warmup)
        self.adaptation.remember(learnt_in(arrays))
        self.program = self.program_of(self.adaptation.is_by_chain)
        if self.program.tunes_chains:  # their references are arrays, and not in the description
            self.tuning = self.adaptation.settled(self.tuning)
        shape = (self.settings.num_chains, self.posterior.prior.num_coordinates)
        z = jax.ShapeDtypeStruct(shape, jnp.result_type(float))
        like, _, _ = eqx.filter_eval_shape(self._at, z)
        self.chains = self._spread(chains_in(arrays, like))

    def _commit(self) -> None:
        """Bring all since the last commit to the store."""
        if self.store is None:
            return
        began = time.monotonic()
        state = named_state(self.chains, self.adaptation.memory())
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
        # What references are fitted to is large: in warm-up it is committed when it is time.
        by_time = self.program.shows_gradients and not self._is_warm()
        by_time = by_time or self.settings.chunk_size is None
        if stop is not None or (self._is_due() if by_time else cut):
            self._commit()
        if stop is not None:
            num_warmup = self.settings.num_warmup
            where = (
                f"draw {self.draws_done} of {self.goal}"
                if self.warmup_done == num_warmup
                else f"warm-up step {self.warmup_done} of {num_warmup}"
            )
            raise Interrupted(
                f"stopped after {where}; {self.store.path} keeps all of it, resume goes on.", stop
            )

    def _is_due(self) -> bool:
        """Whether it is time for a commit; see the constants above."""
        now = time.monotonic()
        least, most = _SECONDS_BETWEEN_COMMITS
        pause = min(most, max(least, 0.1 * (now - self.began)))
        pause = max(pause, self.commit_seconds / _MOST_SHARE_OF_COMMITS)
        full = sum(a.nbytes for part in self.pending for a in part.values())
        return now - self.last_commit >= pause or full >= _MOST_BYTES_BETWEEN_COMMITS

    def _temper(self, inverse_temperature: float) -> None:
        """Put the chains, where they are, on another target, and compute their states again."""
        if inverse_temperature == self.inverse_temperature:
            return
        self.inverse_temperature = inverse_temperature
        self.target = self.posterior.tempered(inverse_temperature)
        self.chains = self._spread(self._at(self.chains.state.position)[0])

    def advance(
        self,
        first_step: int,
        num_draws: int,
        steps_per_draw: int,
        *,
        keep: bool,
        is_warmup: bool = False,
    ) -> tuple[Tally, dict[str, np.ndarray]]:
        """One call of the compiled program; tallies and draws come back as (chains, draws, ...)."""
        schedule = Schedule(
            jnp.uint32(first_step),
            jnp.int32(num_draws),
            jnp.uint32(steps_per_draw),
            np.array(keep),
            np.array(is_warmup),
        )
        self.chains, tally, draws = advance_shares(
            self.for_each_share,
            self.spread.num_shares,
            self.program,
            self.target,
            self._traced(),
            self.key_steps,
            self.chains,
            schedule,
        )
        return tally, draws

    def _is_warm(self) -> bool:
        return self.warmup_done == self.settings.num_warmup

    def _deadline(self) -> float:
        until = self.settings.until
        seconds = None if until is None else until.max_time
        return math.inf if seconds is None else self.began + seconds

    def _end_in_warm_up(self) -> None:
        """Time was over before the first draw: a run with no draws, that can be resumed."""
        self.stopped_by = "max_time"
        if self.store is not None:
            self._commit()

    def _nothing_drawn(self) -> dict[str, np.ndarray]:
        """All that is recorded, of no draws."""
        tally, draws = self.advance(0, 0, 1, keep=True)
        return self._recorded_of(tally, draws)

    def _warm_up(self) -> None:
        """Windows of steps whose tuning follows what the last ones did."""
        began, seconds, first = time.monotonic(), self.seconds["warmup"], self.warmup_done
        compiled = self.seconds["compile"]
        total, deadline = self.settings.num_warmup, self._deadline()
        while self.warmup_done < total:
            done = self.warmup_done
            # First what is tuned: states at another temperature are computed by it, as they are
            # when the run is taken up from here.
            self.tuning, window = self.adaptation.window(done, self.tuning)
            if total >= MIN_WARMUP:
                self._temper(self.annealing.inverse_temperature(done))
            steps = min(window, total - done)
            seen = self._window(done, steps)
            self.warmup_done = done = done + steps
            self.adaptation.update(done, seen)
            if self.adaptation.is_by_chain != self.program.tunes_chains:
                self._tune_apart(done)
            if total >= MIN_WARMUP and is_look(done, total):
                self._bring_along(left_behind(self._levels(seen)))
            if done == total:
                self.tuning = self.adaptation.settled(self.tuning)
            passed = time.monotonic() - began - (self.seconds["compile"] - compiled)
            self.seconds["warmup"] = seconds + passed
            left = passed * (total - done) / (done - first)
            self._show("warm-up", (done, total), seen.rates[self.lead], None, left)
            self.look(cut=True)
            if time.monotonic() > deadline:
                break

    def _tune_apart(self, done: int) -> None:
        """From here on each chain is tuned by itself, by a program of its own."""
        self.program = self.program_of(self.adaptation.is_by_chain)
        self.tuning, _ = self.adaptation.window(done, self.tuning)
        began = time.perf_counter()
        with gradients_in_words():
            self._compile()
        self.seconds["compile"] += time.perf_counter() - began

    def _levels(self, seen: Seen) -> np.ndarray:
        """Log-likelihoods of chains (chains, steps) in a window, or after its last step alone."""
        if seen.log_likelihoods is not None:
            return seen.log_likelihoods
        # Replicas of a tempered kernel find their way by others; foreign states may not say.
        is_known = hasattr(self.chains.state, "log_likelihood")
        if self.settings.kernel.ladder is not None or not is_known:
            return np.zeros((0, 1))
        return np.asarray(self.chains.state.log_likelihood)[:, None]

    def _bring_along(self, left: np.ndarray) -> None:
        """Begin chains that were left behind again beside others, with what these have learnt.

        Their keys are their own, so they part at the next step.
        """
        if not left.size:
            return
        done, seed = self.warmup_done, self.settings.seed
        origins = beside_others(left, self.settings.num_chains, (seed, done))
        state = jax.tree.map(lambda a: a[origins], self.chains.state)
        self.chains = self._spread(self.chains._replace(state=state))
        self.adaptation.go_on_from(origins)
        self.restarts += [{"chain": int(c), "beside": int(origins[c]), "step": done} for c in left]

    def _window(self, done: int, steps: int) -> Seen:
        """Some steps of warm-up; with the place and gradient after each, where these are wanted."""
        if not self.program.shows_gradients:
            tally, _ = self.advance(done, 1, steps, keep=False)
            return _seen(tally, self.chains.state.position, None)
        tally, draws = self.advance(done, steps, 1, keep=True, is_warmup=True)
        trail = draws["position"], draws[GRADIENT]
        seen = _seen(tally, self.chains.state.position, trail)
        return seen._replace(log_likelihoods=draws["log_likelihood"])

    def _draw(self) -> None:
        """Draws until there are `num_samples`, or until they are good enough."""
        first_size = self.settings.chunk_size or 1
        self.pace = Pace(first_size, self.draws_done, self.seconds["sampling"])
        if self.settings.until is None:
            self._draw_to_goal(math.inf)
        else:
            self.stopped_by = self._draw_until(self.settings.until)
        if self.store is not None and (self.pending or not self.store.contents.chunks):
            self._commit()

    def _draw_until(self, until: Until) -> str:
        """Draws to one goal after another; returns what ended the run."""
        while True:
            if not self._draw_to_goal(self._deadline()):
                return "max_time"
            if self.draws_done == self.goal and until.is_reached(self._recorded()):
                return "until"
            if self.goal >= until.max_samples:
                return "max_samples"
            self.goal = until.next_goal(self.goal)

    def _draw_to_goal(self, deadline: float) -> bool:
        """Draws until there are `goal`; False if the deadline came before."""
        while self.draws_done < self.goal:
            if time.monotonic() > deadline:
                return False
            self._draw_some()
        return True

    def _draw_some(self) -> None:
        """One call of the program: at most as many draws as it has room for, or a chunk holds."""
        began, done, chunk_size = time.monotonic(), self.draws_done, self.settings.chunk_size
        # With a chunk size, chunks end at its multiples, wherever the run was taken up.
        cut = self.goal if chunk_size is None else done - done % chunk_size + chunk_size
        size = min(self.pace.size, self.program.capacity, self.goal - done, cut - done)
        first_step = self.settings.num_warmup + done * self.settings.thin
        tally, draws = self.advance(first_step, size, self.settings.thin, keep=True)
        self.pending.append(self._recorded_of(tally, draws))
        self.draws_done = done = done + size
        now = time.monotonic()
        self.seconds["sampling"] = self.pace.seconds_before + now - self.pace.began
        if chunk_size is None:
            self.pace.adjust(size, now - began)
        self._show_draws(tally, now)
        self.look(cut=done in (cut, self.goal))

    def _recorded_of(self, tally: Tally, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What is kept of draws that follow `draws_done`, and of their counters."""
        kept = {name: array for name, array in draws.items() if name != GRADIENT}
        if not self.program.store_positions:
            kept.pop("position", None)
        if "position" in kept:
            every = self.settings.position_every
            kept["position"] = kept["position"][:, -self.draws_done % every :: every]
        return kept | {TALLY + name: array for name, array in tally._asdict().items()}

    def _show_draws(self, tally: Tally, now: float) -> None:
        pace, done, thin = self.pace, self.draws_done, self.settings.thin
        pace.accepted += float(tally.acceptance_rate[..., self.lead].sum())
        pace.tried += int(tally.tried[..., self.lead].sum())
        if self.progress.wants_ess and pace.wants_ess(now, done):
            pace.ess, pace.ess_draws = ess_so_far(self._history("log_likelihood")), done
            pace.ess_time = time.monotonic()
        left = (now - pace.began) * (self.goal - done) / (done - pace.first_draw)
        steps = (done * thin, self.goal * thin)
        self._show("sampling", steps, pace.acceptance_rate, pace.ess, left)

    def _show(
        self, phase: str, steps: tuple[int, int], rate: float, ess: float | None, left: float
    ) -> None:
        """Show how many steps of how many are done, and the seconds that are left."""
        step_size = self.tuning[self.lead].get("step_size")
        size = None if step_size is None else float(np.median(step_size))
        self.progress.show(Status(phase, *steps, rate, size, ess, left))

    def _recorded(self) -> dict[str, np.ndarray]:
        """All draws so far of what `until` looks at."""
        names = ("log_likelihood", *(name for name, _ in self.program.record))
        return {name: self._history(name) for name in names}

    def _history(self, name: str) -> np.ndarray:
        """All draws so far of one functional."""
        stored = []
        if self.store is not None and self.store.contents.num_draws:
            stored = [self.store.draws[name]]
        return np.concatenate([*stored, *(part[name] for part in self.pending)], axis=1)


def _joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {n: np.concatenate([p[n] for p in parts], axis=1) for n in parts[0]} if parts else {}


def _names(moves: Sequence[Kernel]) -> tuple[str, ...]:
    """The moves' names, numbered where one occurs twice."""
    names = [move.name for move in moves]
    return tuple(
        name if names.count(name) == 1 else f"{name}_{names[: number + 1].count(name)}"
        for number, name in enumerate(names)
    )


def _seen(tally: Tally, positions: Any, trail: tuple[np.ndarray, np.ndarray] | None) -> Seen:
    """What a window has shown, by its tally (chains, draws, moves)."""
    accepted, tried = tally.acceptance_rate.sum(axis=1), tally.tried.sum(axis=1)
    total = tried.sum(axis=0)
    # Over chains and draws at once: a sum of sums would round differently.
    rates = tally.acceptance_rate.sum(axis=(0, 1)) / np.maximum(total, 1)
    # A chain that did not try a move says nothing of it.
    chain_rates = np.where(tried > 0, accepted / np.maximum(tried, 1), rates)
    return Seen(rates, total / len(tried), chain_rates, positions, trail)


def _in_the_middle(tuning: Tuning) -> dict[str, float]:
    """What a move is tuned to, as plain numbers; where chains differ, the median of them."""
    middle = {n: np.median(v) if np.ndim(v) else v for n, v in tuning.items() if n != "reference"}
    if "num_kicks" in middle:
        middle["num_kicks"] = int(middle["num_kicks"])
    return {name: np.asarray(value).item() for name, value in middle.items()}


def _of_chains(tuning: Tuning) -> dict[str, list[float]]:
    """What a move is tuned to for each chain, where they are tuned apart."""
    return {
        name: np.asarray(value).tolist()
        for name, value in tuning.items()
        if name != "reference" and np.ndim(value)
    }
