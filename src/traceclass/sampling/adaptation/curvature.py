r"""How the log-likelihood curves, in the mean over draws, without the curvature of the prior's map.

With F(z) = (v(x_1; z), ..., v(x_n; z), log sigma(z)), the last where the noise level is inferred,
and l(z) = L(F(z)),

    H(z) = J' W J,   J = dF/dz,   W = -(second derivatives of L) at F(z),

which is -l'' but for the term that bends F, whose sign is as often the one as the other where the
fit is good. A draw says of H(z) what hundreds of scores would: every observation is a direction.
For likelihoods with Gaussian noise that is known, F are the residuals and W = I.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.likelihoods.base import at_noise
from traceclass.posterior import Posterior

# H is a matrix over all coordinates, and W one over all values: for more of them they are not made.
_MOST_COORDINATES, _MOST_VALUES = 1_500, 1_000
# Rows of J that are computed together: all at once would be a thousand gradients in memory.
_TOGETHER = 32
# Draws that are looked at: each says something of as many directions as there are values, and so
# many directions in all are enough.
_FEWEST_DRAWS, _MOST_DRAWS, _DIRECTIONS = 4, 16, 1_600


def num_curved(posterior: Posterior) -> int:
    """The number of values that H is made of, its largest rank; 0 where H cannot be made.

    It must be of a size to be kept, and a likelihood may have a gradient of its own making that
    JAX cannot differentiate again.
    """
    z = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), jnp.result_type(float))
    if z.size > _MOST_COORDINATES:
        return 0
    try:
        slopes, _ = eqx.filter_eval_shape(_slopes_and_weights, posterior, z)
    # What JAX says of custom_vjp, of callbacks, and of functions without a second rule.
    except (TypeError, ValueError, NotImplementedError):
        return 0
    return slopes.shape[0] if slopes.shape[0] <= _MOST_VALUES else 0


def mean_curvature(
    posterior: Posterior, positions: np.ndarray, num_values: int
) -> np.ndarray | None:
    """The mean of H over evenly spaced ones of the positions (n, z), in double precision.

    `num_values` is what `num_curved` says. None where H is not finite at any of them.
    """
    wanted = math.ceil(_DIRECTIONS / num_values)
    number = min(max(wanted, _FEWEST_DRAWS), _MOST_DRAWS, len(positions))
    total, count = np.zeros(2 * positions.shape[1:]), 0
    for z in positions[np.linspace(0, len(positions) - 1, number).astype(int)]:
        slopes, weights = _compiled(posterior, jnp.asarray(z))
        slopes = np.asarray(slopes, dtype=np.float64)
        curved = slopes.T @ _weighted(slopes, weights)
        if np.isfinite(curved).all():
            total, count = total + curved, count + 1
    return 0.5 * (total + total.T) / count if count else None


def _weighted(slopes: np.ndarray, weights: Any) -> np.ndarray:
    """W J, where W is often diagonal: observations are independent given the function."""
    if weights is None:
        return slopes
    weights = np.asarray(weights, dtype=np.float64)
    diagonal = np.diag(weights)
    if np.count_nonzero(weights) == np.count_nonzero(diagonal):
        return diagonal[:, None] * slopes
    return weights @ slopes


def _slopes_and_weights(
    posterior: Posterior, z: Float[Array, " z"]
) -> tuple[Float[Array, "values z"], Float[Array, "values values"] | None]:
    """J and W; None for the identity."""
    noise = posterior.prior.noise(z)
    if noise is None and hasattr(posterior.likelihood, "residuals"):
        return _jacobian(lambda z: posterior.likelihood.residuals(posterior.values_of(z)), z), None

    def seen(z: Array) -> Array:
        values, noise = posterior.values_of(z), posterior.prior.noise(z)
        return values if noise is None else jnp.append(values, jnp.log(noise))

    def level(seen: Array) -> Any:
        log_prob = posterior.likelihood.log_prob
        if noise is None:
            return log_prob(seen)
        return at_noise(log_prob, seen[:-1], jnp.exp(seen[-1]))

    return _jacobian(seen, z), -jax.hessian(level)(seen(z))


def _jacobian(function: Callable[[Array], Array], z: Float[Array, " z"]) -> Array:
    """dF/dz, some rows at a time."""
    values, pulled_back = jax.vjp(function, z)
    unit = jnp.eye(values.size, dtype=values.dtype)
    return jax.lax.map(lambda row: pulled_back(row)[0], unit, batch_size=_TOGETHER)


_compiled = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
    _slopes_and_weights, compiler_options={"xla_cpu_multi_thread_eigen": False}
)
