"""A posterior with two separate modes whose evidence is a one-dimensional integral."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy.integrate import quad
from scipy.stats import norm

import traceclass as tc

# The first eight values are N(0, I) under the prior, whatever the number of coordinates. Their
# likelihood is a mixture of two normals with centres on one axis; together with the prior its modes
# are 12 standard deviations apart. Across the axis it is as narrow, so that no independent draw of
# the prior, which pCN with a long step makes, hits a mode.
NUM_SEEN = 8
CENTRES, SDS, WEIGHTS = (-1.55, 1.55), (0.24, 0.25), (0.3, 0.7)


class TwoModes(NamedTuple):
    """The posterior, its exact log-evidence, and the probability of the mode at +1.55.

    `axis(z)` is the coordinate along which the modes lie; `start` a position in the mode at -1.55.
    """

    posterior: tc.Posterior
    log_evidence: float
    probability: float
    # Of the modes, in standard deviations of the wider one.
    distance: float
    axis: Callable
    start: np.ndarray


def two_modes(num_coordinates: int = 20) -> TwoModes:
    points = np.arange(num_coordinates, dtype=float)[:, None]
    prior = tc.Series(
        lambda x: (jnp.round(x) == jnp.arange(num_coordinates)).astype(float),
        np.ones(num_coordinates),
        num_inputs=1,
    )
    centres, sds = jnp.asarray(CENTRES), jnp.asarray(SDS)
    weights = jnp.log(jnp.asarray(WEIGHTS)) - NUM_SEEN * jnp.log(sds * math.sqrt(2 * math.pi))
    values_of = prior.at(points)

    def axis(z):
        return jnp.sum(values_of(z)[:NUM_SEEN]) / math.sqrt(NUM_SEEN)

    def log_prob(values):
        seen = values[:NUM_SEEN]
        along = jnp.sum(seen) / math.sqrt(NUM_SEEN)
        squares = jnp.sum(seen**2) - along**2 + (along - centres) ** 2
        return logsumexp(weights - 0.5 * squares / sds**2)

    def density(a: float) -> float:
        """Prior times likelihood on the axis, with what lies across it integrated out."""
        return norm.pdf(a) * sum(
            w * norm.pdf(a, m, s) * norm.pdf(0, 0, math.hypot(1, s)) ** (NUM_SEEN - 1)
            for w, m, s in zip(WEIGHTS, CENTRES, SDS, strict=True)
        )

    below, above = (quad(density, *ends, limit=200)[0] for ends in ((-8, 0), (0, 8)))
    modes = [(m / (1 + s**2), s / math.hypot(1, s)) for m, s in zip(CENTRES, SDS, strict=True)]
    start = np.zeros(num_coordinates)
    start[:NUM_SEEN] = modes[0][0] / math.sqrt(NUM_SEEN)
    return TwoModes(
        tc.Posterior(prior, tc.Likelihood(points, log_prob)),
        math.log(below + above),
        above / (below + above),
        (modes[1][0] - modes[0][0]) / max(sd for _, sd in modes),
        axis,
        start,
    )
