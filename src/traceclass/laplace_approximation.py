"""The Gaussian nearest to a posterior at its highest point: a reference for the kernels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from traceclass.arrays import as_floats
from traceclass.errors import UserValueError
from traceclass.kernels.reference import Reference
from traceclass.posterior import Posterior, require_posterior
from traceclass.validation import require_count, require_finite, require_shape

# Directions tried beyond those asked for, and passes over the Hessian: Halko, Martinsson & Tropp
# (SIAM Review 2011) recommend five to ten, and one or two.
_OVERSAMPLING, _PASSES = 10, 2
# Prior standard deviations from the mean at which the search for the MAP point begins.
_NEAR_MEAN = 0.1
# After the search; each makes the slope a hundred times flatter where the posterior is smooth.
# Where the curvature changes on the way, steps are halved, and it is found again, so many times.
_NEWTON_STEPS, _HALVINGS, _ROUNDS = 5, 10, 20
# Heights are sums of many numbers: so many units in the last place are not a difference.
_UNITS = 100
# Standard deviations from the MAP point that are not worth a warning.
_NEAR = 0.3
# Where the data say less about a direction than the prior says a hundred times over, they say
# nothing that a kernel would notice.
_NEGLIGIBLE = 0.01
# Above it, a direction beyond the last kept would have been worth keeping.
_INFORMED = 1.0


def laplace(
    posterior: Posterior,
    *,
    rank: int = 50,
    start: Any = None,
    seed: int = 0,
    max_iterations: int = 2_000,
) -> Reference:
    r"""N(m, (I + H)^-1): m the MAP point, H the Gauss-Newton Hessian of -l there, of low rank.

        m = argmax l(z) - |z|^2 / 2,   H = J' J,   J the Jacobian of (y - F(z)) / noise,

    for likelihoods with Gaussian noise, which have `residuals`; for others, and where the prior
    infers the noise, H is the Hessian of -l itself, and its negative eigenvalues are left out. The
    `rank` leading eigenvalues (in size, where some are negative) and their vectors are found from
    products with random vectors, so H is never formed. m is found from `start` (None: near the
    prior's mean) by L-BFGS and Newton steps.

    Use it as `tc.pcn.using(reference=tc.laplace(posterior))`, with `tc.hmc` and the others too. It
    is not an approximation of the posterior that is sampled from: kernels stay exact. It helps
    where one Gaussian is near the posterior, and little where there are many modes: chains start
    at its draws, in the mode that was found, and R-hat cannot see others. `initial_positions=` of
    `tc.sample` starts them elsewhere.
    """
    require_posterior(posterior)
    rank = require_count(rank, "rank", "A reference of no directions is the prior itself.")
    rank = min(rank, posterior.prior.num_coordinates)
    found = _highest(posterior, _start(posterior, start, seed), max_iterations)
    products = _hessian(posterior)
    m, (eigenvalues, vectors, beyond) = found, _leading(products, found, rank, seed)
    away = math.inf
    for _ in range(_ROUNDS):
        m, before = _polished(posterior, m, eigenvalues, vectors), m
        eigenvalues, vectors, beyond = _leading(products, m, rank, seed)
        away = _distance(posterior, m, eigenvalues, vectors)
        if away < _NEAR or bool((m == before).all()):
            break
    if not away < _NEAR:
        warnings.warn(
            f"the MAP point was not reached: another Newton step would go {away:.2g} standard "
            "deviations. The reference is where the search ended. Raise max_iterations or rank, or "
            "pass as start= the last_positions[0] of a short run of tc.hmc; in double precision "
            "(jax.enable_x64) the search sees smaller differences.",
            stacklevel=2,
        )
    if beyond > _INFORMED:
        warnings.warn(
            f"the data still say much about directions beyond the {rank} kept (eigenvalue "
            f"{beyond:.3g}, where 1 is as much as the prior says). Raise rank.",
            stacklevel=2,
        )
    kept = max(1, int(np.sum(eigenvalues > _NEGLIGIBLE)))
    dtype = m.dtype
    return Reference(
        m,
        jnp.asarray(vectors[:, :kept], dtype=dtype),
        jnp.asarray(np.maximum(eigenvalues[:kept], 0.0), dtype=dtype),
    )


def _start(posterior: Posterior, start: Any, seed: int) -> Float[Array, " z"]:
    shape = (posterior.prior.num_coordinates,)
    if start is None:
        # Not the mean itself, where a network has all its weights at zero: a saddle.
        return _NEAR_MEAN * posterior.prior.sample(jax.random.key(seed))
    position = as_floats(start, "start")
    require_shape(position, shape, "start")
    return require_finite(position, "start")


def _highest(posterior: Posterior, start: Array, max_iterations: int) -> Float[Array, " z"]:
    """The MAP point, by L-BFGS from `start`."""

    def descent(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _height_and_slope(posterior, jnp.asarray(z, dtype=start.dtype))
        return float(value), np.asarray(gradient, dtype=np.float64)

    first = descent(np.asarray(start))
    if not (np.isfinite(first[0]) and np.isfinite(first[1]).all()):
        raise UserValueError(
            f"the log-likelihood or its gradient is not finite at the start (log-density "
            f"{-first[0]}), so there is no way up from it. Pass another start=."
        )
    found = minimize(
        descent,
        np.asarray(start, dtype=np.float64),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "maxcor": 30},
    )
    return jnp.asarray(found.x, dtype=start.dtype)


@eqx.filter_jit
def _height_and_slope(posterior: Posterior, z: Array) -> tuple[Array, Array]:
    """The negative log-density |z|^2 / 2 - l(z), and its slope z - g(z)."""
    log_likelihood, gradient = posterior.log_likelihood_and_gradient(z)
    return 0.5 * jnp.vdot(z, z) - log_likelihood, z - gradient


def _newton_step(slope: np.ndarray, eigenvalues: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(I + H)^-1 times the slope."""
    shrink = np.maximum(eigenvalues, 0.0) / (1 + np.maximum(eigenvalues, 0.0))
    return slope - vectors @ (shrink * (vectors.T @ slope))


def _distance(
    posterior: Posterior, z: Array, eigenvalues: np.ndarray, vectors: np.ndarray
) -> float:
    """How long the next Newton step would be, in standard deviations of the reference."""
    slope = np.asarray(_height_and_slope(posterior, z)[1], dtype=np.float64)
    return float(np.sqrt(slope @ _newton_step(slope, eigenvalues, vectors)))


def _polished(
    posterior: Posterior, m: Array, eigenvalues: np.ndarray, vectors: np.ndarray
) -> Float[Array, " z"]:
    """m after Newton steps, halved until they lead down, as long as there are any.

    I + H is positive, so a short step always leads down. Where heights are too near each other to
    be compared in the precision there is, what counts is whether the slope gets flatter.
    """

    def look(z: Array) -> tuple[float, np.ndarray]:
        height, slope = _height_and_slope(posterior, z)
        return float(height), np.asarray(slope, dtype=np.float64)

    rounding = _UNITS * float(jnp.finfo(m.dtype).eps)
    height, slope = look(m)
    for _ in range(_NEWTON_STEPS):
        step = _newton_step(slope, eigenvalues, vectors)
        for share in 0.5 ** np.arange(_HALVINGS):
            moved = m - jnp.asarray(share * step, dtype=m.dtype)
            new_height, new_slope = look(moved)
            fall = (height - new_height) / max(1.0, abs(height))
            is_flatter = np.linalg.norm(new_slope) < np.linalg.norm(slope)
            if fall > rounding or (fall > -rounding and is_flatter):
                break
        else:
            return m
        m, height, slope = moved, new_height, new_slope
    return m


def _leading(
    products: Callable[[Array, np.ndarray], np.ndarray], m: Array, rank: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Largest eigenvalues of H at m, falling, their vectors (z, rank), and the next eigenvalue."""
    d = m.shape[0]
    width = min(rank + _OVERSAMPLING, d)
    q = np.random.default_rng(seed).normal(size=(d, width))
    for _ in range(_PASSES):
        q, _ = np.linalg.qr(products(m, q))
    inner = q.T @ products(m, q)
    eigenvalues, turn = np.linalg.eigh(0.5 * (inner + inner.T))
    order = np.argsort(eigenvalues)[::-1]
    beyond = float(eigenvalues[order[rank]]) if width > rank else 0.0
    return eigenvalues[order[:rank]], q @ turn[:, order[:rank]], beyond


def _hessian(posterior: Posterior) -> Callable[[Array, np.ndarray], np.ndarray]:
    """Products with H at a point, of many vectors: (z,), (z, n) -> (z, n)."""
    scale = 1.0 if posterior.inverse_temperature is None else posterior.inverse_temperature

    def residuals(z: Array) -> Array:
        return posterior.likelihood.residuals(posterior.values_of(z))

    def gauss_newton(m: Array, vector: Array) -> Array:
        _, along = jax.jvp(residuals, (m,), (vector,))
        return scale * jax.vjp(residuals, m)[1](along)[0]

    def newton(m: Array, vector: Array) -> Array:
        return -jax.jvp(jax.grad(posterior.log_likelihood), (m,), (vector,))[1]

    # A noise level that is inferred has a slope of its own, which the residuals do not hold.
    infers_noise = posterior.prior.noise(jnp.zeros(posterior.prior.num_coordinates)) is not None
    is_least_squares = hasattr(posterior.likelihood, "residuals") and not infers_noise
    product = gauss_newton if is_least_squares else newton

    @jax.jit
    def compiled(m: Array, vectors: Array) -> Array:
        return jax.lax.map(lambda vector: product(m, vector), vectors, batch_size=16)

    def products(m: Array, vectors: np.ndarray) -> np.ndarray:
        rows = compiled(m, jnp.asarray(vectors.T, dtype=m.dtype))
        return np.asarray(rows, dtype=np.float64).T

    return products
