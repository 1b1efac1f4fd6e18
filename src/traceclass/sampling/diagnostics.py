"""What a finished run says about itself: a table, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import math
import warnings as python_warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from traceclass.model_choice.tempering import Tempering
from traceclass.sampling.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    import pandas as pd


class RhatLimit(NamedTuple):
    """What R-hat of the worst component has to be.

    Above `largest` a result is not taken for one; chains go on until they are below `wanted`, which
    is smaller, because R-hat itself is an estimate.
    """

    largest: float
    wanted: float


# Vehtari et al. (2021) ask for R-hat below 1.01; above 1.05 chains plainly disagree.
USUAL = RhatLimit(largest=1.05, wanted=1.04)
# For tables whose rows differ by little.
STRICT = RhatLimit(largest=1.02, wanted=1.015)
LARGEST_RHAT = USUAL.largest
# A tail index is estimated from the largest draws, of which fewer than these have too few; above
# the largest, the error of a mean is not to be trusted (Vehtari et al. 2024).
_FEWEST_FOR_TAIL, LARGEST_TAIL_INDEX = 100, 0.7


class Diagnosed(Protocol):
    """What `summarise` reads of a run; a `Run` has all of it."""

    @property
    def moves(self) -> Sequence[str]: ...

    @property
    def targets(self) -> Sequence[float | None]: ...

    @property
    def tuning(self) -> Mapping[str, Mapping[str, float]]: ...

    @property
    def tally(self) -> Any: ...

    @property
    def draws(self) -> Mapping[str, np.ndarray]: ...

    @property
    def num_samples(self) -> int: ...

    @property
    def num_steps(self) -> int: ...

    @property
    def num_nonfinite(self) -> np.ndarray: ...

    @property
    def num_starts(self) -> int | None: ...

    @property
    def moved_by(self) -> Sequence[str | None]: ...

    @property
    def restarts(self) -> Sequence[Mapping[str, int]]: ...

    @property
    def sampling_seconds(self) -> float: ...

    @property
    def idle_cores(self) -> str: ...

    @property
    def chain_acceptance_rates(self) -> np.ndarray: ...

    @property
    def move_acceptance_rates(self) -> Mapping[str, float]: ...

    @property
    def is_tempered(self) -> bool: ...

    @property
    def tempering(self) -> Tempering: ...

    def monitored(self) -> Mapping[str, np.ndarray]: ...

    def mean_square_residual(self) -> tuple[float, int] | None: ...

    def to_arviz(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Summary:
    """Diagnostics of a run; printing it shows all of them.

    Parameters
    ----------
    table : DataFrame
        One row per recorded scalar: mean, sd, interval, bulk and tail effective sample size,
        rank-normalised split R-hat, effective samples per second of sampling time, and the tail
        index (Pareto k): above 0.7 the mean is decided by few draws, and its error unknown.
    verdict : Verdict
        Which of three states the run is in, in words: converged, slow or separated.
    acceptance_rates : (chains,)
        Mean acceptance probability of each chain.
    moves : dict
        Acceptance rate and tuning of each move of the kernel.
    tempering : Tempering or None
        The temperatures and their exchanges, of a run with `tc.tempered`.
    stuck_chains : tuple of int
        Chains that never moved.
    num_nonfinite : int
        Proposals at which the log-likelihood was not finite.
    warnings : tuple of str
        What is wrong, one sentence each.
    notes : tuple of str
        What is not wrong but could be better: cores that were idle, and how to use them.
    moved_by : dict
        By move, the reference that warm-up chose, in words.
    """

    table: pd.DataFrame
    verdict: Verdict
    acceptance_rates: np.ndarray
    moves: dict[str, dict[str, float]]
    tempering: Tempering | None
    stuck_chains: tuple[int, ...]
    num_nonfinite: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    moved_by: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.3f}" for rate in self.acceptance_rates)
        warnings = [f"warning: {text}" for text in self.warnings]
        if self.table.empty:
            return "\n".join(warnings)
        lines = [
            self.verdict.words,
            f"acceptance rate by chain: {rates}",
            *self._lines_of_moves(),
            self.table.to_string(float_format=lambda x: f"{x:.4g}"),
            *warnings,
            *(f"note: {text}" for text in self.notes),
        ]
        return "\n".join(lines)

    def _lines_of_moves(self) -> list[str]:
        """One line per move; a tempered kernel has a table of its own."""
        if self.tempering is not None:
            return [str(self.tempering)]
        return [
            _line_of(move, tuning, self.moved_by.get(move)) for move, tuning in self.moves.items()
        ]


def _line_of(move: str, figures: dict[str, float], moved_by: str | None) -> str:
    words = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in figures.items()]
    if moved_by is not None:
        words.append(f"moved by {moved_by}")
    return f"{move}: {', '.join(words)}"


def summarise(run: Diagnosed) -> Summary:
    """Diagnostics of a run, the stuck chains named rather than averaged away."""
    from arviz_stats.summary import summary

    if not run.num_samples:
        return _nothing_to_say(run)
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
    table["tail_index"] = _tail_indices(run)
    monitored = {} if stuck else run.monitored()
    verdict = verdict_of(monitored, LARGEST_RHAT, run.num_samples, run.num_starts)
    return Summary(
        table=table,
        verdict=verdict,
        acceptance_rates=run.chain_acceptance_rates,
        moves={
            name: {"acceptance_rate": rate, **run.tuning[name]}
            for name, rate in run.move_acceptance_rates.items()
        },
        tempering=run.tempering if run.is_tempered else None,
        stuck_chains=stuck,
        num_nonfinite=int(run.num_nonfinite.sum()),
        warnings=(*_warnings(run, table, stuck, verdict), *_misfit(run)),
        notes=(run.idle_cores,) if run.idle_cores else (),
        moved_by={m: words for m, words in zip(run.tuning, run.moved_by, strict=False) if words},
    )


def _tail_indices(run: Diagnosed) -> list[float]:
    """Pareto k of every recorded scalar, in the order of the table."""
    from arviz_stats.base.array import array_stats

    columns = [
        column
        for draws in run.draws.values()
        for column in np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0)
    ]
    return [_tail_index(np.asarray(column, dtype=np.float64), array_stats) for column in columns]


def _tail_index(draws: np.ndarray, array_stats: Any) -> float:
    """NaN where it is not defined: few draws, or ties among the largest or smallest of them."""
    if draws.size < _FEWEST_FOR_TAIL or not np.isfinite(draws).all():
        return math.nan
    # As many as ArviZ takes for a tail (Vehtari et al. 2024), and one more.
    number = math.ceil(min(0.2 * draws.size, 3 * math.sqrt(draws.size))) + 1
    ordered = np.sort(draws, axis=None)
    if np.ptp(ordered[:number]) == 0 or np.ptp(ordered[-number:]) == 0:
        return math.nan
    with np.errstate(all="ignore"), python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")
        return float(np.asarray(array_stats.pareto_khat(draws, tail="both", log_weights=False)))


def _misfit(run: Diagnosed) -> list[str]:
    """A warning if the residuals under the posterior are larger than the noise allows.

    In noise standard deviations their mean square is about one if the model is right, and less
    where the function follows the noise; six standard errors sqrt(2 / n) above one it is not.
    """
    square = run.mean_square_residual()
    if square is None:
        return []
    value, count = square
    if value <= 1 + 6 * math.sqrt(2 / count):
        return []
    return [
        f"the residuals are {math.sqrt(value):.1f} noise standard deviations in the mean, so the "
        "function does not reach the data, however well the chains agree. The prior may be too "
        "small for the data's units (standardise y), or the noise too small (infer it by tc.Hyper)."
    ]


def _nothing_to_say(run: Diagnosed) -> Summary:
    """The summary of a run that ended in warm-up."""
    import pandas as pd

    return Summary(
        table=pd.DataFrame(columns=["mean", "sd", "ess_bulk", "ess_tail", "r_hat"], dtype=float),
        verdict=Verdict("unknown", "unknown: there are no draws.", math.inf, ""),
        acceptance_rates=run.chain_acceptance_rates,
        moves={},
        tempering=None,
        stuck_chains=(),
        num_nonfinite=0,
        warnings=(
            "the run ended in warm-up and has no draws. Give it more time (max_time), a shorter "
            "warm-up, or resume it from its store.",
        ),
    )


def _warnings(
    run: Diagnosed, table: pd.DataFrame, stuck: tuple[int, ...], verdict: Verdict
) -> list[str]:
    warnings = []
    if stuck:
        chains = ", ".join(map(str, stuck))
        warnings.append(
            f"chain {chains} never moved in {run.num_steps} steps; its draws are one point. "
            "Use a smaller step size or a longer warm-up."
        )
    warnings.extend(_began_again(**restart) for restart in run.restarts)
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
            f"{run.num_samples} draws per chain are too few for ESS and R-hat; keep at least 4."
        )
    if run.is_tempered:
        warnings.extend(run.tempering.warnings())
    if verdict.state in ("slow", "separated"):
        warnings.append(verdict.words)
    heavy = table.index[np.asarray(table["tail_index"]) > LARGEST_TAIL_INDEX]
    if len(heavy):
        warnings.append(
            f"the mean of {_few_names(heavy)} is decided by few draws (tail index above "
            f"{LARGEST_TAIL_INDEX}): its error is not to be trusted. Look at quantiles, or at the "
            "logarithm."
        )
    for name, values in run.draws.items():
        lost = int((~np.isfinite(values)).sum())
        if lost:
            share = "all" if lost == values.size else f"{lost} of {values.size}"
            warnings.append(
                f"{share} values of {name} are NaN or infinite: it is not defined at these draws, "
                "and nothing above is known of it."
            )
    if run.num_nonfinite.sum():
        warnings.append(
            f"the log-likelihood was NaN or infinite at {int(run.num_nonfinite.sum())} proposals "
            "(all rejected)."
        )
    return warnings


def _began_again(chain: int, beside: int, step: int) -> str:
    return (
        f"chain {chain} was left behind in warm-up and began again beside chain {beside} (step "
        f"{step}). If it was in a mode of its own, no chain looks at that mode now: "
        "tc.tempered(kernel) weighs modes."
    )


def _few_names(names: Any) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(str, names[:3])) + more


def worst_of(draws: np.ndarray) -> tuple[float, float]:
    """The least bulk ESS and the largest R-hat over the components of draws (chains, draws, ...).

    (0, inf) where they are not defined: fewer than four draws, a chain that never moved, NaN.
    """
    from arviz_stats.base.array import array_stats

    flat = np.asarray(draws, dtype=np.float64).reshape(*draws.shape[:2], -1)
    flat = flat[..., np.ptp(flat, axis=(0, 1)) != 0]
    if flat.shape[-1] == 0 or flat.shape[1] < 4 or not np.isfinite(flat).all():
        return 0.0, math.inf
    if (np.ptp(flat, axis=1) == 0).any():
        return 0.0, math.inf
    with np.errstate(all="ignore"), python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")
        each = [
            (np.asarray(array_stats.ess(x)).item(), np.asarray(array_stats.rhat(x)).item())
            for x in np.moveaxis(flat, -1, 0)
        ]
    ess, rhat = np.array(each).T
    return float(np.nan_to_num(ess, nan=0.0).min()), float(np.nan_to_num(rhat, nan=math.inf).max())


def median_ess(draws: np.ndarray) -> float:
    """The median ESS over the components of draws (chains, draws, n) that change."""
    moving = np.moveaxis(draws, -1, 0)[np.ptp(draws, axis=(0, 1)) != 0]
    return float(np.median([worst_of(component)[0] for component in moving]))


def mean_and_error(draws: np.ndarray) -> dict[str, float]:
    """The mean of a scalar functional and its Monte Carlo standard error."""
    from arviz_stats.base.array import array_stats

    values = np.asarray(draws, dtype=np.float64)
    error = math.nan
    if values.shape[1] >= 4 and np.ptp(values) > 0:
        error = float(np.asarray(array_stats.mcse(values, method="mean")))
    return {"mean": float(values.mean()), "error": error}
