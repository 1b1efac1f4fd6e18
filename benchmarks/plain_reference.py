"""Mountain car the plain way: NumPy, one network at a time, one `quad` a demonstration.

Written from the paper's formulas, as a careful user without this library would; no attempt is
made to slow it down. Used as the yardstick of `make bench`, never by the library.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr

_SQRT_2PI = math.sqrt(2 * math.pi)


class PlainPosterior:
    """Log-likelihood of one flat vector of standard normal coordinates."""

    def __init__(self, widths, alpha, variance, points, chosen, num_actions, noise):
        self.sizes = list(zip((points.shape[1], *widths), (*widths, 1), strict=True))
        self.points, self.chosen = points, chosen
        self.num_actions, self.noise = num_actions, noise
        self.sd = []
        for depth, (into, out) in enumerate(self.sizes):
            i = np.arange(1, out + 1)[:, None] ** (-alpha / 2)
            j = np.arange(1, into + 1)[None, :] ** (-alpha / 2) if depth else np.ones((1, into))
            self.sd.append((math.sqrt(variance) * i * j, math.sqrt(variance) * i[:, 0]))

    def values(self, z: np.ndarray) -> np.ndarray:
        hidden, start = self.points, 0
        for depth, ((into, out), (sd_w, sd_b)) in enumerate(zip(self.sizes, self.sd, strict=True)):
            weights = z[start : start + out * into].reshape(out, into) * sd_w
            start += out * into
            biases = z[start : start + out] * sd_b
            start += out
            hidden = (np.tanh(hidden) if depth else hidden) @ weights.T + biases
        return hidden[:, 0]

    def log_likelihood(self, z: np.ndarray) -> float:
        return self.log_prob(self.values(z))

    def log_prob(self, values: np.ndarray) -> float:
        """Log-probability of the demonstrations from values in the order of `points`."""
        table = values.reshape(-1, self.num_actions)
        total = 0.0
        for row, action in zip(table, self.chosen, strict=True):
            gaps = (row[action] - np.delete(row, action)) / self.noise

            def integrand(t, gaps=gaps):
                return math.exp(-0.5 * t * t) / _SQRT_2PI * np.prod(ndtr(t + gaps))

            probability = quad(integrand, -np.inf, np.inf)[0]
            total += math.log(probability) if probability > 0 else -math.inf
        return total

    def pcn(self, rng: np.random.Generator, z: np.ndarray, beta: float, num_steps: int) -> float:
        """Share of accepted moves."""
        level, accepted = self.log_likelihood(z), 0
        for _ in range(num_steps):
            proposal = math.sqrt(1 - beta**2) * z + beta * rng.standard_normal(z.size)
            proposed = self.log_likelihood(proposal)
            if math.log(rng.uniform()) < proposed - level:
                z, level, accepted = proposal, proposed, accepted + 1
        return accepted / num_steps
