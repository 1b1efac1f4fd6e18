"""How good predictions are, and how sure one can be of it.

Scores of probabilities, of draws and of intervals, calibration, and standard errors over data sets.
Arrays are NumPy's; every function says which axis is which, and refuses what is no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Bool, Float, Int

from traceclass.arrays import as_doubles, as_numbers
from traceclass.errors import UserTypeError, UserValueError
from traceclass.validation import require_count, require_number, shortened

__all__ = [
    "Bin",
    "Estimate",
    "accuracy",
    "balanced_accuracy",
    "binomial_error",
    "calibration",
    "calibration_error",
    "coverage",
    "crps",
    "drift",
    "log_score",
    "mean_failures",
    "mean_over",
    "means_over",
    "paired_difference",
    "probability_scores",
    "standard_error",
]


class Estimate(TypedDict):
    """A mean over data sets, its standard error (None if it has none), and the values."""

    mean: float
    error: float | None
    each: list[float]


class Bin(TypedDict):
    """Predictions of about one probability, and how often what they predicted happened."""

    predicted: float
    observed: float
    count: int


def log_score(
    log_probabilities: Float[np.ndarray, "cases classes"], outcomes: Int[np.ndarray, " cases"]
) -> float:
    """The mean of log p(outcome); minus infinity if one outcome was deemed impossible.

    >>> round(log_score(np.log([[0.9, 0.1], [0.5, 0.5]]), np.array([0, 1])), 4)
    -0.3993
    """
    log_probabilities, outcomes = _cases(log_probabilities, outcomes)
    return float(log_probabilities[_happened(log_probabilities, outcomes)].mean())


def accuracy(
    log_probabilities: Float[np.ndarray, "cases classes"], outcomes: Int[np.ndarray, " cases"]
) -> float:
    """The share of cases in which the likeliest class is the outcome."""
    log_probabilities, outcomes = _cases(log_probabilities, outcomes)
    return float((log_probabilities.argmax(axis=1) == outcomes).mean())


def balanced_accuracy(
    predicted: Int[np.ndarray, " cases"], outcomes: Int[np.ndarray, " cases"]
) -> float:
    """The mean over the classes that occur of the share of their cases predicted rightly.

    It is scikit-learn's `balanced_accuracy_score`, without its warning about classes that are
    predicted and never occur.
    """
    import warnings

    from sklearn.metrics import balanced_accuracy_score

    predicted, outcomes = _classes(predicted, "predicted"), _classes(outcomes, "outcomes")
    _require_as_many(predicted, outcomes, "predicted", "outcomes")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")
        return float(balanced_accuracy_score(outcomes, predicted))


def calibration(
    log_probabilities: Float[np.ndarray, "cases classes"],
    outcomes: Int[np.ndarray, " cases"],
    *,
    num_bins: int = 10,
) -> list[Bin]:
    """Bins of predicted probability over all cases and classes; empty bins are left out."""
    num_bins = require_count(num_bins, "num_bins", "Without bins there is nothing to compare.")
    log_probabilities, outcomes = _cases(log_probabilities, outcomes)
    predicted = np.exp(log_probabilities).ravel()
    happened = _happened(log_probabilities, outcomes).ravel()
    bins = np.minimum((predicted * num_bins).astype(int), num_bins - 1)
    return [
        {
            "predicted": float(predicted[bins == b].mean()),
            "observed": float(happened[bins == b].mean()),
            "count": int((bins == b).sum()),
        }
        for b in range(num_bins)
        if (bins == b).any()
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """The mean distance between predicted probabilities and what was observed of them."""
    _require_rows(bins, "bins", ("predicted", "observed", "count"))
    total = sum(b["count"] for b in bins)
    if total <= 0:
        raise UserValueError(f"bins must hold predictions, got {shortened(bins)}.")
    return sum(b["count"] * abs(b["predicted"] - b["observed"]) for b in bins) / total


def probability_scores(
    log_probabilities: Float[np.ndarray, "cases classes"], outcomes: Int[np.ndarray, " cases"]
) -> dict[str, Any]:
    """Log-score, accuracy, calibration and its error of one set of predicted probabilities."""
    bins = calibration(log_probabilities, outcomes)
    return {
        "log_score": log_score(log_probabilities, outcomes),
        "accuracy": accuracy(log_probabilities, outcomes),
        "calibration_error": calibration_error(bins),
        "calibration": bins,
    }


def coverage(
    draws: Float[np.ndarray, "draws points"], values: Float[np.ndarray, " points"], *, level: float
) -> float:
    """The share of values inside the central interval that holds `level` of the draws."""
    draws, values = _draws_and_values(draws, values)
    low, high = np.quantile(draws, central(level), axis=0)
    return float(np.mean((low <= values) & (values <= high)))


def central(level: float) -> tuple[float, float]:
    """The two probabilities between which the central interval of that level lies."""
    level = require_number(level, "level")
    if not 0 < level < 1:
        raise UserValueError(f"level must be a probability between 0 and 1, got {level}.")
    return (1 - level) / 2, (1 + level) / 2


def crps(
    draws: Float[np.ndarray, "draws points"], values: Float[np.ndarray, " points"]
) -> Float[np.ndarray, " points"]:
    r"""The continuous ranked probability score of each value; smaller is better.

        CRPS(y) = E |X - y| - (1/2) E |X - X'|

    with X, X' independent predictions, here draws x_1 <= ... <= x_n, for which the second term is
    sum_i (2 i - n - 1) x_i / n^2. It is in the unit of the values, and for one draw it is the
    absolute error. Reference: Gneiting & Raftery 2007.

    >>> crps(np.array([[0.0], [1.0]]), np.array([0.5])).tolist()
    [0.25]
    """
    draws, values = _draws_and_values(draws, values)
    ordered = np.sort(np.asarray(draws, dtype=np.float64), axis=0)
    n = len(ordered)
    weights = (2 * np.arange(1, n + 1) - n - 1) / n**2
    return np.abs(ordered - values).mean(axis=0) - weights @ ordered


def standard_error(values: Any) -> float | None:
    """The standard error of a mean of independent values; None of one, or if one is infinite."""
    values = _row(as_doubles(values, "values"), "values", least=0)
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def mean_over(values: Sequence[float | None]) -> Estimate | None:
    """Mean and standard error over data sets; those without a value are left out."""
    known = _known(values)
    if not known:
        return None
    return {"mean": float(np.mean(known)), "error": standard_error(known), "each": known}


def means_over(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """`mean_over` the rows of each named number, one row per data set."""
    _require_rows(rows, "rows", ())
    return {name: mean_over([row.get(name) for row in rows]) for name in names}


def binomial_error(failures: float, num_episodes: int) -> float:
    """The standard error of a number of failures, over the episodes.

    The share is the mean of Jeffreys' posterior, (f + 1/2) / (n + 1), so that no failures at all
    are not taken for certainty.
    """
    num_episodes = require_count(num_episodes, "num_episodes", "A share needs an episode.")
    if not 0 <= require_number(failures, "failures") <= num_episodes:
        raise UserValueError(
            f"failures must be between 0 and num_episodes={num_episodes}, got "
            f"{shortened(failures)}."
        )
    share = (failures + 0.5) / (num_episodes + 1)
    return float(np.sqrt(num_episodes * share * (1 - share)))


def mean_failures(failures: Sequence[int], num_episodes: int) -> Estimate | None:
    """`mean_over` data sets, with an error that is at least the one over all their episodes."""
    mean = mean_over(failures)
    if mean is not None:
        count = len(mean["each"])
        num_episodes = require_count(num_episodes, "num_episodes", "A share needs an episode.")
        over_episodes = binomial_error(sum(mean["each"]), count * num_episodes) / count
        mean["error"] = max(mean["error"] or 0.0, over_episodes)
    return mean


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float | None]:
    """The mean difference over data sets, its error, and the p-value of Student's paired test.

    There is no error and no test for one data set, nor where the difference is always the same.
    """
    from scipy.stats import ttest_rel

    first = _row(as_doubles(ours, "ours"), "ours")
    second = _row(as_doubles(theirs, "theirs"), "theirs")
    _require_as_many(first, second, "ours", "theirs")
    gaps = first - second
    if len(gaps) < 2 or np.ptp(gaps) == 0:
        return {"difference": float(gaps.mean()), "error": None, "p_value": None}
    p_value: Any = ttest_rel(first, second).pvalue
    return {
        "difference": float(gaps.mean()),
        "error": standard_error(gaps),
        "p_value": float(p_value),
    }


def drift(rates: np.ndarray) -> dict[str, Any]:
    """How far rates (chains, draws) change from the first half of the draws to the second, in %.

    Chains that are in the posterior do not drift, however slowly they move about in it. A cell is
    called drifting if Student's test over chains gives it less than one chance in a thousand.
    """
    from scipy.stats import t as student

    rates = as_numbers(rates, "rates")
    if rates.ndim != 2 or rates.shape[1] < 2 or not rates.size:
        raise UserValueError(
            f"rates must be (chains, draws) with two draws or more, got shape {rates.shape}."
        )
    half = rates.shape[1] // 2
    change = rates[:, half:].mean(axis=1) - rates[:, :half].mean(axis=1)
    mean, error = float(change.mean()), standard_error(change) or 0.0
    return {
        "drift": 100 * mean,
        "drift_error": 100 * error,
        "is_drifting": abs(mean) > error * float(student.ppf(1 - 0.0005, len(change) - 1)),
    }


def _happened(log_probabilities: np.ndarray, outcomes: np.ndarray) -> Bool[np.ndarray, "n k"]:
    return np.eye(log_probabilities.shape[1], dtype=bool)[outcomes]


def _cases(log_probabilities: Any, outcomes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (cases, classes) and the class that was the outcome of each case."""
    table = _without_nan(as_numbers(log_probabilities, "log_probabilities"), "log_probabilities")
    if table.ndim != 2 or not table.size:
        raise UserValueError(
            f"log_probabilities must be (cases, classes), got shape {table.shape}."
        )
    classes = _classes(outcomes, "outcomes")
    _require_as_many(table, classes, "log_probabilities", "outcomes")
    wrong = classes[(classes < 0) | (classes >= table.shape[1])]
    if len(wrong):
        raise UserValueError(
            f"outcomes must be classes 0 to {table.shape[1] - 1}, as log_probabilities has them; "
            f"got {wrong[0]}."
        )
    return table, classes


def _draws_and_values(draws: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws (draws, points) and one value per point."""
    table = _without_nan(as_numbers(draws, "draws"), "draws")
    row = _without_nan(_row(as_numbers(values, "values"), "values"), "values")
    if table.ndim != 2 or not table.size or table.shape[1] != len(row):
        raise UserValueError(
            f"draws must be (draws, points) with as many points as values, {len(row)}; got shape "
            f"{table.shape}."
        )
    return table, row


def _classes(classes: Any, name: str) -> np.ndarray:
    row = _row(as_numbers(classes, name), name)
    if row.dtype.kind not in "iu":
        raise UserTypeError(f"{name} must be the numbers of classes, got {row.dtype}.")
    return row


def _row(array: np.ndarray, name: str, least: int = 1) -> np.ndarray:
    if array.ndim != 1 or array.size < least:
        raise UserValueError(f"{name} must be a row of numbers, got shape {array.shape}.")
    return array


def _known(values: Any) -> list[Any]:
    """Those of the values that are not None."""
    if isinstance(values, np.ndarray):
        as_numbers(values, "values")
    elif not isinstance(values, Sequence):
        raise UserTypeError(f"values must be a row of numbers, got {shortened(values)}.")
    known = [value for value in values if value is not None]
    if known:
        _row(as_numbers(known, "values"), "values")
    return known


def _require_rows(rows: Any, name: str, keys: Sequence[str]) -> None:
    wanted = f"mappings with {', '.join(keys)}" if keys else "mappings, one per data set"
    if not isinstance(rows, Sequence):
        raise UserTypeError(f"{name} must be {wanted}, got {shortened(rows)}.")
    for row in rows:
        if not isinstance(row, Mapping) or not set(keys) <= row.keys():
            raise UserTypeError(f"{name} must be {wanted}, got {shortened(row)}.")


def _require_as_many(a: np.ndarray, b: np.ndarray, name: str, other: str) -> None:
    if len(a) != len(b):
        raise UserValueError(f"{name} and {other} must be as many, got {len(a)} and {len(b)}.")


def _without_nan(array: np.ndarray, name: str) -> np.ndarray:
    """Infinite numbers have their place: what was deemed impossible and happened scores so."""
    wrong = np.isnan(array)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise UserValueError(f"{name} must be numbers, got NaN at index {where}.")
    return array
