"""The Fourier series prior of the paper, with interactions of order one, two, or all."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import zeta

from traceclass.errors import UserValueError
from traceclass.module import Module
from traceclass.priors.base import ITS_OWN, Hyperparameters, Prior
from traceclass.priors.inputs import Inputs
from traceclass.priors.product import ProductAtPoints
from traceclass.priors.series import dirichlet_beta, times_deviation, unit_cube
from traceclass.validation import require_count, require_memory, require_number

FULL = "full"


class AnovaAtPoints(Module):
    r"""v(x) = sum_i u_i(x_i) + sum_{i<j} u_ij(x_i, x_j) at scattered points.

    `factors` (n, d K) holds the K one-dimensional functions of each input side by side. The pair
    part of input i with all later ones is one product, (n, K) x (K, (d-1-i) K), multiplied row by
    row with the later inputs' factors: the basis of all pairs (n, d (d-1)/2 K^2) is never formed.
    """

    factors: Float[Array, "points d_K"]
    single: Float[Array, " K"]
    pair: Float[Array, "K K"] | None
    num_inputs: int = eqx.field(static=True)

    # Products alone, which no compiler rounds otherwise: compiled, it is one program instead of
    # five per input.
    @jax.jit
    def matrix(self) -> Float[Array, "points z"]:
        """B of v = B z, written out."""
        d, k = self.num_inputs, self.single.size
        waves = self.factors.reshape(-1, d, k)
        blocks = [(waves * self.single).reshape(-1, d * k)]
        if self.pair is not None:
            for i in range(d - 1):
                products = waves[:, i, None, :, None] * waves[:, i + 1 :, None, :] * self.pair
                blocks.append(products.reshape(len(waves), -1))
        return jnp.concatenate(blocks, axis=1)

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        d, k = self.num_inputs, self.single.size
        values = self.factors @ (z[: d * k].reshape(d, k) * self.single).ravel()
        if self.pair is None:
            return values
        start = d * k
        for i in range(d - 1):
            later = d - 1 - i
            coefficients = z[start : start + later * k * k].reshape(later, k, k) * self.pair
            start += later * k * k
            side_by_side = jnp.swapaxes(coefficients, 0, 1).reshape(k, later * k)
            partial = self.factors[:, i * k : (i + 1) * k] @ side_by_side
            values += jnp.sum(partial * self.factors[:, (i + 1) * k :], axis=1)
        return values


class FourierSeries(Prior):
    r"""The Fourier prior on [0, 1]^d (eq. vf_approx, eq:fourier_basis, eq:fourier_eigenvalues).

        v(x) = sum_i u_i(x_i) + sum_{i<j} u_ij(x_i, x_j)

    where u_i is a random series in sin(2 pi k x), cos(2 pi k x) with variances k^-alpha and u_ij
    in their products with variances (k1^2 + k2^2)^(-alpha/2), for frequencies 1 ... max_frequency.
    `interaction` is 1 (no pairs), 2 (the default), or "full": products over all d inputs only,
    (2 max_frequency)^d of them, with variances |k|^-alpha.

    With `inputs=scale_to_box(low, high)` the box takes the place of the unit cube: one period
    fills it. The pair terms are trace-class for alpha > 2 only; the paper's alpha = 2 is the
    border, where the trace grows with the logarithm of max_frequency (`total_variance` is
    infinite). There is no constant term: the likelihoods of the paper do not see one.

    >>> import traceclass as tc
    >>> tc.FourierSeries(num_inputs=2, max_frequency=70, alpha=2.0).num_coordinates
    19880
    >>> tc.FourierSeries(num_inputs=17, max_frequency=10, alpha=2.0).num_coordinates
    54740
    """

    on_unit_cube: ClassVar[bool] = True
    hyperparameter_names: ClassVar[tuple[str, ...]] = ("alpha", "variance")

    num_inputs: int = eqx.field(static=True)
    max_frequency: int = eqx.field(static=True)
    alpha: float = eqx.field(static=True)
    interaction: int | str = eqx.field(static=True)
    inputs: Inputs | None

    def __init__(
        self,
        *,
        num_inputs: int,
        max_frequency: int,
        alpha: float = 2.0,
        interaction: int | str = 2,
        inputs: Inputs | None = None,
    ):
        self.num_inputs = require_count(num_inputs, "num_inputs", "A function needs an argument.")
        self.max_frequency = require_count(
            max_frequency, "max_frequency", "A series needs at least its first frequency."
        )
        alpha = require_number(alpha, "alpha")
        if not (math.isfinite(alpha) and alpha > 1):
            raise UserValueError(
                f"FourierSeries needs alpha > 1, got {alpha}. At or below 1 the variances k^-alpha "
                "are not summable, so the prior is not trace-class. Use e.g. alpha=2."
            )
        self.alpha = float(alpha)
        if interaction not in (1, 2, FULL):
            raise UserValueError(f'interaction must be 1, 2 or "full", got {interaction!r}.')
        if isinstance(interaction, int) and interaction > self.num_inputs:
            raise UserValueError(
                f"interaction={interaction} needs at least {interaction} inputs, got num_inputs="
                f"{num_inputs}: there are no pairs of inputs. Use interaction=1."
            )
        self.interaction = interaction
        self.inputs = inputs
        require_memory(
            self.num_coordinates,
            f"FourierSeries with num_inputs={num_inputs}, max_frequency={max_frequency}, "
            f"interaction={interaction!r}",
        )

    @property
    def num_functions(self) -> int:
        """One-dimensional functions of an input: a sine and a cosine for each frequency."""
        return 2 * self.max_frequency

    @property
    def floats_per_value(self) -> int:
        if self.interaction == FULL:
            return 2 * self.num_functions ** max(1, self.num_inputs - 1)
        return 3 * self.num_inputs * self.num_functions

    @property
    def num_coordinates(self) -> int:
        # Said without listing the blocks, which may be refused for their number.
        k, d = self.num_functions, self.num_inputs
        if self.interaction == FULL:
            return k**d
        return d * k + (math.comb(d, 2) * k**2 if self.interaction == 2 else 0)

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """(K,) for each input, then (K, K) for each pair i < j; sine before cosine."""
        k, d = self.num_functions, self.num_inputs
        if self.interaction == FULL:
            return ((k,) * d,)
        pairs = math.comb(d, 2) if self.interaction == 2 else 0
        return ((k,),) * d + ((k, k),) * pairs

    def settings(self) -> tuple[object, ...]:
        return (self.num_inputs, self.alpha, self.interaction, self.inputs)

    def refine(self, *, max_frequency: int) -> FourierSeries:
        """The same prior with more frequencies."""
        if max_frequency < self.max_frequency:
            raise UserValueError(
                f"refine needs max_frequency >= {self.max_frequency}, got {max_frequency}. A prior "
                "is refined by adding frequencies; use restrict to take them away."
            )
        return FourierSeries(
            num_inputs=self.num_inputs,
            max_frequency=max_frequency,
            alpha=self.alpha,
            interaction=self.interaction,
            inputs=self.inputs,
        )

    def parameters(
        self, z: Float[Array, " z"], hyperparameters: Hyperparameters = ITS_OWN
    ) -> list[Array]:
        """The coefficients xi, block by block (see `blocks`)."""
        return [
            piece * jnp.asarray(self._deviations(piece.ndim, hyperparameters), dtype=float)
            for piece in self.split(z)
        ]

    def from_parameters(self, theta: Any) -> Float[Array, " z"]:
        """The position of coefficients xi, block by block."""
        shapes = tuple(np.shape(piece) for piece in theta)
        if shapes != self.blocks():
            raise UserValueError(f"theta must have blocks of shapes {self.blocks()}, got {shapes}.")
        return jnp.concatenate(
            [jnp.ravel(piece / self._deviations(np.ndim(piece))) for piece in theta]
        )

    def at(self, points: ArrayLike) -> AnovaAtPoints | ProductAtPoints:
        """z -> values at `points`; sines and cosines are computed once, here."""
        unit = unit_cube(self.inputs, self.checked_points(points))
        factors = [self._waves(unit[:, i]) for i in range(self.num_inputs)]
        if self.interaction == FULL:
            return ProductAtPoints(tuple(factors), jnp.asarray(self._deviations(self.num_inputs)))
        pair = jnp.asarray(self._deviations(2), dtype=float) if self.interaction == 2 else None
        single = jnp.asarray(self._deviations(1), dtype=float)
        return AnovaAtPoints(jnp.concatenate(factors, axis=1), single, pair, self.num_inputs)

    def rescaled(
        self, values_of: AnovaAtPoints | ProductAtPoints, hyperparameters: Hyperparameters
    ) -> AnovaAtPoints | ProductAtPoints:
        """`values_of` at these hyperparameters; `variance` multiplies every variance."""
        if isinstance(values_of, ProductAtPoints):
            full = self._deviations(self.num_inputs, hyperparameters)
            return eqx.tree_at(lambda at: at.scale, values_of, full)
        orders = (1,) if values_of.pair is None else (1, 2)
        return eqx.tree_at(
            lambda at: [at.single, at.pair][: len(orders)],
            values_of,
            [jnp.asarray(self._deviations(k, hyperparameters), dtype=float) for k in orders],
        )

    def total_variance(self) -> float:
        """The trace of C with all frequencies; infinite if it does not converge."""
        return sum(
            count * 2**order * _lattice_sum(order, self.alpha)
            for order, count in self._orders().items()
        )

    def tail_variance(self, max_frequency: int) -> float:
        """The part of the trace beyond `max_frequency`."""
        max_frequency = require_count(max_frequency, "max_frequency", "None is 0.", 0)
        kept = sum(
            count * 2**order * _lattice_sum(order, self.alpha, max_frequency)
            for order, count in self._orders().items()
        )
        return self.total_variance() - kept

    def _orders(self) -> dict[int, int]:
        """How many terms there are of each order of interaction."""
        if self.interaction == FULL:
            return {self.num_inputs: 1}
        singles = {1: self.num_inputs}
        return singles | ({2: math.comb(self.num_inputs, 2)} if self.interaction == 2 else {})

    def _deviations(self, order: int, hyperparameters: Hyperparameters = ITS_OWN) -> Any:
        """Standard deviations |k|^(-alpha/2) of a term of that order, sine and cosine alike."""
        k = np.repeat(np.arange(1, self.max_frequency + 1, dtype=np.float64), 2)
        squares = sum(np.ix_(*[k**2] * order))
        decay = np.asarray(squares) ** (-hyperparameters.get("alpha", self.alpha) / 4)
        return times_deviation(decay, hyperparameters)

    def _waves(self, x: Float[Array, " n"]) -> Float[Array, "n K"]:
        angle = 2 * jnp.pi * jnp.arange(1, self.max_frequency + 1) * x[:, None]
        return jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(len(x), -1)


def _lattice_sum(order: int, alpha: float, largest: int | None = None) -> float:
    r"""sum over k in {1, 2, ...}^order of |k|^-alpha, or over k in {1 ... largest}^order.

    In one dimension zeta(alpha); in two, with s = alpha/2, zeta(s) beta(s) - zeta(2 s) (the sum
    over all nonzero pairs is 4 zeta(s) beta(s), of which the axes hold 4 zeta(2 s)). Converges for
    alpha > order.
    """
    if largest is not None:
        squares = sum(np.ix_(*[np.arange(1, largest + 1, dtype=np.float64) ** 2] * order))
        return float(np.sum(squares ** (-alpha / 2)))
    if alpha <= order:
        return math.inf
    if order == 1:
        return float(zeta(alpha))
    if order == 2:
        s = alpha / 2
        return float(zeta(s)) * dirichlet_beta(s) - float(zeta(2 * s))
    raise UserValueError(
        f"no closed form is known for the trace of a full tensor product in {order} dimensions."
    )
