"""Karhunen-Loeve priors in a basis of the user's, and in cosines on the unit square."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import zeta

from traceclass.arrays import as_doubles
from traceclass.errors import UserValueError
from traceclass.module import Module
from traceclass.priors.base import ITS_OWN, Hyperparameters, Prior
from traceclass.priors.inputs import Inputs, ScaleToBox
from traceclass.priors.product import ProductAtPoints, ProductOnGrid, grid_sides
from traceclass.validation import (
    require_callable,
    require_count,
    require_finite,
    require_memory,
    require_positive,
    shape_of,
)

Basis = Callable[[Array], Array]


class BasisAtPoints(Module):
    """z -> basis @ z for a basis matrix that already holds the standard deviations.

    `deviation`, if given, multiplies the values: not the basis, of which a batch of chains with a
    deviation each would need a copy each.
    """

    basis: Float[Array, "points z"]
    deviation: Float[Array, ""] | None = None

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        values = self.basis @ z
        return values if self.deviation is None else self.deviation * values


class Series(Prior):
    r"""A Karhunen-Loeve prior in any basis (eq. KL).

        v(x) = sum_k xi_k phi_k(x),   xi_k ~ N(0, lambda_k^2)

    `basis` maps points (n, d) to the values (n, K) of phi_1 ... phi_K, in JAX; `eigenvalues` (K,)
    are the variances lambda_k^2.

    >>> import jax, jax.numpy as jnp, traceclass as tc
    >>> k = jnp.arange(1, 6)
    >>> sines = tc.Series(lambda x: jnp.sin(jnp.pi * k * x), 1.0 / k**2, num_inputs=1)
    >>> sines.num_coordinates
    5
    """

    hyperparameter_names: ClassVar[tuple[str, ...]] = ("variance",)

    basis: Basis
    eigenvalues: tuple[float, ...] = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    inputs: Inputs | None

    def __init__(
        self,
        basis: Basis,
        eigenvalues: ArrayLike,
        *,
        num_inputs: int,
        inputs: Inputs | None = None,
    ):
        variances = as_doubles(eigenvalues, "eigenvalues")
        if variances.ndim != 1 or variances.size == 0:
            raise UserValueError(
                f"eigenvalues must list one variance a basis function, got shape {variances.shape}."
            )
        require_finite(variances, "eigenvalues")
        if (variances <= 0).any():
            k = int(np.argmax(variances <= 0))
            raise UserValueError(
                f"eigenvalues must be positive, got {variances[k]} at index {k}. Leave out basis "
                "functions that have no variance."
            )
        self.num_inputs = require_count(num_inputs, "num_inputs", "A function needs an argument.")
        self.inputs = inputs
        self.basis = basis
        self.eigenvalues = tuple(variances.tolist())
        self._check_basis()

    def _check_basis(self) -> None:
        require_callable(self.basis, "basis", "points (n, d)")
        probe = jax.ShapeDtypeStruct((3, self.num_inputs), jnp.zeros(()).dtype)
        shape = shape_of(lambda x: self.basis(_inputs(self.inputs, x)), probe, name="basis").shape
        if shape != (3, len(self.eigenvalues)):
            raise UserValueError(
                f"basis must map points (n, {self.num_inputs}) to (n, {len(self.eigenvalues)}), "
                f"one column an eigenvalue; it maps (3, {self.num_inputs}) to {shape}."
            )

    @property
    def floats_per_value(self) -> int:
        return len(self.eigenvalues)

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        return ((len(self.eigenvalues),),)

    def settings(self) -> tuple[object, ...]:
        return (self.num_inputs, self.inputs)

    def _is_refined_by(self, finer: Prior) -> bool:
        num = len(self.eigenvalues)
        same_start = isinstance(finer, Series) and finer.eigenvalues[:num] == self.eigenvalues
        return same_start and super()._is_refined_by(finer)

    def refine(self, *, basis: Basis, eigenvalues: ArrayLike) -> Series:
        """A longer series; its first basis functions and eigenvalues must be the present ones."""
        longer = Series(basis, eigenvalues, num_inputs=self.num_inputs, inputs=self.inputs)
        if not self._is_refined_by(longer):
            raise UserValueError(
                f"refine needs the present {len(self.eigenvalues)} eigenvalues first and more "
                f"after them, got {len(longer.eigenvalues)} that begin otherwise or are fewer."
            )
        return longer

    def parameters(
        self, z: Float[Array, " z"], hyperparameters: Hyperparameters = ITS_OWN
    ) -> Float[Array, " z"]:
        """The coefficients xi = lambda z."""
        return times_deviation(z * jnp.sqrt(jnp.asarray(self.eigenvalues)), hyperparameters)

    def from_parameters(self, theta: ArrayLike) -> Float[Array, " z"]:
        """The position of coefficients xi."""
        return jnp.asarray(theta, dtype=float) / jnp.sqrt(jnp.asarray(self.eigenvalues))

    def at(self, points: ArrayLike) -> BasisAtPoints:
        """z -> values at `points`; the basis matrix (n, K) is computed once, here."""
        basis = self.basis(_inputs(self.inputs, self.checked_points(points)))
        return BasisAtPoints(basis * jnp.sqrt(jnp.asarray(self.eigenvalues)))

    def rescaled(self, values_of: BasisAtPoints, hyperparameters: Hyperparameters) -> BasisAtPoints:
        """`values_of` at these hyperparameters; `variance` multiplies every eigenvalue."""
        return BasisAtPoints(values_of.basis, times_deviation(jnp.ones(()), hyperparameters))

    def total_variance(self) -> float:
        """The trace of C: the sum of the eigenvalues."""
        return math.fsum(self.eigenvalues)

    def tail_variance(self, num_terms: int) -> float:
        """The part of the trace beyond the first `num_terms` terms."""
        num_terms = require_count(num_terms, "num_terms", "No terms are 0.", 0)
        return math.fsum(self.eigenvalues[num_terms:])


class CosineSeries(Prior):
    r"""The groundwater prior on [0, 1]^2 (after Beskos et al. 2017).

        v(x) = sum_{i1, i2 <= m} xi_i 2 cos(pi (i1 - 1/2) x_1) cos(pi (i2 - 1/2) x_2),
        Var xi_i = lambda_i^2 = (pi^2 ((i1 - 1/2)^2 + (i2 - 1/2)^2))^(-exponent)

    m is `num_modes`. It is trace-class for exponent > 1. With `inputs=scale_to_box(low, high)` the
    box takes the place of the unit square. On points that form a grid a value costs two small
    matrix products; scattered points are summed one dimension after the other.
    """

    on_unit_cube: ClassVar[bool] = True
    hyperparameter_names: ClassVar[tuple[str, ...]] = ("exponent", "variance")

    num_modes: int = eqx.field(static=True)
    exponent: float = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    inputs: Inputs | None

    def __init__(self, *, num_modes: int, exponent: float = 1.1, inputs: Inputs | None = None):
        self.num_modes = require_count(num_modes, "num_modes", "A series needs terms.")
        require_memory(self.num_modes**2, f"CosineSeries with num_modes={num_modes}")
        self.exponent = require_positive(exponent, "exponent", "It makes the variances fall.")
        if self.exponent <= 1:
            raise UserValueError(
                f"CosineSeries needs exponent > 1, got {exponent}. At or below 1 the variances are "
                "not summable in two dimensions, so the prior is not trace-class. Use e.g. 1.1."
            )
        self.num_inputs = 2
        self.inputs = inputs

    @property
    def floats_per_value(self) -> int:
        return 3 * self.num_modes

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        return ((self.num_modes, self.num_modes),)

    def settings(self) -> tuple[object, ...]:
        return (self.exponent, self.inputs)

    def refine(self, *, num_modes: int) -> CosineSeries:
        """The same prior with more modes per side."""
        if num_modes < self.num_modes:
            raise UserValueError(
                f"refine needs num_modes >= {self.num_modes}, got {num_modes}. A prior is refined "
                "by adding modes; use restrict to take them away."
            )
        return CosineSeries(num_modes=num_modes, exponent=self.exponent, inputs=self.inputs)

    def parameters(
        self, z: Float[Array, " z"], hyperparameters: Hyperparameters = ITS_OWN
    ) -> Float[Array, "modes modes"]:
        """The coefficients xi_(i1, i2)."""
        return jnp.asarray(self._deviations(hyperparameters), dtype=float) * self.split(z)[0]

    def from_parameters(self, theta: ArrayLike) -> Float[Array, " z"]:
        """The position of coefficients xi (m, m)."""
        return (jnp.asarray(theta, dtype=float) / jnp.asarray(self._deviations())).ravel()

    def at(self, points: ArrayLike) -> ProductAtPoints | ProductOnGrid:
        """z -> values at `points`, by the structure the points have."""
        unit = unit_cube(self.inputs, self.checked_points(points))
        scale = jnp.asarray(self._deviations(), dtype=float)
        grid = grid_sides(unit)
        if grid is None:
            return ProductAtPoints((self._cosines(unit[:, 0]), self._cosines(unit[:, 1])), scale)
        x, y, by_row = grid
        return ProductOnGrid(
            self._cosines(jnp.asarray(x)), self._cosines(jnp.asarray(y)), scale, by_row
        )

    def rescaled(
        self, values_of: ProductAtPoints | ProductOnGrid, hyperparameters: Hyperparameters
    ) -> ProductAtPoints | ProductOnGrid:
        """`values_of` at these hyperparameters; `variance` multiplies every variance."""
        scale = jnp.asarray(self._deviations(hyperparameters), dtype=float)
        return eqx.tree_at(lambda at: at.scale, values_of, scale)

    def total_variance(self) -> float:
        r"""The trace of C: pi^(-2s) (2^s - 1) zeta(s) beta(s), s = exponent (beta: Dirichlet's).

        From r_2(2m) = r_2(m) for odd m: sums over half-integers are sums over odd numbers.
        """
        s = self.exponent
        return math.pi ** (-2 * s) * (2**s - 1) * float(zeta(s)) * dirichlet_beta(s)

    def tail_variance(self, num_modes: int) -> float:
        """The part of the trace beyond `num_modes` modes per side."""
        kept = CosineSeries(num_modes=num_modes, exponent=self.exponent) if num_modes else None
        return self.total_variance() - (float(np.sum(kept._deviations() ** 2)) if kept else 0.0)

    def _deviations(self, hyperparameters: Hyperparameters = ITS_OWN) -> Any:
        half = np.arange(1, self.num_modes + 1) - 0.5
        exponent = hyperparameters.get("exponent", self.exponent)
        decay = (math.pi**2 * (half[:, None] ** 2 + half**2)) ** (-exponent / 2)
        return times_deviation(decay, hyperparameters)

    def _cosines(self, x: Float[Array, " n"]) -> Float[Array, "n modes"]:
        half = jnp.arange(1, self.num_modes + 1) - 0.5
        return math.sqrt(2) * jnp.cos(jnp.pi * half * x[:, None])


def dirichlet_beta(s: float) -> float:
    r"""sum_n (-1)^n / (2n + 1)^s = 4^-s (zeta(s, 1/4) - zeta(s, 3/4)), for s > 1."""
    return float(4.0**-s * (zeta(s, 0.25) - zeta(s, 0.75)))


def times_deviation(scale: Any, hyperparameters: Hyperparameters) -> Any:
    """`scale` times sqrt(variance), if the hyperparameters hold a variance."""
    if "variance" not in hyperparameters:
        return scale
    return jnp.sqrt(hyperparameters["variance"]) * scale


def unit_cube(inputs: Inputs | None, points: Array) -> Array:
    """Points as a series reads them: on [0, 1]^d. A `ScaleToBox` maps its box there."""
    if isinstance(inputs, ScaleToBox):
        return inputs.to_unit_cube(points)
    return _inputs(inputs, points)


def _inputs(inputs: Inputs | None, points: Any) -> Any:
    return points if inputs is None else inputs(points)
