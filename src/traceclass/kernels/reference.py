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
    r"""N(m, G) in whitened coordinates, G^-1 = I + V diag(lambda) V' of low rank.

    `mean` is m, `vectors` V with orthonormal columns, `eigenvalues` lambda > -1. It differs from
    the prior N(0, I) in finitely many directions, so the two have densities with respect to each
    other however fine the function is, and a kernel that keeps the prior has a twin that keeps N(m,
    G). With z = m + G^(1/2) zeta the posterior is

        exp(l(z) + phi(z)) with respect to N(0, I) of zeta,
        phi(z) = -<m, z> + (1/2) sum_i lambda_i <v_i, z - m>^2  (+ a constant),

    so the twin is the kernel itself, in the coordinates zeta and with l + phi in the place of l. If
    N(m, G) is near the posterior, l + phi is nearly constant and steps are long. `tc.laplace`
    makes one. References: Cui, Law & Marzouk 2016; Beskos et al. 2017; Rudolf & Sprungk 2018.
    """

    mean: Float[Array, " z"]
    vectors: Float[Array, "z rank"]
    eigenvalues: Float[Array, " rank"]

    def __check_init__(self):
        d = np.size(self.mean)
        rank = np.size(self.eigenvalues)
        require_shape(self.mean, (d,), "mean")
        require_shape(self.eigenvalues, (rank,), "eigenvalues")
        require_shape(self.vectors, (d, rank), "vectors")
        if any(isinstance(part, Tracer) for part in (self.mean, self.vectors, self.eigenvalues)):
            return
        require_finite(self.mean, "mean")
        vectors = np.asarray(require_finite(self.vectors, "vectors"), dtype=np.float64)
        smallest = float(np.min(np.asarray(require_finite(self.eigenvalues, "eigenvalues"))))
        if smallest <= -1:
            raise UserValueError(
                f"eigenvalues must be above -1, got {smallest}: the precision 1 + eigenvalue would "
                "not be positive."
            )
        off = float(np.abs(vectors.T @ vectors - np.eye(rank)).max())
        if off > _ORTHONORMAL:
            raise UserValueError(
                f"vectors must be orthonormal columns, but their products are off by {off:.2g}. "
                "Use the Q of a QR decomposition."
            )

    def position(self, zeta: Float[Array, " z"]) -> Float[Array, " z"]:
        """z = m + G^(1/2) zeta."""
        return self.mean + self._power(-0.5, zeta)

    def coordinates(self, z: Float[Array, " z"]) -> Float[Array, " z"]:
        """zeta = G^(-1/2) (z - m)."""
        require_shape(z, self.mean.shape, "a position, by this reference,")
        return self._power(0.5, z - self.mean)

    def tempered(self, t: Any) -> Reference:
        r"""The reference for the posterior whose likelihood is raised to the power t.

        It is exact if the likelihood is Gaussian. Its precision is I + t V diag(lambda) V'; the
        mean is multiplied along v_i by t (1 + lambda_i) / (1 + t lambda_i), and by t in directions
        of which the data say next to nothing.
        """
        along = self.vectors.T @ self.mean
        factors = t * (1 + self.eigenvalues) / (1 + t * self.eigenvalues)
        mean = t * self.mean + self.vectors @ ((factors - t) * along)
        return Reference(mean, self.vectors, t * self.eigenvalues)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " z"]:
        """A draw of N(m, G)."""
        return self.position(standard_normal(key, self.mean))

    def phi(self, z: Float[Array, " z"]) -> Float[Array, ""]:
        """The log-density of the prior with respect to the reference, up to a constant."""
        along = self.vectors.T @ (z - self.mean)
        return -jnp.vdot(self.mean, z) + 0.5 * jnp.sum(self.eigenvalues * along**2)

    def phi_gradient(self, z: Float[Array, " z"]) -> Float[Array, " z"]:
        """-m + V diag(lambda) V' (z - m)."""
        return self.vectors @ (self.eigenvalues * (self.vectors.T @ (z - self.mean))) - self.mean

    def _power(self, power: float, vector: Array) -> Array:
        """(I + V diag(lambda) V')^power applied to a vector."""
        change = (1 + self.eigenvalues) ** power - 1
        return vector + self.vectors @ (change * (self.vectors.T @ vector))

    def entered(self, state: Any) -> Any:
        """A state of the kernel's own, expressed in the coordinates zeta."""
        z, log_likelihood = state.position, state.log_likelihood + self.phi(state.position)
        if isinstance(state, GradientState):
            gradient = self._power(-0.5, state.gradient + self.phi_gradient(z))
            return GradientState(self.coordinates(z), log_likelihood, gradient)
        return State(self.coordinates(z), log_likelihood)

    def left(self, state: Any) -> Any:
        """A state in the coordinates zeta, expressed as the kernel's own; undoes `entered`."""
        z = self.position(state.position)
        log_likelihood = state.log_likelihood - self.phi(z)
        if isinstance(state, GradientState):
            gradient = self._power(0.5, state.gradient) - self.phi_gradient(z)
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
