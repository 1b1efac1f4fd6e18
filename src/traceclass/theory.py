"""The paper's theorems as numbers: bounds of Theorem 1, the sums of Theorem 3 and of the swap."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import zeta

from traceclass.errors import UserValueError
from traceclass.posterior import Posterior
from traceclass.priors.network import NetworkPrior


class LayerBounds(NamedTuple):
    """Constants of Theorem 1, one a layer (hidden layers, then the output)."""

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
