"""The evidence of a model, log p(data), from all temperatures of one run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from traceclass.model_choice.tempering import Tempering

# Parts of a chain whose means are compared, to see how far they lie apart.
_PARTS = 4
# Draws per chain from which on there is an effective sample size.
_FEWEST_DRAWS = 4


class Evidence(NamedTuple):
    """log Z = log p(data) by stepping stones and by thermodynamic integration.

    The two are made of the same draws: that they agree says that the schedule is fine enough, not
    that the replicas have mixed. If the likelihood leaves out constants, so does the evidence.

    Parameters
    ----------
    log_evidence, standard_error : float
        The estimate by stepping stones, and its standard error.
    thermodynamic, thermodynamic_error : float
        The estimate by thermodynamic integration, and its standard error.
    """

    log_evidence: float
    standard_error: float
    thermodynamic: float
    thermodynamic_error: float

    def __str__(self) -> str:
        return (
            f"log-evidence {self.log_evidence:.3f} +- {self.standard_error:.3f} by stepping "
            f"stones, {self.thermodynamic:.3f} +- {self.thermodynamic_error:.3f} by thermodynamic "
            "integration"
        )


def evidence_of(tempering: Tempering) -> Evidence:
    """Both estimates from the log-likelihoods at all temperatures."""
    t = tempering.inverse_temperatures
    log_likelihoods = np.asarray(tempering.log_likelihood, dtype=np.float64)
    return Evidence(
        *stepping_stones(t, log_likelihoods), *thermodynamic_integral(t, log_likelihoods)
    )


def stepping_stones(t: np.ndarray, log_likelihoods: np.ndarray) -> tuple[float, float]:
    r"""The product of the ratios of neighbours, each an expectation at the hotter one.

        Z_{t_k} / Z_{t_(k+1)} = E_{t_(k+1)} exp((t_k - t_(k+1)) l)

    The weights w_k are bounded where l is. The error is that of the mean of

        psi = sum_k (w_k / mean w_k - 1),

    one series for all temperatures, so what replicas carry from one to the other is in it, with the
    autocorrelation. Where neighbours hardly overlap, a few weights make the mean, and such an error
    is far too small; it is therefore at least the distance from the estimate by Bennett's
    acceptance ratio, to which both neighbours contribute. References: Xie et al., Syst. Biol. 2011;
    Bennett 1976.
    """
    h = t[:-1] - t[1:]
    hotter, colder = h * log_likelihoods[..., 1:], h * log_likelihoods[..., :-1]
    highest = hotter.max(axis=(0, 1))
    weights = np.exp(hotter - highest)
    means = weights.mean(axis=(0, 1))
    psi = np.sum(weights / means - 1, axis=-1)
    ratios = np.log(means) + highest
    by_both = [_bennett(hotter[..., k], colder[..., k]) for k in range(h.size)]
    error = max(_error_of_mean(psi), abs(float(np.sum(ratios - by_both))))
    return float(np.sum(ratios)), error


def _bennett(hotter: np.ndarray, colder: np.ndarray) -> float:
    r"""The c with sum sigma(a - c) = sum sigma(c - b): log(Z_cold / Z_hot) by draws of both.

    a = h l at the hotter, b = h l at the colder temperature, as many of each; sigma is the
    logistic function.
    """
    finite = np.concatenate([hotter[np.isfinite(hotter)], colder[np.isfinite(colder)]])

    def difference(c: float) -> float:
        return float(np.sum(expit(hotter - c)) - np.sum(expit(c - colder)))

    root: Any = brentq(difference, finite.min() - 50, finite.max() + 50)
    return float(root)


def thermodynamic_integral(t: np.ndarray, log_likelihoods: np.ndarray) -> tuple[float, float]:
    r"""log Z = int_0^1 m(t) dt, m(t) = E_t[l], by a monotone cubic through m and its slopes.

    d m / d t is the variance v of l, so a cubic on [t_(k+1), t_k] of length h has the integral

        h/2 (m_k + m_(k+1)) - h^2/12 (v_k - v_(k+1))

    (Friel, Hurn & Wyse 2014). Since m rises, the slopes are shortened where the cubic would not
    (Fritsch & Carlson 1980): near the prior l may have a variance that says little about the rest
    of the interval. A tenth of the last term counts as an error beside that of the means, and half
    of what shortening took away. Where l is -inf at the prior there is no such integral: NaN.
    """
    if not np.isfinite(log_likelihoods).all():
        return float("nan"), float("nan")
    h = t[:-1] - t[1:]
    mean, variance = log_likelihoods.mean(axis=(0, 1)), log_likelihoods.var(axis=(0, 1))
    rise = np.maximum(mean[:-1] - mean[1:], 0.0)
    steepness = h * np.hypot(variance[:-1], variance[1:])
    share = np.minimum(1.0, 3 * rise / np.maximum(steepness, 1e-300))
    full = -(h**2) * (variance[:-1] - variance[1:]) / 12
    # The means and the variances are estimates of the same draws: one series for the whole.
    weights = (np.append(h, 0.0) + np.append(0.0, h)) / 2
    of_slopes = -share * h**2 / 12
    shares = np.append(of_slopes, 0.0) - np.append(0.0, of_slopes)
    squares = shares * (log_likelihoods - mean) ** 2
    series = log_likelihoods @ weights + squares.sum(axis=-1)
    rule = np.abs(share * full).sum() / 10 + np.abs((1 - share) * full).sum() / 2
    error = np.hypot(_error_of_mean(series), rule)
    return float(mean @ weights + share @ full), float(error)


def _error_of_mean(series: np.ndarray) -> float:
    """Standard error of the mean of (chains, draws): the largest of three estimates.

    They come from the effective sample size, from the means of the chains, and from the means of
    the chains' quarters. A slow part beneath much fast noise, which the draws of the prior bring,
    shows in the last two only.
    """
    from arviz_stats.base.array import array_stats

    if np.ptp(series) == 0:
        return 0.0
    if series.shape[1] < _FEWEST_DRAWS:
        return float("nan")
    size = float(np.asarray(array_stats.ess(series, method="mean")))
    errors = [series.std(ddof=1) / np.sqrt(size)]
    for parts in (1, _PARTS):
        length = series.shape[1] // parts
        means = series[:, : length * parts].reshape(-1, length).mean(axis=1) if length else []
        if len(means) > 1:
            errors.append(np.std(means, ddof=1) / np.sqrt(len(means)))
    return float(max(errors))
