r"""A Gaussian reference fitted to draws of a posterior, and their scores or the curvature there.

The score of a draw x in whitened coordinates is a = g - x, g the gradient of the log-likelihood. A
Gaussian N(m, G) has the score -G^-1 (x - m), and the fit makes the mean square difference of the
two, measured in G, small (Seyboldt, Carlson & Carpenter 2026):

    m = mean(x) + G mean(a),   G cov(a) G = cov(x),

the latter first along each coordinate, G = S^2 with s_i^4 = var(x_i) / var(a_i), and then, in
coordinates scaled by S, within the span of the leading directions of draws and of scores.

It returns to the prior by itself where the data say nothing. There g_i = 0, so a_i = -x_i to the
last bit, and s_i = 1 and m_i = 0 exactly, however few draws there are; a fit to draws alone would
carry an error of 1 / sqrt(n) in each of ever more coordinates. In general (log s_i)^2 is at most of
the order var(g_i), and m_i of the order of mean(g_i), whose sums over i stay finite as coordinates
are added, because the gradient in whitened coordinates lies in the Hilbert space (the paper's
Theorem 3). Of the other directions finitely many differ. So prior and reference are equivalent in
the limit (Feldman-Hajek), and a kernel that moves by the reference keeps what makes it robust.

Where the mean curvature H of -l over the draws is known (`curvature`), I + H is what cov(a) tends
to, and says it of every direction from a few draws. The fit is then, coordinate by coordinate and
in the directions u_k of the scaled matrix,

    s_i^4 = var(x_i)^q_i / (1 + H_ii),   q_i = H_ii / (1 + H_ii),
    S (I + H) S = sum e_k u_k u_k',      variance along u_k: (w_k / e_k)^(1/2)

with w_k = var(u_k' S^-1 x), and s_i is one again where the data say nothing: the sum of H_ii is
finite. A posterior that bends has w_k far above 1 / e_k: its narrow directions turn as one moves
along the wide ones, and the fit is between how narrow it is here and how far it reaches. No
variance is less than one over the mean precision, which counts as the prior's where the
log-likelihood curves the other way. Draws of a chain that has hardly moved yet break
this bound; they are held to it, and var(x_i) to 0.01, so that such a chain is not given ever
smaller steps.

BlackJAX has the estimator from scores (`metric_estimators.fisher_score_low_rank`). It is compiled
again for every number of draws, which grows from fit to fit, and takes longer once it is compiled;
`python -m benchmarks.references` says by how much. This one runs on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Directions in which the covariance of scaled draws is within this factor of one are left as they
# are: their gain is small, and what is seen there is mostly chance.
_CUTOFF = 2.0
# The least variance of a coordinate by which it is scaled, where the curvature is known.
_LEAST_VARIANCE = 0.01
# Added to covariances of scaled draws and scores, so that a direction that one of them does not
# have is not taken for infinitely long or short.
_FLOOR = 1e-5
# Eigenvalues of a covariance below this share of the largest are rounding errors.
_ROUNDING = 1e-13


class Fitted(NamedTuple):
    """Mean m, scale s, vectors V and eigenvalues lambda, as a `Reference` has them."""

    mean: np.ndarray
    scale: np.ndarray
    vectors: np.ndarray
    eigenvalues: np.ndarray


def fitted(
    positions: np.ndarray,
    gradients: np.ndarray,
    rank: int,
    *,
    has_mean: bool = True,
    curvature: np.ndarray | None = None,
) -> Fitted:
    """The fit to draws (n, z) and the gradients of the log-likelihood at them.

    `vectors` has `rank` columns, zeros where fewer directions are worth it. Without a mean, m = 0,
    as it is of the prior, and the covariances are second moments. `curvature` is H (z, z).
    """
    x = np.asarray(positions, dtype=np.float64)
    a = np.asarray(gradients, dtype=np.float64) - x
    mean_x, mean_a = (has_mean * rows.mean(axis=0) for rows in (x, a))
    x, a = x - mean_x, a - mean_a
    if curvature is None:
        s = _scale(x, a)
        vectors, variances = _directions(x / s, a * s, rank)
    else:
        precision = curvature + np.eye(len(curvature))
        s = _scale_by(precision, x)
        vectors, variances = _directions_by(s[:, None] * precision * s, s, x / s, rank)
    # G mean(a), G = S (I + V diag(variances - 1) V') S.
    scaled = s * mean_a
    mean = mean_x + s * (scaled + vectors @ ((variances - 1) * (vectors.T @ scaled)))
    return Fitted(mean, s, vectors, 1 / variances - 1)


def _scale(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """s_i = (var(x_i) / var(a_i))^(1/4); one where a chain has not moved."""
    squares = (x**2).sum(axis=0), (a**2).sum(axis=0)
    is_seen = (squares[0] > 0) & (squares[1] > 0)
    ratio = np.divide(squares[0], squares[1], out=np.ones_like(squares[0]), where=is_seen)
    return ratio**0.25


def _directions(x: np.ndarray, a: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal directions V, and the variances along them, of draws and scores (n, z)."""
    few = min(rank, len(x) - 1)
    basis, _ = np.linalg.qr(np.concatenate([_leading(x, few), _leading(a, few)], axis=1))
    covariance = _geometric_mean(_covariance(x @ basis), _covariance(a @ basis))
    variances, rotation = np.linalg.eigh(covariance)
    variances = np.maximum(variances, _FLOOR**2)  # what rounding may have made of nothing
    return _farthest(basis @ rotation, variances, rank)


def _scale_by(precision: np.ndarray, x: np.ndarray) -> np.ndarray:
    """s_i^4 = var(x_i)^q_i / precision_ii, q_i = 1 - 1 / precision_ii the data's share in it."""
    variances = np.maximum((x**2).mean(axis=0), _LEAST_VARIANCE)
    each = np.maximum(np.diag(precision), 1.0)
    return (variances ** (1 - 1 / each) / each) ** 0.25


def _directions_by(
    precision: np.ndarray, s: np.ndarray, x: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal directions V, and the variances along them, of draws and their mean precision.

    Draws and precision are in coordinates scaled by s, where the prior's precision is S^2.
    """
    e, u = np.linalg.eigh(precision)
    w = ((x @ u) ** 2).mean(axis=0)
    # A mean over a few draws may curve the other way: then only the prior holds.
    e = np.maximum(e, (s**2) @ u**2)
    return _farthest(u, np.sqrt(np.maximum(w, 1 / e) / e), rank)


def _farthest(basis: np.ndarray, variances: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns whose variances are farthest from one, at most `rank`; zeros for the others."""
    far = np.abs(np.log(variances))
    order = np.argsort(-far)[:rank]
    order = order[far[order] > np.log(_CUTOFF)]
    vectors, found = np.zeros((len(basis), rank)), np.ones(rank)
    vectors[:, : len(order)] = basis[:, order]
    found[: len(order)] = variances[order]
    return vectors, found


def _leading(rows: np.ndarray, number: int) -> np.ndarray:
    """The leading right singular vectors of rows (n, z) as columns, by the smaller Gram matrix."""
    _, vectors = np.linalg.eigh(rows @ rows.T)
    columns = rows.T @ vectors[:, -number:]
    return columns / np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)


def _covariance(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows / len(rows) + _FLOOR * np.eye(rows.shape[1])


def _geometric_mean(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The G with G a G = x: a^(-1/2) (a^(1/2) x a^(1/2))^(1/2) a^(-1/2)."""
    values, vectors = np.linalg.eigh(a)
    # Rounding may have taken more from the smallest than there was.
    values = np.maximum(values, _ROUNDING * values[-1])
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ x @ root)
    return inverse @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T @ inverse
