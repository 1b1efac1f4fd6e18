"""Chains that warm-up leaves behind, told by their log-likelihood, begin again beside others."""

from __future__ import annotations

import numpy as np

from traceclass.sampling.adaptation.windows import WINDOW

# When to look, as shares of warm-up: after annealing, and before trials begin, so that a chain that
# begins again takes part in them. Only a short warm-up that fits references is past that by then.
_LOOKS = (0.25, 0.35, 0.45)
# So many spreads below the median chain, and so many nats, a chain is not in a mode that has its
# share of the posterior, but on a ledge on the way there. A lower one is only slow, or may be
# right: a wide mode of lower likelihood.
_FAR, _LEAST = 8.0, 50.0
# A median needs others to be a median of.
_FEWEST_CHAINS = 3


def is_look(done: int, num_warmup: int) -> bool:
    """Whether chains are looked at after `done` steps of warm-up."""
    return done in {round(share * num_warmup / WINDOW) * WINDOW for share in _LOOKS}


def left_behind(log_likelihoods: np.ndarray) -> np.ndarray:
    r"""The chains that are left behind, by the log-likelihoods (chains, steps) of a window.

        median(m) - m_c > max(8 spread, 50),   m_c the mean of chain c,

    where the spread is the larger of that within the median chain and that between the chains
    (1.48 median |m_c - median(m)|, which is a standard deviation if they are normal). A chain at
    three times the noise of n others is n log 3 below them; chains in modes that are about as
    likely as each other are not.
    """
    if len(log_likelihoods) < _FEWEST_CHAINS:
        return np.array([], dtype=int)
    levels = np.asarray(log_likelihoods, dtype=np.float64)
    means = levels.mean(axis=1)
    middle = np.median(means)
    within = np.median(levels.std(axis=1))
    between = 1.48 * np.median(np.abs(means - middle))
    return np.flatnonzero(middle - means > max(_FAR * max(within, between), _LEAST))


def beside_others(left: np.ndarray, num_chains: int, seed: tuple[int, int]) -> np.ndarray:
    """For every chain the one whose place it goes on from: itself, or by chance one of the others.

    `seed` makes the choice one that a resumed run repeats.
    """
    origins = np.arange(num_chains)
    others = np.setdiff1d(origins, left)
    origins[left] = np.random.default_rng(seed).choice(others, size=len(left))
    return origins
