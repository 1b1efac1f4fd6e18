"""What the groundwater experiments share: the aquifer, its wells, the priors and the kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import traceclass as tc
from traceclass.experiments.cells import Cell
from traceclass.experiments.experiment import made_once
from traceclass.module import Module

PRIORS = {"kl": "cosine series", "tcnn": "trace-class network", "deep": "trace-class network 3x10"}
SHORT = {"kl": "KL", "tcnn": "tcNN", "deep": "tcNN 3x10"}
KERNELS = {"pcn": tc.pcn, "pcnl": tc.pcnl, "hmc": tc.hmc}
# The paper's 33 wells, nodes (i, j) of a grid of 20 x 20 cells; on others the same places.
WELLS = (
    *((9, 0), (10, 0), (11, 0), (6, 1), (14, 1), (4, 2), (16, 2), (3, 3), (17, 3), (2, 4), (18, 4)),
    *((1, 6), (19, 6), (0, 9), (20, 9), (0, 10), (10, 10), (20, 10), (0, 11), (20, 11), (1, 14)),
    *((19, 14), (2, 16), (18, 16), (3, 17), (17, 17), (4, 18), (16, 18), (6, 19), (14, 19)),
    *((9, 20), (10, 20), (11, 20)),
)
WELL_POINTS = np.array(WELLS) / 20.0
# The truth has modes up to this number per side, and is solved on a finer grid than inference.
_TRUE_MODES, _TRUE_CELLS = 10, 40
# Directions that 33 wells can inform.
_RANK = 33
# Nodes per side of the grid on which log-permeabilities are drawn.
PICTURE = 41


class Survey(NamedTuple):
    """Hydraulic heads at the wells and, kept from the chains, at held-out points."""

    heads: np.ndarray
    held_out: np.ndarray
    held_out_head: np.ndarray
    held_out_observed: np.ndarray


class Heads(Module):
    """z -> the heads at the wells and at the held-out points, from one solution."""

    values_of: Callable[[Array], Array]
    flow: tc.DarcyFlow
    at_points: Callable[[Array], Array]

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        return self.at_points(self.flow.head(self.values_of(z)))


def truth(points: Any) -> Float[Array, " n"]:
    """u* = sum lambda_i sin((i1 - 1/2)^2 + (i2 - 1/2)^2) phi_i over 10 x 10 modes."""
    half = np.arange(1, _TRUE_MODES + 1) - 0.5
    z = np.sin(half[:, None] ** 2 + half**2)
    return tc.CosineSeries(num_modes=_TRUE_MODES).evaluate(jnp.asarray(z.ravel()), points)


def true_flow() -> tuple[tc.DarcyFlow, Float[Array, "nx ny"]]:
    """The grid of the truth and its head."""
    flow = tc.DarcyFlow(cells=_TRUE_CELLS)
    return flow, flow.head(truth(flow.nodes))


@made_once
def survey(seed: int, *, noise: float, num_held_out: int) -> Survey:
    """What was measured: the true head with noise, at the wells and at points drawn uniformly."""
    rng = np.random.default_rng(seed)
    flow, head = true_flow()
    held_out = rng.uniform(size=(num_held_out, 2))
    at_wells = np.asarray(flow.interpolation(WELL_POINTS)(head), dtype=np.float64)
    at_held_out = np.asarray(flow.interpolation(held_out)(head), dtype=np.float64)
    return Survey(
        at_wells + noise * rng.normal(size=at_wells.shape),
        held_out,
        at_held_out,
        at_held_out + noise * rng.normal(size=at_held_out.shape),
    )


def posterior_of(prior: tc.Prior, data: Survey, *, noise: float, cells: int) -> tc.Posterior:
    """The posterior given the wells, on a grid of `cells` per side."""
    flow = tc.GroundwaterFlow(data.heads, points=WELL_POINTS, noise=noise, cells=cells)
    return tc.Posterior(prior, flow)


def prior_of(name: str, *, num_modes: int = 25, width: int = 100) -> tc.Prior:
    """The paper's priors on the log-permeability.

    Networks read (x1, x2, sin pi x1, sin pi x2) of coordinates scaled to [-1, 1]; the paper's text
    leaves out the pi.
    """
    if name == "kl":
        return tc.CosineSeries(num_modes=num_modes)
    # 3 x 10: variance 10 inside and 1 at the output.
    variances = {"tcnn": ((100.0, 1 / 30), (100.0, 1 / 10)), "deep": ((10.0, 10.0, 10.0, 1.0),) * 2}
    weights, biases = variances[name]
    return tc.TraceClassNetwork(
        num_inputs=2,
        widths=(width,) if name == "tcnn" else (10, 10, 10),
        alpha=1.001,
        weight_variance=weights,
        bias_variance=biases,
        inputs=tc.scale_to_box((0.0, 0.0), (1.0, 1.0), features=_sines),
    )


def cell_of(
    posterior: tc.Posterior, data: Survey, sampling: dict[str, Any], **settings: Any
) -> Cell:
    """A table cell that records heads at the wells, then at the held-out points, and mean fields.

    A group of chains is half of them, for two cores: as many as fill the vector registers of one.
    """
    flow, half = posterior.likelihood.flow, max(1, sampling["num_chains"] // 2)
    at_points = flow.interpolation(np.concatenate([WELL_POINTS, data.held_out]))
    fields = {"log_permeability": posterior.prior.at(picture_points())}
    return Cell(
        posterior=posterior,
        record={"head": Heads(posterior.values_of, flow, at_points)},
        sampling={"moments": fields, "group_size": half, **sampling},
        **settings,
    )


def kernel_of(name: str, posterior: tc.Posterior) -> tc.Kernel:
    """The kernel; for the likelihood-informed ones the reference is found here."""
    if name in KERNELS:
        return KERNELS[name]
    return KERNELS[name.removeprefix("laplace-")].using(reference=_reference_of(posterior))


@functools.lru_cache(maxsize=1)
def _reference_of(posterior: tc.Posterior) -> tc.Reference:
    """Found once for the kernels that share it; posteriors are compared by identity."""
    return tc.laplace(posterior, rank=_RANK)


def picture_points() -> Float[Array, "n 2"]:
    """The nodes of the grid on which log-permeabilities are drawn, x2 running fastest."""
    return tc.DarcyFlow(cells=PICTURE - 1).nodes


def _sines(scaled: Array) -> Array:
    return jnp.sin(jnp.pi * scaled)


def picture(values: Any) -> tuple[tuple[str, str], np.ndarray]:
    """Values at `picture_points` as a variable of the stored arrays."""
    return ("x", "y"), np.asarray(values).reshape(PICTURE, PICTURE)
