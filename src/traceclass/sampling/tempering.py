"""How well a tempered run went between prior and posterior."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from traceclass.errors import UserValueError
from traceclass.sampling.chunk import TEMPERING

if TYPE_CHECKING:
    from traceclass.sampling.run import Run


@dataclasses.dataclass(frozen=True, eq=False)
class Tempering:
    r"""The exchanges of a run with `tc.tempered`, the posterior first and the prior last.

    `rejections` (temperatures - 1,) are the mean probabilities r_k that neighbours refuse to change
    places, `log_likelihood` (chains, draws, temperatures) has l at every temperature, `labels` the
    replica that stood there, and `round_trips` (chains, temperatures) how often each replica went
    from the prior to the posterior and back in the `num_steps` steps after warm-up.
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

        A property of prior and likelihood, as long as no rejection is near one: it cannot exceed
        the number of gaps.
        """
        return float(self.rejections.sum())

    @property
    def suggested_temperatures(self) -> int:
        """About 2 Lambda gaps make the most of a given number of processors (Syed et al. 2022)."""
        return max(2, round(2 * self.barrier) + 1)

    @property
    def round_trip_rate(self) -> float:
        """Round trips a step of a chain, all its replicas together."""
        return float(self.round_trips.sum(axis=1).mean()) / max(self.num_steps, 1)

    @property
    def ideal_round_trip_rate(self) -> float:
        r"""1 / (2 + 2 sum_k r_k / (1 - r_k)): what replicas without a memory would make.

        What is missing from it are kernels that do not forget where a replica came from between two
        exchanges.
        """
        with np.errstate(divide="ignore"):
            return float(1 / (2 + 2 * np.sum(self.rejections / (1 - self.rejections))))

    def __str__(self) -> str:
        fewest, most = int(self.round_trips.min()), int(self.round_trips.max())
        lines = [
            f"{self.inverse_temperatures.size} temperatures, communication barrier "
            f"{self.barrier:.2f} (about {self.suggested_temperatures} temperatures suit it)",
            f"round trips of a replica {fewest} to {most} in {self.num_steps} steps; rate "
            f"{self.round_trip_rate:.2g}, at best {self.ideal_round_trip_rate:.2g}",
            "  inverse temperature  acceptance  step size   mean l     sd l  refused",
        ]
        levels = np.where(np.isfinite(self.log_likelihood), self.log_likelihood, np.nan)
        refused = [*(f"{r:7.3f}" for r in self.rejections), ""]
        for k, t in enumerate(self.inverse_temperatures):
            of_level = levels[..., k]
            lines.append(
                f"  {t:19.3g}  {self.acceptance_rates[k]:10.3f}  {self.step_sizes[k]:9.3g}"
                f"  {np.nanmean(of_level):7.4g}  {np.nanstd(of_level):7.3g}  {refused[k]}".rstrip()
            )
        return "\n".join(lines)


def tempering_of(run: Run) -> Tempering:
    """What a run says about its tempering; a run without it is refused."""
    if not run.is_tempered:
        raise UserValueError(
            f"this run was made by {', '.join(run.moves)} without tempering, so it knows the "
            "posterior alone and not its evidence. Sample with tc.tempered(kernel, "
            "num_temperatures=...)."
        )
    trips = run.recorded[TEMPERING + "round_trips"]
    hotter = [tuning["inverse_temperature"] for tuning in run.tunings if _is_swap(tuning)]
    gaps = len(hotter)
    tried = np.maximum(run.tally.tried.sum(axis=(0, 1)), 1)
    rates = run.tally.acceptance_rate.sum(axis=(0, 1), dtype=np.float64) / tried
    # Of a composition inside, the move that leads.
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
        # Those of warm-up, with other schedules, do not count.
        round_trips=trips[:, -1] - trips[:, 0],
        num_steps=(run.num_samples - 1) * run.thin,
    )


def _is_swap(tuning: object) -> bool:
    return isinstance(tuning, dict) and "inverse_temperature" in tuning
