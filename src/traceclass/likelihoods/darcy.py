"""Steady flow through a porous medium on a rectangle: from log-permeability to hydraulic head."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from traceclass.arrays import as_doubles
from traceclass.errors import UserTypeError, UserValueError
from traceclass.likelihoods.conductances import Network, solve
from traceclass.module import Module
from traceclass.validation import require_count, require_finite, require_shape

# A number, a function of the coordinate along the side, or one number per node of the side.
SideValue = float | Callable[[Array], Array] | Sequence[float] | np.ndarray
# The axis that is constant on a side, and which end of it.
SIDES = {"left": (0, 0), "right": (0, -1), "bottom": (1, 0), "top": (1, -1)}
# Points may leave the rectangle by rounding: this share of a side.
_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class FlowBoundary:
    """What is known at the sides "left", "right" (x1 low, high), "bottom", "top" (x2 low, high).

    `head` gives the head p of a side (Dirichlet), `flux` the flow into the domain through it,
    exp(u) dp/dn with the outward normal n (Neumann); each a number, a function of the coordinate
    along the side, or one number per node. Through sides that are not named nothing flows. At a
    corner a given head counts; of two, that of the left or right side.

    >>> boundary = FlowBoundary(head={"left": 1.0, "right": 0.0})
    """

    head: Mapping[str, SideValue]
    flux: Mapping[str, SideValue] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for kind, sides in (("head", self.head), ("flux", self.flux)):
            if not isinstance(sides, Mapping):
                raise UserTypeError(
                    f'{kind} must say which side it is for, e.g. {kind}={{"left": 1.0}}; got '
                    f"{sides!r}."
                )
            for side in sides:
                if side not in SIDES:
                    raise UserValueError(
                        f"{kind} names the side {side!r}; a rectangle has left, right, bottom, top."
                    )
        for side in self.head:
            if side in self.flux:
                raise UserValueError(
                    f"the side {side!r} has both a head and a flux. One of them determines the "
                    "other; give one."
                )
        if not self.head:
            raise UserValueError(
                "no side has a head. With fluxes alone heads are known up to a constant only; give "
                'at least one side a head, e.g. head={"left": 0.0}.'
            )


# The paper's: p = x1 at x2 = 0, p = 1 - x1 at x2 = 1, no flow through the other two sides.
PAPER_BOUNDARY = FlowBoundary(head={"bottom": lambda x: x, "top": lambda x: 1 - x})


class DarcyFlow(Module):
    r"""The map u -> p of steady flow on a rectangle, u and p at the nodes of a grid.

        -div(exp(u) grad p) = f,   p = head or exp(u) dp/dn = flux on each side

    Finite volumes around the nodes: what leaves a node's volume through its faces is what comes
    in from f and from the sides. The flow from node i to its neighbour j is w_ij (p_i - p_j),

        w_ij = (length of the face / distance) 2 / (exp(-u_i) + exp(-u_j)),

    the harmonic mean, which is exact for layers whose bounds lie midway between nodes. Second order
    in the size of the cells, conservative to rounding, and a symmetric positive definite M-matrix
    for any finite u, solved directly (see `conductances`). `cells` is a number, or one a dimension;
    `low` and `high` are corners; `source` is f, a number or a function of points (n, 2).

    Permeabilities are taken relative to the largest, so u may be of any size; contrasts beyond
    exp(80) leave the range of single precision, and give NaN.
    """

    cells: tuple[int, int] = eqx.field(static=True)
    low: tuple[float, float] = eqx.field(static=True)
    high: tuple[float, float] = eqx.field(static=True)
    unknown: tuple[tuple[int, int], tuple[int, int]] = eqx.field(static=True)
    given: Float[Array, "nx ny"]
    inflow: Float[Array, "nx ny"] | None

    def __init__(
        self,
        *,
        cells: int | Sequence[int],
        boundary: FlowBoundary = PAPER_BOUNDARY,
        source: float | Callable[[Array], Array] = 0.0,
        low: Sequence[float] = (0.0, 0.0),
        high: Sequence[float] = (1.0, 1.0),
    ):
        self.cells = _checked_cells(cells)
        self.low, self.high = _checked_box(low, high)
        self._check_precision()
        self.unknown = tuple(  # pyright: ignore[reportAttributeAccessIssue]
            (int(first in boundary.head), self.cells[axis] + 1 - int(last in boundary.head))
            for axis, (first, last) in enumerate((("left", "right"), ("bottom", "top")))
        )
        given, inflow = self._given(boundary), self._inflow(boundary, source)
        self.given = jnp.asarray(given, dtype=float)
        self.inflow = jnp.asarray(inflow, dtype=float) if inflow.any() else None

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes along x1 and along x2."""
        return self.cells[0] + 1, self.cells[1] + 1

    @property
    def nodes(self) -> Float[Array, "nodes 2"]:
        """All nodes, x2 running fastest."""
        return jnp.asarray(self._places(), dtype=float)

    def head(self, u: Float[Array, " nodes"]) -> Float[Array, "nx ny"]:
        """The head p at all nodes for log-permeabilities u there, in the order of `nodes`."""
        along, across, scale = self._conductances(u)
        (a, b), (c, d) = self.unknown
        # Conductances to nodes of known head, (I, J), and what they bring.
        known = self.given
        ground = jnp.zeros((b - a, d - c), along.dtype)
        brought = ground if self.inflow is None else self.inflow[a:b, c:d] * scale
        edges = (
            (a > 0, (0, slice(None)), along[a - 1, c:d], known[a - 1, c:d]),
            (
                b < self.shape[0],
                (-1, slice(None)),
                along[b - 1, c:d],
                known[b % self.shape[0], c:d],
            ),
            (c > 0, (slice(None), 0), across[a:b, c - 1], known[a:b, c - 1]),
            (
                d < self.shape[1],
                (slice(None), -1),
                across[a:b, d - 1],
                known[a:b, d % self.shape[1]],
            ),
        )
        for is_known, where, w, p in edges:
            if is_known:
                ground = ground.at[where].add(w)
                brought = brought.at[where].add(w * p)
        network = Network(along[a : b - 1, c:d], across[a:b, c : d - 1], ground)
        return known.at[a:b, c:d].set(solve(network, brought))

    def outflow(self, u: Float[Array, " nodes"]) -> dict[str, Float[Array, ""]]:
        """What leaves the domain through each side of known head; negative where it comes in.

        It is what its nodes must give off to keep their heads, so that together they give off all
        that comes from sources and fluxes, to rounding. At a corner of two such sides, what comes
        along x1 leaves through the left or right one, and what comes along x2 through the other.
        """
        p, (along, across, scale) = self.head(u), self._conductances(u)
        (a, b), (c, d) = self.unknown
        along, across = along * (p[1:] - p[:-1]), across * (p[:, 1:] - p[:, :-1])
        x1 = jnp.pad(along, ((0, 1), (0, 0))) - jnp.pad(along, ((1, 0), (0, 0)))
        x2 = jnp.pad(across, ((0, 0), (0, 1))) - jnp.pad(across, ((0, 0), (1, 0)))
        own = jnp.zeros_like(p) if self.inflow is None else self.inflow * scale
        left_right, bottom_top = x1 + own, x1 + x2 + own
        flows = {
            "left": (a > 0, jnp.sum(left_right[0]) + jnp.sum(x2[0, c:d])),
            "right": (b < self.shape[0], jnp.sum(left_right[-1]) + jnp.sum(x2[-1, c:d])),
            "bottom": (c > 0, jnp.sum(bottom_top[a:b, 0]) + _ends(x2[:, 0], a, b)),
            "top": (d < self.shape[1], jnp.sum(bottom_top[a:b, -1]) + _ends(x2[:, -1], a, b)),
        }
        return {side: flow / scale for side, (has_head, flow) in flows.items() if has_head}

    def interpolation(self, points: Any) -> Callable[[Array], Array]:
        """p -> the head at `points` (n, 2), bilinear between nodes, which is second order too."""
        return Bilinear(*_bilinear(self.checked_points(points), self.axes()))

    def _conductances(self, u: Array) -> tuple[Array, Array, Array]:
        """w along x1 (nx - 1, ny) and along x2 (nx, ny - 1), and the scale they are in."""
        require_shape(u, (self.shape[0] * self.shape[1],), "log-permeabilities")
        u = u.reshape(self.shape)
        largest = jax.lax.stop_gradient(jnp.max(u))
        (hx, hy), (width_x, width_y) = self._spacing(), self._widths()
        along = _harmonic(u[:-1] - largest, u[1:] - largest) * (width_y / hx)
        across = _harmonic(u[:, :-1] - largest, u[:, 1:] - largest) * (width_x[:, None] / hy)
        return along, across, jnp.exp(-largest)

    def _check_precision(self) -> None:
        """Refuse coordinates between which single precision cannot tell."""
        far = max(abs(x) for x in (*self.low, *self.high))
        smallest = 100 * far * float(jnp.finfo(jnp.zeros(()).dtype).eps)
        if min(self._spacing()) < smallest:
            raise UserValueError(
                f"cells of {min(self._spacing()):.3g} at coordinates of {far:.3g} are too small "
                "for this precision: nodes would fall together. Measure from a corner of the "
                "domain, or enable double precision."
            )

    def _spacing(self) -> tuple[float, float]:
        sides = zip(self.low, self.high, self.cells, strict=True)
        hx, hy = ((high - low) / n for low, high, n in sides)
        return hx, hy

    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the nodes along x1 and along x2, in double precision."""
        sides = zip(self.low, self.high, self.shape, strict=True)
        x, y = (np.linspace(*side) for side in sides)
        return x, y

    def _places(self) -> np.ndarray:
        """The nodes in double precision."""
        x, y = np.meshgrid(*self.axes(), indexing="ij")
        return np.stack([x.ravel(), y.ravel()], axis=1)

    def _widths(self) -> tuple[np.ndarray, np.ndarray]:
        """Sides of the nodes' volumes: half a cell at the ends."""
        ends = [np.r_[0.5, np.ones(n - 1), 0.5] for n in self.cells]
        x, y = (h * w for h, w in zip(self._spacing(), ends, strict=True))
        return x, y

    def _given(self, boundary: FlowBoundary) -> np.ndarray:
        given = np.zeros(self.shape)
        for side in ("bottom", "top", "left", "right"):
            if side in boundary.head:
                self._on(given, side)[...] = self._side_values(boundary.head[side], side, "head")
        return given

    def _inflow(self, boundary: FlowBoundary, source: Any) -> np.ndarray:
        width_x, width_y = self._widths()
        inflow = width_x[:, None] * width_y * self._source(source)
        for side, flux in boundary.flux.items():
            length = width_y if SIDES[side][0] == 0 else width_x
            self._on(inflow, side)[...] += length * self._side_values(flux, side, "flux")
        return inflow

    def _source(self, source: Any) -> np.ndarray:
        values = as_doubles(source(self._places()) if callable(source) else source, "source")
        if values.shape not in ((), (self.shape[0] * self.shape[1],)):
            raise UserValueError(
                f"source must be a number or map points (n, 2) to (n,), got shape {values.shape}."
            )
        require_finite(values, "source")
        return values.reshape(self.shape) if values.ndim else values

    def _on(self, field: np.ndarray, side: str) -> np.ndarray:
        axis, end = SIDES[side]
        return field[end] if axis == 0 else field[:, end]

    def _side_values(self, value: Any, side: str, kind: str) -> np.ndarray:
        along = self.axes()[1 - SIDES[side][0]]
        name = f"{kind} of the side {side!r}"
        array = as_doubles(value(along) if callable(value) else value, name)
        if array.shape not in ((), along.shape):
            raise UserValueError(
                f"{name} must be a number, a function of the coordinate along "
                f"it, or {along.size} numbers, one per node; got shape {array.shape}."
            )
        # In the precision it will be used in.
        with np.errstate(over="ignore"):
            working = array.astype(jnp.zeros(()).dtype)
        require_finite(working, name)
        return np.broadcast_to(array, along.shape)

    def checked_points(self, points: Any) -> np.ndarray:
        """Points as an (n, 2) array inside the rectangle."""
        array = as_doubles(points, "points")
        if array.ndim != 2 or array.shape[1] != 2 or not len(array):
            raise UserValueError(f"points must have shape (n, 2), got {array.shape}.")
        require_finite(array, "points")
        low, high = np.array(self.low), np.array(self.high)
        excess = np.maximum(low - array, array - high) / (high - low)
        if (excess > _TOLERANCE).any():
            row = int(np.argmax(excess.max(axis=1)))
            x, y = array[row].tolist()
            raise UserValueError(
                f"point {row}, ({x:g}, {y:g}), lies outside the domain "
                f"[{self.low[0]:g}, {self.high[0]:g}] x [{self.low[1]:g}, {self.high[1]:g}], where "
                "there is no head. Remove it, or move the corners low and high."
            )
        return np.clip(array, low, high)


class Bilinear(Module):
    """Values between nodes: a weighted mean of those of the four corners of the cell."""

    corners: tuple[Int[Array, "points 4"], Int[Array, "points 4"]]
    weights: Float[Array, "points 4"]

    def __call__(self, p: Float[Array, "nx ny"]) -> Float[Array, " points"]:
        return jnp.sum(self.weights * p[self.corners], axis=1)


def _bilinear(
    points: np.ndarray, axes: tuple[np.ndarray, np.ndarray]
) -> tuple[tuple[Array, Array], Array]:
    """Corners ((n, 4), (n, 4)) of the cells that points lie in, and their weights (n, 4)."""
    cell, share = [], []
    for x, nodes in zip(points.T, axes, strict=True):
        i = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, len(nodes) - 2)
        cell.append(i)
        share.append((x - nodes[i]) / (nodes[i + 1] - nodes[i]))
    (i, j), (s, t) = cell, share
    corners = np.stack([i, i, i + 1, i + 1], axis=1), np.stack([j, j + 1, j, j + 1], axis=1)
    weights = np.stack([(1 - s) * (1 - t), (1 - s) * t, s * (1 - t), s * t], axis=1)
    return (jnp.asarray(corners[0]), jnp.asarray(corners[1])), jnp.asarray(weights, dtype=float)


def _ends(line: Array, a: int, b: int) -> Array:
    """The sum over the nodes of a side that lie outside a:b, its corners of known head."""
    return jnp.sum(line[:a]) + jnp.sum(line[b:])


def _harmonic(u: Array, v: Array) -> Array:
    """The harmonic mean of exp(u) and exp(v), without overflow."""
    return 2 * jnp.exp(-jnp.logaddexp(-u, -v))


def _checked_cells(cells: Any) -> tuple[int, int]:
    pair = (cells, cells) if np.ndim(cells) == 0 else tuple(cells)
    if len(pair) != 2:
        raise UserValueError(
            f"cells must be a number or one for each of two dimensions, got {cells}."
        )
    why = "A grid of fewer has no node between its sides."
    nx, ny = (require_count(n, "cells", why, 2) for n in pair)
    return nx, ny


def _checked_box(low: Any, high: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    given = {"low": low, "high": high}
    corners = [tuple(as_doubles(x, name).ravel().tolist()) for name, x in given.items()]
    is_pair = all(len(corner) == 2 for corner in corners)
    if not (is_pair and np.isfinite(corners).all() and (np.array(corners[0]) < corners[1]).all()):
        raise UserValueError(
            f"the domain needs corners low < high in two dimensions, got {low}, {high}."
        )
    return corners[0], corners[1]
