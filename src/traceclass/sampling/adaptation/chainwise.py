"""Warm-up of a move by a reference that is found, with a step size for each chain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Kernel, Tuning
from traceclass.kernels.reference import Reference
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation.contest import Contest
from traceclass.sampling.adaptation.curvature import mean_curvature, num_curved
from traceclass.sampling.adaptation.fitted_reference import Fitted, fitted
from traceclass.sampling.adaptation.step_size import StepSizeAdaptation
from traceclass.sampling.adaptation.trajectory import (
    MOST_KICKS,
    SHARES,
    quarter_turn,
    values_and_log_likelihood,
)
from traceclass.sampling.adaptation.windows import WINDOW, Memory, Seen

# Directions of a reference besides the coordinates themselves: fewer where there are many
# coordinates, so that a trajectory is not held up by them; and more where the curvature is known,
# which determines them from a few draws, but then not more than there are values.
RANK, MOST_RANK, _MOST_ENTRIES = 40, 160, 2**19
# Draws for the first fit, by how much their number grows from fit to fit, and the most of them. Of
# the draws of a fit, the older ones are left out of the next: they were made on the way.
_FIRST_DRAWS, _GROWTH, _MOST_DRAWS = 60, 1.25, 400
_SHARE_KEPT = 0.6
# Draws and gradients of all chains are kept on the host until the last fit, within this memory.
_MOST_BYTES = 2**28
# Draws of a fit that all chains share.
_MOST_SHARED = 1_000
# References of each chain are fitted in this share of warm-up, and in the larger one if none
# compete. Each stage of the contest, a step size or a trial, takes the last share, but at least so
# many windows: four updates bring a step size within reach of one that is a hundred times smaller.
# What is left is for the last step sizes.
_SHARE_OF_FITS, _SHARE_ALONE, _SHARE_OF_STAGE = 0.5, 0.7, 0.04
_LEAST_WINDOWS = {"sizes": 4, "trial": 2, "last": 2}
# A warm-up has this length if references compete. In a shorter one each chain keeps its own.
_LONG_ENOUGH = 1_400
# So many states of a trial are looked at, evenly spaced.
_LOOKS = 100
# Kicks of a trajectory: on the way from a prior draw, in the first windows; and the most there are
# while references are fitted.
_FEW_KICKS, _FEW_WINDOWS = 20, 3
_MANY_KICKS = 200
# Chains that are computed together wait for the longest trajectory among them, so that none takes
# so many times more kicks than the one in the middle.
_MOST_OF_MEDIAN = 1.5
# The references that compete, in words for the reader of a summary. They do so by trajectories of
# a quarter turn.
REFERENCES = (
    "a reference of each chain",
    "a reference of all chains",
    "a reference of all chains about zero",
    "the prior",
)
_OWN, _SHARED, _ABOUT_ZERO, _PRIOR = range(len(REFERENCES))
_FIRST_SHARE = SHARES.index(1.0)
_UNDECIDED = -1
# Positions whose function values are computed together.
_TOGETHER = 8
# A reference must be so many times cheaper than the prior. A trial is too short to see the slowest
# part of a chain, its way from mode to mode, and there references lose: where trials said up to
# five times cheaper (networks), chains had about as many effective samples per gradient in the
# median and half as many at worst. Where they said nine times (groundwater, a series), chains had
# twice as many effective samples per second; where the data are loud, they say thirty and more.
_GAIN = 6.0


class Stage(NamedTuple):
    """A part of the contest, over after `end` steps of warm-up: to find step sizes, or a trial.

    `reference` is what is moved by, None for the one that has done best, and `share` the length of
    trajectories, as numbers in `REFERENCES` and `SHARES`.
    """

    end: int
    reference: int | None
    share: int
    is_trial: bool


def has_room(posterior: Posterior, num_chains: int) -> bool:
    """Whether the draws of a fit can be kept."""
    return _draws_that_fit(num_chains, posterior.prior.num_coordinates) >= _FIRST_DRAWS


def _draws_that_fit(num_chains: int, z: int) -> int:
    """Draws of every chain that can be kept, with the gradients at them."""
    return _MOST_BYTES // (2 * _dtype().itemsize * num_chains * z)


class ChainwiseAdaptation:
    """One move with `reference="adapt"`: a reference, a step size and kicks for each chain.

    In the first half of warm-up (seven tenths, where nothing competes) references are fitted again
    and again, each to the latest draws of its chain, and step sizes follow. Then four kinds
    compete: these; one fitted to the draws of all chains; one fitted to them about the prior's
    mean; and the prior. Chains that sit in places which look different need their own. Chains that
    travel between such places, as networks' do whose nodes change roles, are held back by a
    reference of the place they are in. Last, several lengths of trajectory compete by the reference
    that did best, and what is left goes to the step sizes. If the prior did best, the kernel goes
    on without a reference, by a program of its own.

    Chains come from a draw of the prior, or from where they have got to with `first_step_size`,
    which is so small that they are far from having mixed; trials of lengths would tell little then,
    and a trajectory is a quarter turn.

    There is no contest in a short warm-up, or where `competes` is False: each chain keeps its own
    reference.
    """

    def __init__(
        self,
        move: Kernel,
        num_warmup: int,
        posterior: Posterior,
        num_chains: int,
        *,
        competes: bool = True,
        first_step_size: float | None = None,
    ):
        assert move.rule_by_reference is not None
        assert move.rule is not None
        self._rule, self._rule_by_prior = move.rule_by_reference, move.rule
        self._has_kicks = move.tunes_kicks
        self._num_chains, z = num_chains, posterior.prior.num_coordinates
        self._steps = StepSizeAdaptation(self._rule, num_chains)
        self._few_windows = _FEW_WINDOWS
        if first_step_size is not None:
            self._steps.restart(is_settling=False, at=np.full(num_chains, first_step_size))
            self._few_windows = 0
        self._posterior = posterior
        competing = len(REFERENCES) if competes and num_warmup >= _LONG_ENOUGH else 1
        has_shares = self._has_kicks and first_step_size is None
        self._fits_end, self._stages = _schedule(num_warmup, competing, has_shares=has_shares)
        self._stride = max(1, round(_SHARE_OF_STAGE * num_warmup / _LOOKS))
        self._num_values = num_curved(posterior)
        rank = max(RANK, min(MOST_RANK, self._num_values))
        self._rank = min(rank, z, max(1, _MOST_ENTRIES // z))
        # Until the contest is over, those that compete; then the one that has won.
        self._references = [_of_prior(num_chains, z, self._rank)]
        self._contest = Contest()
        self._sizes: list[Any] = []  # of each reference, as it was tried
        self._reference, self._share, self._won = _OWN, 0, _UNDECIDED
        self._draws = np.zeros((2, num_chains, 0, z), dtype=_dtype())
        self._most = max(_FIRST_DRAWS, min(_MOST_DRAWS, _draws_that_fit(num_chains, z)))
        self._next_fit = _FIRST_DRAWS

    @property
    def target(self) -> float | None:
        """The acceptance rate aimed at; None if all step sizes are the largest."""
        at_limit = np.all(self._steps.settled() >= self._steps.largest)
        return None if at_limit else self._rule.target

    is_by_chain = True

    @property
    def moved_by(self) -> str | None:
        """The reference that has won, in words; None while it is not known."""
        return None if self._won == _UNDECIDED else REFERENCES[self._won]

    def window(self, done: int) -> tuple[Tuning, int]:
        """What to run with after `done` steps, and for how many.

        Moves of a composition may cut windows short, so a window never passes the end of a stage.
        """
        step_size, stage = self._steps.step_size, self._stage(done)
        if done < self._fits_end:
            most = _FEW_KICKS if done < self._few_windows * WINDOW else _MANY_KICKS
            return self._tuning(step_size, most), min(WINDOW, self._fits_end - done)
        return self._tuning(step_size), WINDOW if stage is None else min(WINDOW, stage.end - done)

    def _stage(self, done: int) -> Stage | None:
        """The stage of the contest after `done` steps; None before it and after it."""
        if done < self._fits_end:
            return None
        return next((stage for stage in self._stages if done < stage.end), None)

    def update(self, done: int, seen: Seen, number: int) -> None:
        """Learn from the window that ended after `done` steps; `number` is the move's."""
        stage = self._stage(done - 1)
        if stage is not None and stage.is_trial:
            self._watch(done, seen)
        else:
            self._steps.update(seen.chain_rates[:, number], float(seen.tried[number]))
        if done <= self._fits_end:
            self._collect(done, seen)
        if done == self._fits_end:
            if any(stage.reference == _PRIOR for stage in self._stages):
                self._references += [self._shared(has_mean=True), self._shared(has_mean=False)]
                self._references += [_of_prior(self._num_chains, self._draws.shape[-1], self._rank)]
            self._draws = self._draws[:, :, :0]
        if done == self._fits_end or (stage is not None and done == stage.end):
            self._go_over(stage, self._stage(done))

    def _go_over(self, last: Stage | None, stage: Stage | None) -> None:
        """From one stage of the contest to the next, or to what has won it."""
        if last is not None and not last.is_trial:
            self._sizes.append(self._steps.step_size)
        if stage is not None and stage.reference is not None:
            self._reference, self._share = stage.reference, stage.share
            self._steps.largest = self._largest
            if not stage.is_trial:
                self._steps.restart(is_settling=False)
            return
        costs = self._costs()
        if last is not None and last.reference is not None:
            self._reference = _best_reference(costs)
        self._steps.largest = self._largest
        self._steps.restart(at=self._sizes[self._reference])
        if stage is not None:
            self._share = stage.share
            return
        by_share = {share: cost for (r, share), cost in costs.items() if r == self._reference}
        self._share = min(by_share, key=by_share.__getitem__, default=_FIRST_SHARE)
        # The others, and what was seen of them, are of no more use, and would be stored.
        self._references, self._won = [self._references[self._reference]], self._reference
        self._contest, self._reference, self._sizes = Contest(), 0, []

    @property
    def _largest(self) -> float:
        """The largest step size by the present reference."""
        kind = self._reference if self._won == _UNDECIDED else self._won
        return (self._rule_by_prior if kind == _PRIOR else self._rule).largest

    def _costs(self) -> dict[tuple[int, int], float]:
        """What trials have cost so far, by reference and share."""
        return {divmod(way, len(SHARES)): cost for way, cost in self._contest.costs().items()}

    def _watch(self, done: int, seen: Seen) -> None:
        """Take in some of what a window of a trial has shown."""
        assert seen.trail is not None
        steps = seen.trail[0].shape[1]
        looked_at = np.flatnonzero(np.arange(done - steps + 1, done + 1) % self._stride == 0)
        if not looked_at.size:
            return
        # One program for any number of them.
        padded = np.resize(looked_at, WINDOW)
        positions = seen.trail[0][:, padded].reshape(self._num_chains * WINDOW, -1)
        values = np.asarray(_values_after_each(self._posterior, positions))
        values = values.reshape(self._num_chains, WINDOW, -1)[:, : len(looked_at)]
        kicks = float(np.mean(self._kicks(self._steps.step_size))) if self._has_kicks else 1.0
        way = self._reference * len(SHARES) + self._share
        self._contest.add(way, kicks * self._stride, values)

    def _collect(self, done: int, seen: Seen) -> None:
        """Take in the draws of a window, and fit if there are enough."""
        assert seen.trail is not None
        self._draws = np.concatenate([self._draws, np.stack(seen.trail)], axis=2)
        count = self._draws.shape[2]
        if count < self._next_fit and done < self._fits_end:
            return
        # A step by the prior says nothing of one by the first reference.
        is_first = self._next_fit == _FIRST_DRAWS
        self._references[_OWN] = self._own()
        if done < self._fits_end:
            self._draws = self._draws[:, :, -round(_SHARE_KEPT * count) :]
            self._next_fit = min(self._most, round(_GROWTH * self._next_fit))
        first = np.full(self._num_chains, self._rule.first) if is_first else None
        self._steps.restart(is_settling=False, at=first)

    def _own(self) -> Fitted:
        """A reference for each chain by its own draws."""
        present = zip(*self._references[_OWN], strict=True)
        chains = zip(*self._draws, present, strict=True)
        fits = [self._fit(x, g, Fitted(*old)) for x, g, old in chains]
        return Fitted(*(np.stack(part).astype(_dtype()) for part in zip(*fits, strict=True)))

    def _shared(self, *, has_mean: bool) -> Fitted:
        """One reference for all chains, by the draws of all."""
        x, g = (a.reshape(-1, a.shape[-1]) for a in self._draws)
        every = -(-len(x) // _MOST_SHARED)
        prior = Fitted(*(part[0] for part in _of_prior(1, x.shape[1], self._rank)))
        fit = self._fit(x[::every], g[::every], prior, has_mean=has_mean)
        return Fitted(*(np.stack([part] * self._num_chains).astype(_dtype()) for part in fit))

    def _fit(
        self, x: np.ndarray, g: np.ndarray, otherwise: Fitted, *, has_mean: bool = True
    ) -> Fitted:
        """A fit to draws and gradients; `otherwise`, if they are of no use for one."""
        is_finite = np.isfinite(x).all(axis=1) & np.isfinite(g).all(axis=1)
        x, g = x[is_finite], g[is_finite]
        if len(x) < _FIRST_DRAWS // 2 or not np.ptp(x, axis=0).any():
            return otherwise
        curvature = None
        if self._num_values:
            curvature = mean_curvature(self._posterior, x, self._num_values)
        rank = self._rank if curvature is not None else min(RANK, self._rank)
        fit = fitted(x, g, rank, has_mean=has_mean, curvature=curvature)
        none = (0, self._rank - rank)
        return fit._replace(
            vectors=np.pad(fit.vectors, ((0, 0), none)),
            eigenvalues=np.pad(fit.eigenvalues, none),
        )

    def go_on_from(self, origins: np.ndarray) -> None:
        """Every chain goes on with the reference and step size of the chain `origins[c]`."""
        self._references = [Fitted(*(part[origins] for part in r)) for r in self._references]
        self._contest.go_on_from(origins)
        self._sizes = [sizes[origins] for sizes in self._sizes]
        self._draws = self._draws[:, origins]
        self._steps.go_on_from(origins)

    def settled(self) -> Tuning:
        """What to freeze."""
        return self._tuning(self._steps.settled())

    def _tuning(self, step_size: Any, most_kicks: int = MOST_KICKS) -> Tuning:
        mean, scale, vectors, eigenvalues = self._references[self._reference]
        tuning = {"step_size": step_size}
        if self._won != _PRIOR:
            tuning["reference"] = _stacked(mean, vectors, eigenvalues, scale)
        if not self._has_kicks:
            return tuning
        return tuning | {"num_kicks": np.minimum(most_kicks, self._kicks(step_size))}

    def _kicks(self, step_size: Any) -> np.ndarray:
        """The numbers of kicks that make the present share of a quarter turn."""
        kicks = np.round(SHARES[self._share] * quarter_turn(step_size))
        most = np.minimum(MOST_KICKS, _MOST_OF_MEDIAN * np.median(kicks))
        return np.clip(kicks, 1, np.maximum(most, 1)).astype(int)

    def memory(self) -> Memory:
        """All it has learnt, between two windows; `remember` takes it back."""
        parts = {"steps": self._steps.memory(), "contest": self._contest.memory()}
        parts |= {f"reference {k}": r._asdict() for k, r in enumerate(self._references)}
        memory = {f"{of} {name}": a for of, part in parts.items() for name, a in part.items()}
        counts = np.array([self._next_fit, self._reference, self._share, self._won])
        sizes = np.array(self._sizes).reshape(-1, self._num_chains)
        return memory | {"draws": self._draws, "counts": counts, "sizes": sizes}

    def remember(self, memory: Memory) -> None:
        def part(prefix: str) -> Memory:
            return {n.removeprefix(prefix): a for n, a in memory.items() if n.startswith(prefix)}

        self._steps.remember(part("steps "))
        self._contest.remember(part("contest "))
        fits = (part(f"reference {k} ") for k in range(len(REFERENCES)))
        self._references = [Fitted(**fit) for fit in fits if fit]
        self._draws, self._sizes = memory["draws"], list(memory["sizes"])
        self._next_fit, self._reference, self._share, self._won = memory["counts"].tolist()
        self._steps.largest = self._largest


def _best_reference(costs: Mapping[tuple[int, int], float]) -> int:
    """The cheapest by the first share, with what the prior has ahead."""
    of_first = {
        reference: cost / _GAIN if reference == _PRIOR else cost
        for (reference, share), cost in costs.items()
        if share == _FIRST_SHARE
    }
    return min(of_first, key=of_first.__getitem__, default=_OWN)


def _schedule(
    num_warmup: int, num_references: int, *, has_shares: bool
) -> tuple[int, tuple[Stage, ...]]:
    """When the last references are fitted, and the stages of the contest that follows."""

    def windows(share: float, least: int) -> int:
        return max(least, round(share * num_warmup / WINDOW))

    sizes = windows(_SHARE_OF_STAGE, _LEAST_WINDOWS["sizes"])
    trial = windows(_SHARE_OF_STAGE, _LEAST_WINDOWS["trial"])
    plan: list[tuple[int, int | None, int, bool]] = []
    for reference in range(num_references):
        plan.append((sizes, reference, _FIRST_SHARE, False))
        if num_references > 1 or has_shares:
            plan.append((trial, reference, _FIRST_SHARE, True))
    if has_shares:
        plan += [(trial, None, n, True) for n in range(len(SHARES)) if n != _FIRST_SHARE]
    contest = sum(length for length, *_ in plan)
    most = num_warmup // WINDOW - contest - _LEAST_WINDOWS["last"]
    share = _SHARE_ALONE if num_references == 1 else _SHARE_OF_FITS
    end = fits_end = max(0, min(windows(share, 1), most)) * WINDOW
    stages = []
    for length, reference, share, is_trial in plan:
        end += length * WINDOW
        stages.append(Stage(end, reference, share, is_trial))
    return fits_end, tuple(stages)


def _values(posterior: Posterior, positions: Any) -> Any:
    """The function's values and the log-likelihood, for positions (number, z)."""
    each = partial(values_and_log_likelihood, posterior)
    return jax.lax.map(lambda z: each(z[None])[0], positions, batch_size=_TOGETHER)


# As in `chunk`: what is small is not worth more than one core.
_values_after_each = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
    _values, compiler_options={"xla_cpu_multi_thread_eigen": False}
)


def _of_prior(num_chains: int, z: int, rank: int) -> Fitted:
    """The prior itself, as a reference of each chain."""
    zeros = np.zeros((num_chains, z), dtype=_dtype())
    vectors = np.zeros((num_chains, z, rank), dtype=_dtype())
    return Fitted(zeros, zeros + 1, vectors, np.zeros((num_chains, rank), dtype=_dtype()))


def _dtype() -> np.dtype:
    """That of positions: single precision, or double where it is asked for."""
    return np.dtype(jnp.result_type(float))


def _stacked(*arrays: np.ndarray) -> Reference:
    """References of all chains in one, each array with a leading axis; not checked as one is."""
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), arrays)
    like = jax.eval_shape(lambda parts: Reference(*parts), one)
    return jax.tree.unflatten(jax.tree.structure(like), [*arrays])
