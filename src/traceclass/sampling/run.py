"""A finished run: draws, moments, diagnostics and the functions they stand for."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.posterior import Posterior
from traceclass.sampling.diagnostics import Summary, summarise
from traceclass.sampling.moments import Moments, pooled

if TYPE_CHECKING:
    import xarray as xr

# Values of all draws at one batch of points are held at once: 32 million floats are 128 MB.
_MAX_VALUES = 32_000_000


class Prediction(NamedTuple):
    """Posterior of the function at points: mean and sd (n,), quantiles (q, n)."""

    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """What `tc.sample` returns.

    `draws` maps each recorded name (and "log_likelihood") to an array (chains, draws, ...);
    `positions` is (chains, draws, z), or None if they were not stored.
    """

    posterior: Posterior
    draws: Mapping[str, np.ndarray]
    positions: np.ndarray | None
    acceptance: np.ndarray
    num_accepted: np.ndarray
    num_nonfinite: np.ndarray
    step_size: float
    target_acceptance: float | None
    num_devices: int
    thin: int
    num_warmup: int
    seed: int
    sampling_seconds: float
    warmup_seconds: float
    compile_seconds: float
    running_moments: Mapping[str, Moments]

    @property
    def num_chains(self) -> int:
        return self.acceptance.shape[0]

    @property
    def num_samples(self) -> int:
        return self.acceptance.shape[1]

    @property
    def num_steps(self) -> int:
        """Steps of each chain after warm-up."""
        return self.num_samples * self.thin

    @property
    def acceptance_rate(self) -> float:
        """Mean acceptance probability after warm-up, over all chains."""
        return float(self.acceptance.mean())

    @property
    def chain_acceptance_rates(self) -> np.ndarray:
        """Mean acceptance probability of each chain."""
        return self.acceptance.mean(axis=1)

    def summary(self) -> Summary:
        """Effective sample sizes, R-hat, acceptance, effective samples a second, and warnings."""
        return summarise(self)

    def moments(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd over all draws of a functional passed to `sample(moments=...)`."""
        if name not in self.running_moments:
            known = ", ".join(self.running_moments) or "none were asked for"
            raise KeyError(f"no running moments of {name!r}; known: {known}.")
        return pooled(self.running_moments[name])

    def to_arviz(self) -> xr.DataTree:
        """The recorded draws as an ArviZ DataTree: groups posterior and sample_stats."""
        import arviz_base

        stats = {"acceptance_rate": self.acceptance}
        attributes = {
            "step_size": self.step_size,
            "thin": self.thin,
            "num_warmup": self.num_warmup,
            "seed": self.seed,
            "sampling_seconds": self.sampling_seconds,
        }
        with warnings.catch_warnings():
            # ArviZ takes more chains than draws for a transposed array; ours never are.
            warnings.filterwarnings("ignore", message="More chains")
            tree = arviz_base.from_dict({"posterior": dict(self.draws), "sample_stats": stats})
        tree["sample_stats"].attrs.update(attributes)
        return tree

    def flat_positions(self) -> np.ndarray:
        """All stored positions, chain after chain, as (chains * draws, z)."""
        if self.positions is None:
            raise ValueError(
                "this run kept no positions, so it cannot be evaluated at new points. Sample with "
                "store_positions=True, or pass the points as record= or moments=."
            )
        return self.positions.reshape(-1, self.positions.shape[-1])

    def predict(self, x: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Prediction:
        """Mean, sd and quantiles of the function at points x (n, d), over all stored draws."""
        positions = jnp.asarray(self.flat_positions())
        points = self.posterior.prior.checked_points(jnp.atleast_2d(jnp.asarray(x, dtype=float)))
        batch = max(1, _MAX_VALUES // len(positions))
        parts = [
            _statistics(
                _values(self.posterior.prior.at(points[i : i + batch]), positions), quantiles
            )
            for i in range(0, len(points), batch)
        ]
        return Prediction(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))

    def mean_function(self) -> Callable[[Float[Array, "points dim"]], Float[Array, " points"]]:
        """The posterior mean of the function, as a JAX function of points (n, d)."""
        positions = jnp.asarray(self.flat_positions())
        prior = self.posterior.prior

        def mean(x: Float[Array, "points dim"]) -> Float[Array, " points"]:
            values_of = prior.at(x)
            return jnp.mean(jax.lax.map(values_of, positions, batch_size=32), axis=0)

        return mean


@eqx.filter_jit
def _values(values_of: Callable[[Array], Array], positions: Array) -> Float[Array, "draws points"]:
    return jax.lax.map(values_of, positions, batch_size=32)


def _statistics(values: Array, quantiles: Sequence[float]) -> tuple[np.ndarray, ...]:
    draws = np.asarray(values, dtype=np.float64)
    return draws.mean(axis=0), draws.std(axis=0, ddof=1), np.quantile(draws, quantiles, axis=0)
