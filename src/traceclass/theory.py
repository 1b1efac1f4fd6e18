"""The paper's theorems as numbers: bounds of Theorem 1, the sums of Theorem 3 and of the swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import zeta

from traceclass.errors import UserValueError
from traceclass.likelihoods import GaussianRegression
from traceclass.posterior import Posterior
from traceclass.priors import Prior, TraceClassNetwork
from traceclass.priors.network import NetworkPrior


class LayerBounds(NamedTuple):
    """Constants of Theorem 1, one per layer (hidden layers, then the output)."""

    variance: tuple[float, ...]
    lipschitz: tuple[float, ...]


def layer_bounds(prior: NetworkPrior, *, infinite_width: bool = True) -> LayerBounds:
    r"""sigma_l^2 and c_l of Theorem 1, by their recursion.

        E f_i^(l)(x)^2 <= sigma_l^2 / i^alpha,
        sigma_1^2 = s_b^2 + s_w^2 d,   sigma_l^2 = s_b^2 + s_w^2 sigma_{l-1}^2 sum_j j^(-2 alpha)
        E (f_i^(l)(x) - f_i^(l)(y))^2 <= c_l |x - y|^2 / i^alpha,
        c_1 = s_w^2,   c_l = s_w^2 c_{l-1} sum_j j^(-2 alpha)

    for features with |x_j| <= 1, d of them. The sum runs to infinity (zeta(2 alpha), for alpha >
    1/2) or over the nodes there are. With the identity activation and |x_j| = 1 the finite bounds
    are attained.
    """
    variance = [prior.bias_variance[0] + prior.weight_variance[0] * prior.num_features]
    lipschitz = [prior.weight_variance[0]]
    later = zip(prior.weight_variance[1:], prior.bias_variance[1:], prior.widths, strict=True)
    for s2_w, s2_b, width in later:
        total = _power_sum(2 * prior.alpha, None if infinite_width else width)
        variance.append(s2_b + s2_w * variance[-1] * total)
        lipschitz.append(s2_w * lipschitz[-1] * total)
    return LayerBounds(tuple(variance), tuple(lipschitz))


def layer_values(
    prior: NetworkPrior, z: Float[Array, " z"], x: Float[Array, "points dim"]
) -> list[Float[Array, "width points"]]:
    """f^(l)(x) of every layer, before the activation: what Theorem 1 speaks of."""
    hidden = (x if prior.inputs is None else prior.inputs(x)).T
    layers = []
    for depth, (weights, biases) in enumerate(prior.parameters(z)):
        hidden = weights @ (prior.activation(hidden) if depth else hidden) + biases[:, None]
        layers.append(hidden)
    return layers


def cameron_martin_norm(posterior: Posterior, z: Float[Array, " z"]) -> Float[Array, ""]:
    r"""sum_i lambda_i^2 (Dl)_i^2 = |C^(1/2) Dl|^2, the sum of Theorem 3 (eq:var_Ss).

    In whitened coordinates it is the squared length of the gradient. pCNL is well defined at
    infinite width if it stays bounded.
    """
    gradient = jax.grad(posterior.log_likelihood)(z)
    return jnp.vdot(gradient, gradient)


def swap_sum(prior: NetworkPrior, *, layer: int, node: int) -> float:
    r"""The Feldman-Hajek sum of swapping nodes i and i + 1 of hidden layer l (lem:node_swap).

        sum over the swapped coordinates of (lambda~^2 / lambda^2 - 1)^2
        = (N_{l-1} + N_{l+1} + 1) [ ((i/(i+1))^alpha - 1)^2 + (((i+1)/i)^alpha - 1)^2 ]

    Layers and nodes count from 1. It grows linearly with the width, so at infinite width the swap
    leaves the support of the prior. (The paper sums the incoming weights only, which is enough.)
    """
    widths = (prior.num_features, *prior.widths, 1)
    if not 1 <= layer <= len(prior.widths):
        raise UserValueError(f"layer must lie in 1..{len(prior.widths)}, got {layer}.")
    if not 1 <= node < prior.widths[layer - 1]:
        raise UserValueError(
            f"node must lie in 1..{prior.widths[layer - 1] - 1}, got {node}: it is swapped with "
            "the next one."
        )
    ratio = ((node + 1) / node) ** prior.alpha
    each = (1 / ratio - 1) ** 2 + (ratio - 1) ** 2
    return (widths[layer - 1] + widths[layer + 1] + 1) * each


def _power_sum(exponent: float, num_terms: int | None) -> float:
    """sum_j j^-exponent, to infinity or over `num_terms` terms."""
    if num_terms is not None:
        return float(np.sum(np.arange(1, num_terms + 1, dtype=np.float64) ** -exponent))
    return float(zeta(exponent)) if exponent > 1 else np.inf


def mean_norm(posterior: Posterior, key: Array, num_draws: int) -> float:
    """The mean of `cameron_martin_norm` over draws of the prior."""
    norms = _over_draws(
        lambda z: cameron_martin_norm(posterior, z), posterior.prior, key, num_draws
    )
    return float(norms.mean())


def moments_and_bounds(
    prior: NetworkPrior, scaled: Any, points: Any, key: Array, num_draws: int
) -> dict[str, Any]:
    """Theorem 1 at the output: E v(x)^2 <= sigma^2 and E (v(x) - v(y))^2 <= c |x - y|^2.

    Monte Carlo moments and their errors stand beside the bounds: the largest second moment over the
    points, and differences between the first and the last. `scaled` are the points as the network
    reads them.
    """
    x = jnp.asarray(points, dtype=float)
    values = _over_draws(lambda z: layer_values(prior, z, x)[-1][0], prior, key, num_draws)
    squares = values**2
    worst = int(np.argmax(squares.mean(axis=0)))
    distance = float(np.sum((np.array(scaled[0]) - np.array(scaled[-1])) ** 2))
    steps = (values[:, 0] - values[:, -1]) ** 2 / distance
    limits = layer_bounds(prior)
    return {
        "width": prior.widths[0],
        "variance": float(squares.mean(axis=0)[worst]),
        "variance_error": float(squares.std(axis=0)[worst] / np.sqrt(num_draws)),
        "variance_bound": limits.variance[-1],
        "lipschitz": float(steps.mean()),
        "lipschitz_error": float(steps.std() / np.sqrt(num_draws)),
        "lipschitz_bound": limits.lipschitz[-1],
    }


def refinement(
    priors: Sequence[Prior],
    finest: Prior,
    sizes: Sequence[int],
    points: np.ndarray,
    key: Array,
    num_draws: int,
) -> dict[str, Any]:
    """Mean of sup |v_fine - v_N| over the points, and median of |l(v_fine) - l(v_N)|.

    `priors` have the sizes N. l is the log-likelihood of zeros observed with noise 1 at 16 of the
    points, picked at random: on a regular grid the terms of a series are orthogonal, and l would
    change to second order only. Slopes are those of both against N, in logarithms.
    """
    at_fine = finest.at(points)
    seen = np.random.default_rng(0).choice(len(points), 16, replace=False)
    likelihood = GaussianRegression(points[seen], np.zeros(16), noise=1.0)
    sups, gaps = [], []
    for coarse in priors:
        at_coarse = coarse.at(points)

        def change(z: Array, coarse: Prior = coarse, at_coarse: Any = at_coarse) -> Array:
            before, after = at_coarse(finest.restrict(z, coarse)), at_fine(z)
            gap = likelihood.log_prob(after[seen]) - likelihood.log_prob(before[seen])
            return jnp.stack([jnp.max(jnp.abs(after - before)), jnp.abs(gap)])

        changes = _over_draws(change, finest, key, num_draws)
        sups.append(float(changes[:, 0].mean()))
        gaps.append(float(np.median(changes[:, 1])))
    logarithms = np.log(sizes)
    return {
        "errors": sups,
        "log_likelihood_changes": gaps,
        "slope": float(np.polyfit(logarithms, np.log(sups), 1)[0]),
        "log_likelihood_slope": float(np.polyfit(logarithms, np.log(gaps), 1)[0]),
    }


def tail_share(alpha: float, width: int) -> float:
    """The share of the variance that a network of three hidden layers leaves out at a width."""
    prior = TraceClassNetwork(num_inputs=2, widths=(1, 1, 1), alpha=alpha)
    return prior.tail_variance(width) / prior.total_variance()


def _over_draws(
    function: Callable[[Array], Array], prior: Prior, key: Array, num_draws: int
) -> np.ndarray:
    """A function of prior draws, one draw in memory at a time."""
    keys = jax.random.split(key, num_draws)
    over = jax.jit(lambda keys: jax.lax.map(lambda key: function(prior.sample(key)), keys))
    return np.asarray(over(keys), dtype=np.float64)
