r"""A series prior in the coordinates that fixed points can see: exact, and as few as the points.

Values of a series at n points are linear, v = B z with B (n, N). With B^T = Q R, Q having n
orthonormal columns,

    z = Q y + (I - Q Q^T) w,     y ~ N(0, I_n),   w ~ N(0, I_N) independent,

is N(0, I_N) again, and v = R^T y depends on y alone. So a likelihood that sees the points only is
sampled over y, and the rest of z is drawn from the prior afterwards (`lift`): the posterior of z,
without approximation, for n instead of N coordinates.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key
from threadpoolctl import threadpool_limits

from traceclass.errors import UserTypeError
from traceclass.priors.base import Prior
from traceclass.priors.fourier import AnovaAtPoints, FourierSeries
from traceclass.priors.inputs import Inputs
from traceclass.priors.series import BasisAtPoints, CosineSeries, Series
from traceclass.validation import require_memory, require_shape

# Columns of a matrix computed together, where it is not written out.
_AT_A_TIME = 16


class Reduced(Prior):
    r"""`prior`, a series, in the coordinates y = Q^T z that `points` (n, d) see.

    Use it in a posterior whose likelihood has these points. Away from them, `evaluate(y, x)` is
    the mean of v(x) given y, without the part that the points do not see: `lift` adds it.

    >>> import jax, numpy as np, traceclass as tc
    >>> prior = tc.FourierSeries(num_inputs=2, max_frequency=70, alpha=2.0)
    >>> points = np.random.default_rng(0).uniform(size=(150, 2))
    >>> reduced = tc.Reduced(prior, points)
    >>> prior.num_coordinates, reduced.num_coordinates
    (19880, 150)
    """

    on_unit_cube: ClassVar[bool] = True

    prior: Prior
    basis: Float[Array, "z y"]
    num_inputs: int = eqx.field(static=True)
    inputs: Inputs | None

    def __init__(self, prior: Prior, points: ArrayLike):
        if not isinstance(prior, FourierSeries | CosineSeries | Series):
            raise UserTypeError(
                f"Reduced needs a prior whose functions are linear in z, got "
                f"{type(prior).__name__}. Use FourierSeries, CosineSeries or Series."
            )
        self.prior, self.num_inputs, self.inputs = prior, prior.num_inputs, prior.inputs
        # On the host: a factorisation of this size is no work for a compiled program.
        points = prior.checked_points(points)
        require_memory(len(points) * prior.num_coordinates, f"Reduced to {len(points)} points")
        # On one thread: with more, the digits of y, and so all draws, depend on their number.
        with threadpool_limits(1):
            factors = scipy.linalg.qr(np.asarray(_matrix(prior, points)).T, mode="economic")
        self.basis = jnp.asarray(factors[0], dtype=float)

    @property
    def floats_per_value(self) -> int:
        return self.prior.num_coordinates + self.num_coordinates

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        return ((self.basis.shape[1],),)

    def settings(self) -> tuple[object, ...]:
        return (self.prior.settings(), hashlib.sha256(np.asarray(self.basis).tobytes()).hexdigest())

    def at(self, points: ArrayLike) -> BasisAtPoints:
        """y -> B(points) Q y; the matrix is computed once, here."""
        return BasisAtPoints(_matrix(self.prior, points) @ self.basis)

    def lift(
        self, key: Key[Array, ""], y: Float[Array, "*functions y"]
    ) -> Float[Array, "*functions z"]:
        """Positions z of `prior` given y: Q y + (I - Q Q^T) w with w from the prior."""
        require_shape(y, (*jnp.shape(y)[:-1], self.num_coordinates), "positions")
        w = self.prior.sample(key, jnp.shape(y)[:-1])
        return w + (y - w @ self.basis) @ self.basis.T


def _matrix(prior: Prior, points: ArrayLike) -> Float[Array, "points z"]:
    """B of v = B z."""
    values_of = prior.at(points)
    if isinstance(values_of, AnovaAtPoints):
        return values_of.matrix()
    if isinstance(values_of, BasisAtPoints) and values_of.deviation is None:
        return values_of.basis
    columns = jnp.eye(prior.num_coordinates)
    return jax.lax.map(values_of, columns, batch_size=_AT_A_TIME).T
