"""What a finished run says about itself: a table, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import warnings as python_warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from traceclass.model_choice.tempering import Tempering

if TYPE_CHECKING:
    import pandas as pd

    from traceclass.sampling.run import Run

# Vehtari et al. (2021) ask for R-hat below 1.01; above 1.05 chains plainly disagree.
LARGEST_RHAT = 1.05


@dataclasses.dataclass(frozen=True)
class Summary:
    """Diagnostics of a run; printing it shows all of them.

    `table` has a row a recorded scalar: mean, sd, interval, bulk and tail effective sample size,
    rank-normalised split R-hat, and effective samples a second of sampling time.
    """

    table: pd.DataFrame
    acceptance_rates: np.ndarray
    moves: dict[str, dict[str, float]]
    tempering: Tempering | None
    stuck_chains: tuple[int, ...]
    num_nonfinite: int
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.3f}" for rate in self.acceptance_rates)
        lines = [
            f"acceptance rate by chain: {rates}",
            *self._lines_of_moves(),
            self.table.to_string(float_format=lambda x: f"{x:.4g}"),
            *(f"warning: {text}" for text in self.warnings),
        ]
        return "\n".join(lines)

    def _lines_of_moves(self) -> list[str]:
        """One line a move; a tempered kernel has a table of its own."""
        if self.tempering is not None:
            return [str(self.tempering)]
        return [_line_of(move, tuning) for move, tuning in self.moves.items()]


def _line_of(move: str, figures: dict[str, float]) -> str:
    words = (f"{name.replace('_', ' ')} {value:.4g}" for name, value in figures.items())
    return f"{move}: {', '.join(words)}"


def summarise(run: Run) -> Summary:
    """Diagnostics of a run, the stuck chains named rather than averaged away."""
    from arviz_stats.summary import summary

    stuck = tuple(int(i) for i in np.flatnonzero(run.tally.accepted.sum(axis=(1, 2)) == 0))
    with np.errstate(invalid="ignore", divide="ignore"), python_warnings.catch_warnings():
        # ArviZ warns of constant draws, which are reported below chain by chain, and of more
        # chains than draws, which is no mistake here.
        python_warnings.filterwarnings("ignore", message="Found chain dimension")
        table: Any = summary(run.to_arviz(), round_to="none")  # pyright: ignore[reportArgumentType]
    if stuck:
        table["r_hat"] = np.inf
        table[["ess_bulk", "ess_tail"]] = np.nan
    table["ess_per_second"] = table["ess_bulk"] / run.sampling_seconds
    return Summary(
        table=table,
        acceptance_rates=run.chain_acceptance_rates,
        moves={
            name: {"acceptance_rate": rate, **run.tuning[name]}
            for name, rate in run.move_acceptance_rates.items()
        },
        tempering=run.tempering if run.is_tempered else None,
        stuck_chains=stuck,
        num_nonfinite=int(run.num_nonfinite.sum()),
        warnings=tuple(_warnings(run, table, stuck)),
    )


def _warnings(run: Run, table: pd.DataFrame, stuck: tuple[int, ...]) -> list[str]:
    warnings = []
    if stuck:
        chains = ", ".join(map(str, stuck))
        warnings.append(
            f"chain {chains} never moved in {run.num_steps} steps; its draws are one point. "
            "Use a smaller step size or a longer warm-up."
        )
    rates = run.move_acceptance_rates
    for move, target in zip(run.moves, run.targets, strict=True):
        if target is not None and abs(rates[move] - target) > 0.1:
            warnings.append(
                f"the acceptance rate of {move} is {rates[move]:.3f}, the target of the adaptation "
                f"was {target:g}: the chains were not settled when the step size was frozen. Use a "
                "longer warm-up."
            )
    if run.num_samples < 4:
        warnings.append(
            f"{run.num_samples} draws a chain are too few for ESS and R-hat; keep at least 4."
        )
    if run.is_tempered:
        warnings.extend(run.tempering.warnings())
    worst = float(table["r_hat"].max())  # pyright: ignore[reportArgumentType]
    if not stuck and worst > LARGEST_RHAT:
        warnings.append(
            f"R-hat is {worst:.2f} for {table['r_hat'].idxmax()}: the chains have not mixed. Run "
            "longer, or look at the traces for separate modes."
        )
    if run.num_nonfinite.sum():
        warnings.append(
            f"the log-likelihood was NaN or infinite at {int(run.num_nonfinite.sum())} proposals "
            "(all rejected)."
        )
    return warnings
