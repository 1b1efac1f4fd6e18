"""How well the replicas of a tempered run travelled between prior and posterior."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from traceclass.errors import UserValueError
from traceclass.kernels.replicas import TEMPERING

# Above it, neighbours overlap too little to say anything about each other.
LARGEST_REJECTION = 0.95
# The fewest round trips of all replicas of a chain together: each of them brings one independent
# look at the modes of the posterior.
FEWEST_ROUND_TRIPS = 10


class TemperedRun(Protocol):
    """What `tempering_of` reads of a run; a `Run` has all of it."""

    @property
    def is_tempered(self) -> bool: ...

    @property
    def moves(self) -> Sequence[str]: ...

    @property
    def tunings(self) -> Sequence[Mapping[str, float]]: ...

    @property
    def recorded(self) -> Mapping[str, np.ndarray]: ...

    @property
    def tally(self) -> Any: ...

    @property
    def num_samples(self) -> int: ...

    @property
    def thin(self) -> int: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Tempering:
    r"""The exchanges of a run with `tc.tempered`, the posterior first and the prior last.

    Parameters
    ----------
    inverse_temperatures : (temperatures,)
        The powers t of the likelihood, from 1 to 0.
    rejections : (temperatures - 1,)
        Mean probabilities r_k that neighbours do not change places.
    acceptance_rates, step_sizes : (temperatures,)
        Those of the leading move at each temperature; the prior is drawn from, without a step size.
    log_likelihood : (chains, draws, temperatures)
        l at every temperature, not multiplied by t.
    labels : (chains, draws, temperatures)
        The replica that stood at each temperature.
    round_trips : (chains, temperatures)
        How often each replica went from the prior to the posterior and back.
    num_steps : int
        Steps after warm-up in which these round trips were made.
    """

    inverse_temperatures: np.ndarray
    rejections: np.ndarray
    acceptance_rates: np.ndarray
    step_sizes: np.ndarray
    log_likelihood: np.ndarray
    labels: np.ndarray
    round_trips: np.ndarray
    num_steps: int

    @property
    def barrier(self) -> float:
        """The communication barrier Lambda, the sum of the rejections.

        It is a property of prior and likelihood as long as no rejection is near one; it cannot
        exceed the number of pairs of neighbours.
        """
        return float(self.rejections.sum())

    @property
    def suggested_temperatures(self) -> int:
        """About 2 Lambda gaps make the most of a given number of processors (Syed et al. 2022)."""
        return max(2, round(2 * self.barrier) + 1)

    @property
    def round_trip_rate(self) -> float:
        """Round trips per step of a chain, all its replicas together."""
        return float(self.round_trips.sum(axis=1).mean()) / max(self.num_steps, 1)

    @property
    def ideal_round_trip_rate(self) -> float:
        r"""1 / (2 + 2 sum_k r_k / (1 - r_k)): what replicas without a memory would make.

        A rate far below it says that the kernel does not forget, between two exchanges, where a
        replica came from.
        """
        with np.errstate(divide="ignore"):
            return float(1 / (2 + 2 * np.sum(self.rejections / (1 - self.rejections))))

    def warnings(self) -> list[str]:
        """What is wrong with the exchanges, one sentence each."""
        found = []
        worst = float(self.rejections.max())
        if worst > LARGEST_REJECTION:
            found.append(
                f"neighbouring temperatures refuse to change places {worst:.0%} of the time: the "
                "barrier is higher than it seems and the evidence too low. Use more temperatures."
            )
        trips = self.round_trips.sum(axis=1)
        if trips.min() < FEWEST_ROUND_TRIPS:
            found.append(
                f"the replicas of chain {int(trips.argmin())} made {int(trips.min())} round trips "
                "between prior and posterior, too few for the evidence and for the weights of "
                "modes. Take more draws, more steps between swaps, or about "
                f"{self.suggested_temperatures} temperatures."
            )
        return found

    def __str__(self) -> str:
        fewest, most = int(self.round_trips.min()), int(self.round_trips.max())
        lines = [
            f"{self.inverse_temperatures.size} temperatures, communication barrier "
            f"{self.barrier:.2f} (about {self.suggested_temperatures} temperatures suit it)",
            f"round trips of a replica {fewest} to {most} in {self.num_steps} steps; rate "
            f"{self.round_trip_rate:.2g}, at best {self.ideal_round_trip_rate:.2g}",
            "  inverse temperature  acceptance  step size   mean l     sd l  refused",
        ]
        finite = np.where(np.isfinite(self.log_likelihood), self.log_likelihood, np.nan)
        refused = [*(f"{r:7.3f}" for r in self.rejections), ""]
        for k, t in enumerate(self.inverse_temperatures):
            here = finite[..., k]
            lines.append(
                f"  {t:19.3g}  {self.acceptance_rates[k]:10.3f}  {self.step_sizes[k]:9.3g}"
                f"  {np.nanmean(here):7.4g}  {np.nanstd(here):7.3g}  {refused[k]}".rstrip()
            )
        return "\n".join(lines)


def tempering_of(run: TemperedRun) -> Tempering:
    """What a run says about its tempering; a run without it is refused."""
    if not run.is_tempered:
        raise UserValueError(
            f"this run was made by {', '.join(run.moves)} without tempering, so it knows the "
            "posterior alone and not its evidence. Sample with tc.tempered(kernel, "
            "num_temperatures=...)."
        )
    trips = run.recorded[TEMPERING + "round_trips"]
    hotter = [
        tuning["inverse_temperature"] for tuning in run.tunings if "inverse_temperature" in tuning
    ]
    gaps = len(hotter)
    tried = np.maximum(run.tally.tried.sum(axis=(0, 1)), 1)
    rates = run.tally.acceptance_rate.sum(axis=(0, 1), dtype=np.float64) / tried
    # Where the kernel inside is a composition, its leading move stands for it.
    num_moves = (len(run.moves) - gaps) // gaps
    lead = next((n for n in range(num_moves) if "step_size" in run.tunings[n]), 0)
    leading = range(lead, gaps * num_moves, num_moves)
    return Tempering(
        inverse_temperatures=np.array([1.0, *hotter]),
        rejections=1 - rates[-gaps:],
        acceptance_rates=np.array([*rates[list(leading)], 1.0]),
        step_sizes=np.array([*(run.tunings[n].get("step_size", np.nan) for n in leading), np.nan]),
        log_likelihood=run.recorded[TEMPERING + "log_likelihood"],
        labels=run.recorded[TEMPERING + "labels"],
        # Round trips in warm-up were made with other schedules and do not count.
        round_trips=trips[:, -1] - trips[:, 0],
        num_steps=(run.num_samples - 1) * run.thin,
    )
