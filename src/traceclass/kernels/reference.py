"""A Gaussian reference measure other than the prior, and kernels that move by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from traceclass.errors import UserValueError
from traceclass.kernels.metropolis import metropolis_info, sampling_algorithm
from traceclass.kernels.states import GradientState, State, Target, standard_normal
from traceclass.module import Module
from traceclass.validation import require_finite, require_shape

# Products of orthonormal vectors may be off by this much through rounding.
_ORTHONORMAL = 1e-3


class Reference(Module):
    r"""N(m, G) in whitened coordinates, G^-1 = S^-1 (I + V diag(lambda) V') S^-1.

    `mean` is m, `vectors` V with orthonormal columns, `eigenvalues` lambda > -1, and S = diag(s)
    with `scale` s > 0; without one, S is the identity. It differs from the prior N(0, I) in
    finitely many directions, or, where s tends to one fast enough, in ever less; so the two have
    densities with respect to each other however fine the function is, and a kernel that keeps the
    prior has a twin that keeps N(m, G). With z = m + G^(1/2) zeta, u = S^-1 (z - m), the posterior
    is

        exp(l(z) + phi(z)) with respect to N(0, I) of zeta,
        phi(z) = -<m, z> + (1/2) sum_i (s_i^-2 - 1) (z - m)_i^2 + (1/2) sum_i lambda_i <v_i, u>^2

    (+ a constant), so the twin is the kernel itself, in the coordinates zeta and with l + phi in
    the place of l. Here G^(1/2) stands for S (I + V diag(lambda) V')^(-1/2), which need not be
    symmetric. If N(m, G) is near the posterior, l + phi is nearly constant and steps are long.
    `tc.laplace` makes one, and `tc.hmc.using(reference="adapt")` finds one in
    warm-up. References: Cui, Law & Marzouk 2016; Beskos et al. 2017; Rudolf & Sprungk 2018.

    Parameters
    ----------
    mean : array (z,)
        m.
    vectors : array (z, rank)
        V, with orthonormal columns.
    eigenvalues : array (rank,)
        lambda, above -1.
    scale : array (z,), optional
        s, positive. None: all ones.
    """

    mean: Float[Array, " z"]
    vectors: Float[Array, "z rank"]
    eigenvalues: Float[Array, " rank"]
    scale: Float[Array, " z"] | None = None

    def __check_init__(self):
        d = np.size(self.mean)
        rank = np.size(self.eigenvalues)
        require_shape(self.mean, (d,), "mean")
        require_shape(self.eigenvalues, (rank,), "eigenvalues")
        require_shape(self.vectors, (d, rank), "vectors")
        if self.scale is not None:
            require_shape(self.scale, (d,), "scale")
        if any(isinstance(part, Tracer) for part in jax.tree.leaves(self)):
            return
        require_finite(self.mean, "mean")
        vectors = np.asarray(require_finite(self.vectors, "vectors"), dtype=np.float64)
        eigenvalues = np.asarray(require_finite(self.eigenvalues, "eigenvalues"))
        smallest = float(np.min(eigenvalues, initial=0.0))
        if smallest <= -1:
            raise UserValueError(
                f"eigenvalues must be above -1, got {smallest}: the precision 1 + eigenvalue would "
                "not be positive."
            )
        if self.scale is not None:
            least = float(np.min(np.asarray(require_finite(self.scale, "scale"))))
            if least <= 0:
                raise UserValueError(
                    f"scale must be positive, got {least}: it multiplies standard deviations."
                )
        off = float(np.abs(vectors.T @ vectors - np.eye(rank)).max(initial=0.0))
        if off > _ORTHONORMAL:
            raise UserValueError(
                f"vectors must be orthonormal columns, but their products are off by {off:.2g}. "
                "Use the Q of a QR decomposition."
            )

    def position(self, zeta: Float[Array, " z"]) -> Float[Array, " z"]:
        """z = m + S (I + V diag(lambda) V')^(-1/2) zeta."""
        return self.mean + self.displacement(zeta)

    def displacement(self, zeta: Float[Array, " z"]) -> Float[Array, " z"]:
        """G^(1/2) zeta = S (I + V diag(lambda) V')^(-1/2) zeta."""
        return self._times_scale(self._power(-0.5, zeta))

    def coordinates(self, z: Float[Array, " z"]) -> Float[Array, " z"]:
        """zeta = (I + V diag(lambda) V')^(1/2) S^-1 (z - m)."""
        require_shape(z, self.mean.shape, "a position, by this reference,")
        return self._power(0.5, self._over_scale(z - self.mean))

    def tempered(self, t: Any) -> Reference:
        r"""The reference for the posterior whose likelihood is raised to the power t.

        It is exact if the likelihood is Gaussian and there is no scale, or nothing but a scale; any
        reference is allowed, and this one leads from the prior's to the posterior's. The precision
        is I + t V diag(lambda) V'; the mean is multiplied along v_i by t (1 + lambda_i) / (1 + t
        lambda_i), and by t in directions of which the data say next to nothing. A scale s becomes
        s_t = (1 + t (s^-2 - 1))^(-1/2), and the mean is multiplied by (s_t / s)^2 first.
        """
        mean, scale = self.mean, None
        if self.scale is not None:
            scale = (1 + t * (self.scale**-2 - 1)) ** -0.5
            mean = (scale / self.scale) ** 2 * mean
        along = self.vectors.T @ mean
        factors = t * (1 + self.eigenvalues) / (1 + t * self.eigenvalues)
        mean = t * mean + self.vectors @ ((factors - t) * along)
        return Reference(mean, self.vectors, t * self.eigenvalues, scale)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " z"]:
        """A draw of N(m, G)."""
        return self.position(standard_normal(key, self.mean))

    def phi(self, z: Float[Array, " z"]) -> Float[Array, ""]:
        """The log-density of the prior with respect to the reference, up to a constant."""
        along = self.vectors.T @ self._over_scale(z - self.mean)
        phi = -jnp.vdot(self.mean, z) + 0.5 * jnp.sum(self.eigenvalues * along**2)
        if self.scale is None:
            return phi
        return phi + 0.5 * jnp.sum(self.stiffness * (z - self.mean) ** 2)

    def phi_gradient(self, z: Float[Array, " z"]) -> Float[Array, " z"]:
        """-m + (S^-2 - I) (z - m) + S^-1 V diag(lambda) V' u."""
        along = self.vectors.T @ self._over_scale(z - self.mean)
        gradient = self._over_scale(self.vectors @ (self.eigenvalues * along)) - self.mean
        return gradient if self.scale is None else gradient + self.stiffness * (z - self.mean)

    @property
    def stiffness(self) -> Array:
        """s^-2 - 1, by a product that keeps its digits where s is near one."""
        assert self.scale is not None
        return (1 - self.scale) * (1 + self.scale) / self.scale**2

    def _times_scale(self, vector: Array) -> Array:
        return vector if self.scale is None else self.scale * vector

    def _over_scale(self, vector: Array) -> Array:
        return vector if self.scale is None else vector / self.scale

    def _power(self, power: float, vector: Array) -> Array:
        """(I + V diag(lambda) V')^power applied to a vector."""
        change = (1 + self.eigenvalues) ** power - 1
        return vector + self.vectors @ (change * (self.vectors.T @ vector))

    def entered(self, state: Any) -> Any:
        """A state of the kernel's own, expressed in the coordinates zeta."""
        z, log_likelihood = state.position, state.log_likelihood + self.phi(state.position)
        if isinstance(state, GradientState):
            gradient = self._times_scale(state.gradient + self.phi_gradient(z))
            gradient = self._power(-0.5, gradient)
            return GradientState(self.coordinates(z), log_likelihood, gradient)
        return State(self.coordinates(z), log_likelihood)

    def left(self, state: Any) -> Any:
        """A state in the coordinates zeta, expressed as the kernel's own; undoes `entered`."""
        z = self.position(state.position)
        log_likelihood = state.log_likelihood - self.phi(z)
        if isinstance(state, GradientState):
            gradient = self._over_scale(self._power(0.5, state.gradient)) - self.phi_gradient(z)
            return GradientState(z, log_likelihood, gradient)
        return State(z, log_likelihood)


class _InCoordinates:
    """A posterior as a kernel sees it in the coordinates zeta of a reference."""

    def __init__(self, posterior: Target, reference: Reference):
        self.posterior, self.reference = posterior, reference

    def log_likelihood(self, z: Float[Array, " z"]) -> Float[Array, ""]:
        """l + phi; the argument, named as kernels name it, is zeta."""
        position = self.reference.position(z)
        return self.posterior.log_likelihood(position) + self.reference.phi(position)

    def log_likelihood_and_gradient(self, z: Float[Array, " z"]) -> tuple[Array, Array]:
        """l + phi and its gradient in zeta."""
        position = self.reference.position(z)
        here = GradientState(position, *self.posterior.log_likelihood_and_gradient(position))
        entered = self.reference.entered(here)
        return entered.log_likelihood, entered.gradient


def with_reference(build: Callable[[Target], Any], posterior: Target, reference: Reference) -> Any:
    """The algorithm `build(posterior)`, moving by the reference; its states are as without one."""
    algorithm = build(_InCoordinates(posterior, reference))

    def init(position: Array, rng_key: Any = None) -> Any:
        inner = algorithm.init(reference.coordinates(position), rng_key)
        return reference.left(inner)._replace(position=position)

    def step(rng_key: Key[Array, ""], state: Any) -> tuple[Any, Any]:
        moved, info = algorithm.step(rng_key, reference.entered(state))
        is_accepted = metropolis_info(info).is_accepted
        # Going to zeta and back changes the last digit, so a rejected step keeps the state it had.
        chosen = jax.tree.map(
            lambda new, old: jnp.where(is_accepted, new, old), reference.left(moved), state
        )
        return chosen, info

    return sampling_algorithm(init, step)
