"""Hydraulic heads observed with Gaussian noise: what they say about the log-permeability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.arrays import as_floats, as_numbers
from traceclass.errors import UserValueError
from traceclass.likelihoods.darcy import PAPER_BOUNDARY, DarcyFlow, FlowBoundary
from traceclass.likelihoods.regression import gaussian_log_prob, gaussian_log_prob_each
from traceclass.module import Module
from traceclass.validation import require_finite, require_positive


class GroundwaterFlow(Module):
    r"""y_t = p(x_t) + e_t with e_t ~ N(0, noise^2), p the head of flow through exp(u).

        -div(exp(u) grad p) = f

    The function is the log-permeability u, read at the nodes of a grid of `cells`. Heads are
    observed at `nodes` (n, 2) of that grid, pairs of whole numbers counted from 0 along x1 and x2,
    or else at `points` (n, 2) anywhere in the domain, where they are interpolated; points with
    fractions may stand in the place of `nodes` too. Boundary, source and domain are those of
    `DarcyFlow`; by default the paper's.

    >>> import jax.numpy as jnp, traceclass as tc
    >>> flow = tc.GroundwaterFlow([0.5, 0.4], [[2, 2], [1, 3]], noise=0.01, cells=4)
    >>> print(*(f"{p:.2f}" for p in flow.predict(jnp.zeros(len(flow.points)))))
    0.50 0.61
    """

    flow: DarcyFlow
    observations: Float[Array, " heads"]
    noise: float = eqx.field(static=True)
    where: Float[Array, "heads 2"]
    _at_observations: Callable[[Array], Array]

    def __init__(
        self,
        heads: Any,
        nodes: Any = None,
        *,
        points: Any = None,
        noise: float,
        cells: int | Sequence[int],
        boundary: FlowBoundary = PAPER_BOUNDARY,
        source: float | Callable[[Array], Array] = 0.0,
        low: Sequence[float] = (0.0, 0.0),
        high: Sequence[float] = (1.0, 1.0),
    ):
        self.flow = DarcyFlow(cells=cells, boundary=boundary, source=source, low=low, high=high)
        where = _observed_at(self.flow, nodes, points)
        observations = as_floats(heads, "heads")
        if observations.shape != (len(where),):
            raise UserValueError(
                f"heads must hold one number for each of the {len(where)} places of observation, "
                f"got shape {observations.shape}."
            )
        self.observations = require_finite(observations, "heads")
        self.noise = require_positive(noise, "noise", "It is the standard deviation of a head.")
        self._at_observations = self.flow.interpolation(where)
        self.where = jnp.asarray(where, dtype=float)

    @property
    def points(self) -> Float[Array, "nodes 2"]:
        """The nodes of the grid, where the log-permeability is read."""
        return self.flow.nodes

    def predict(self, values: Float[Array, " nodes"]) -> Float[Array, " heads"]:
        """The heads without noise."""
        return self._at_observations(self.flow.head(values))

    def residuals(
        self, values: Float[Array, " nodes"], *, noise: Any = None
    ) -> Float[Array, " heads"]:
        """(y - p(x)) / noise."""
        difference = self.observations - self.predict(values)
        return difference / (self.noise if noise is None else noise)

    def log_prob(self, values: Float[Array, " nodes"], *, noise: Any = None) -> Float[Array, ""]:
        """log p(y | u), at another noise level if one is given."""
        noise = self.noise if noise is None else noise
        return gaussian_log_prob(self.residuals(values, noise=noise), noise)

    def log_prob_each(
        self, values: Float[Array, " nodes"], *, noise: Any = None
    ) -> Float[Array, " heads"]:
        """The log-probability of each head."""
        noise = self.noise if noise is None else noise
        return gaussian_log_prob_each(self.residuals(values, noise=noise), noise)


def _observed_at(flow: DarcyFlow, nodes: Any, points: Any) -> np.ndarray:
    """Places of observation (n, 2), from nodes or from points."""
    if (nodes is None) == (points is None):
        raise UserValueError("heads are observed at nodes or at points: give one of the two.")
    if points is not None:
        return flow.checked_points(points)
    array = as_numbers(nodes, "nodes")
    if np.issubdtype(array.dtype, np.integer):
        return _places_of_nodes(flow, array)
    array = flow.checked_points(array)
    if (array == np.round(array)).all():
        raise UserValueError(
            "whole numbers that are no integers may mean nodes or points: pass nodes as integers, "
            "or points=."
        )
    return array


def _places_of_nodes(flow: DarcyFlow, nodes: np.ndarray) -> np.ndarray:
    """Coordinates of nodes (i, j), in double precision."""
    nx, ny = flow.shape
    if nodes.ndim != 2 or nodes.shape[1] != 2 or not len(nodes):
        raise UserValueError(f"nodes must be pairs (i, j), shape (n, 2), got {nodes.shape}.")
    outside = ((nodes < 0) | (nodes >= (nx, ny))).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        raise UserValueError(
            f"node {row}, {tuple(nodes[row].tolist())}, lies outside the domain: nodes are counted "
            f"from (0, 0) to ({nx - 1}, {ny - 1}) on {nx - 1} x {ny - 1} cells."
        )
    x, y = flow.axes()
    return np.stack([x[nodes[:, 0]], y[nodes[:, 1]]], axis=1)
