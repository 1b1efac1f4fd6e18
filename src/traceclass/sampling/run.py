"""A finished run: draws, moments, diagnostics and the functions they stand for."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from traceclass.arrays import as_doubles, as_floats
from traceclass.draws import compiled_over, mean_function
from traceclass.errors import UserValueError
from traceclass.kernels.replicas import TEMPERING
from traceclass.likelihoods.base import at_noise
from traceclass.model_choice.evidence import Evidence, evidence_of
from traceclass.model_choice.stacking import Stacking, stacking_of
from traceclass.model_choice.tempering import Tempering, tempering_of
from traceclass.module import Module
from traceclass.posterior import Posterior
from traceclass.priors.base import Prior
from traceclass.representation import as_table
from traceclass.sampling.chunk import Tally
from traceclass.sampling.diagnostics import Summary, summarise
from traceclass.sampling.files import write_netcdf
from traceclass.sampling.functionals import FewValues
from traceclass.sampling.moments import Moments, pooled
from traceclass.sampling.new_file import new_file
from traceclass.sampling.stored import StoredDraws
from traceclass.validation import require_path, shortened

if TYPE_CHECKING:
    import xarray as xr

# The name of the function's values at the data among what is monitored, at most so many of them,
# and of about so many draws per chain.
VALUES = "the values at the data"
_MOST_MONITORED = 1_000
_MOST_RESIDUALS = 100
# Values of all draws at one batch of points are held at once: 32 million floats are 128 MB.
_MAX_VALUES = 32_000_000


class Prediction(NamedTuple):
    """Posterior of the function at points: mean and sd (n,), quantiles (q, n)."""

    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray


def leading_move(sized: Sequence[bool]) -> int:
    """The move a run is judged by: the first with a step size, or the first."""
    return next((number for number, is_sized in enumerate(sized) if is_sized), 0)


# Counters of a draw are kept beside it under names that begin so.
TALLY = "tally/"
# Moves that `repr` names, and bytes of a store that it reads for their acceptance rates.
_MOVES_SHOWN, _FEW_BYTES = 4, 2**26


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Run:
    """What `tc.sample` and `tc.open_run` return.

    `draws` maps each recorded name (and "log_likelihood") to an array (chains, draws, ...);
    `positions` is (chains, draws, z), or None if they were not stored. In a run with a store they
    are read when they are asked for. A composed kernel has several `moves`; `acceptance_rate`,
    `step_size` and what follows from them are those of the first move that has a step size, and
    `move_acceptance_rates` and `tuning` have all of them.
    """

    posterior: Posterior | None
    recorded: Mapping[str, np.ndarray]
    # Where the chains are after the last draw, (chains, z): other chains can begin there
    last_positions: np.ndarray
    running_moments: Mapping[str, Moments]
    num_chains: int
    num_samples: int
    moves: Sequence[str]
    tunings: Sequence[Mapping[str, float]]
    targets: Sequence[float | None]
    num_devices: int
    thin: int
    num_warmup: int
    seed: int
    sampling_seconds: float
    warmup_seconds: float
    compile_seconds: float
    # By move, what each chain ran with, where chains are tuned apart.
    chain_tunings: Sequence[Mapping[str, Sequence[float]]] = ()
    # By move, the reference that warm-up chose, in words; None where none was looked for.
    moved_by: Sequence[str | None] = ()
    # At how many points chains began, as many at each; None: each at its own.
    num_starts: int | None = None
    # Chains that warm-up left behind, after which step, and beside which others they began again.
    restarts: Sequence[Mapping[str, int]] = ()
    # Cores that the run might use, and those it had work for; not known of a run that was not on
    # CPUs, nor of earlier versions'.
    num_cores: int | None = None
    num_cores_used: int | None = None
    # Why cores were idle and what to do, in words; empty if none was.
    idle_cores: str = ""
    # "num_samples", "until", "max_samples" or "max_time"; not known of a run that was opened
    stopped_by: str | None = None

    def __repr__(self) -> str:
        return "\n".join(["Run", *(f"  {name:10}  {text}" for name, text in self._words().items())])

    def _repr_html_(self) -> str:
        return as_table("Run", self._words())

    def _words(self) -> dict[str, str]:
        """What the run is, in five short lines; no draws are read from a large store for it."""
        folder = self.recorded.folder if isinstance(self.recorded, StoredDraws) else None
        more = "" if len(self.moves) <= _MOVES_SHOWN else f", ... {len(self.moves)} in all"
        shown = self.moves[:_MOVES_SHOWN]
        rates = "not read yet; see run.acceptance_rate"
        if not isinstance(self.recorded, StoredDraws) or self.recorded.num_bytes < _FEW_BYTES:
            known = self.move_acceptance_rates
            rates = ", ".join(f"{name} {known[name]:.3f}" for name in shown) + more
        return {
            "moves": ", ".join(shown) + more,
            "draws": f"{self.num_chains} chains x {self.num_samples:,} draws, "
            f"steps per draw: {self.thin}, seed {self.seed}",
            "acceptance": rates,
            "positions": self._positions_in_words() + (f", in {folder}" if folder else ""),
            "time": f"{self.sampling_seconds:.3g} s sampling, {self.warmup_seconds:.3g} s warm-up",
        }

    def _positions_in_words(self) -> str:
        if "position" not in self.recorded:
            return "not stored"
        if isinstance(self.recorded, StoredDraws):
            shape = self.recorded.shape_of("position")
        else:
            shape = self.recorded["position"].shape
        where = "" if isinstance(self.recorded, StoredDraws) else ", in memory"
        every = "every draw" if shape[1] == self.num_samples else f"{shape[1]:,} draws per chain"
        return f"{every}, {shape[2]:,} coordinates{where}"

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """The recorded functionals and the log-likelihood, (chains, draws, ...) each."""
        return _Draws(self.recorded)

    @property
    def positions(self) -> np.ndarray | None:
        """Stored positions, (chains, draws, z)."""
        return self.recorded.get("position")

    @functools.cached_property
    def tally(self) -> Tally:
        """Sums over the steps of each draw, (chains, draws, moves)."""
        return Tally(*(self.recorded[TALLY + name] for name in Tally._fields))

    def sha256(self) -> str:
        """A checksum of all draws: two runs with the same have the same draws, bit for bit."""
        checksum = hashlib.sha256()
        for name in sorted(self.recorded):
            array = np.ascontiguousarray(self.recorded[name])
            checksum.update(f"{name} {array.dtype} {array.shape}".encode())
            checksum.update(array.reshape(-1).view(np.uint8).data)
        for name, moments in sorted(self.running_moments.items()):
            for part in moments:
                checksum.update(name.encode() + np.ascontiguousarray(part).tobytes())
        return checksum.hexdigest()

    @property
    def tuning(self) -> dict[str, Mapping[str, float]]:
        """What each move ran with after warm-up: its step size, its number of kicks."""
        return dict(zip(self.moves, self.tunings, strict=True))

    @property
    def _lead(self) -> int:
        return leading_move(["step_size" in tuning for tuning in self.tunings])

    @property
    def step_size(self) -> float:
        """The step size; NaN for a kernel without one."""
        return float(self.tunings[self._lead].get("step_size", np.nan))

    @property
    def target_acceptance(self) -> float | None:
        """What the step size was adapted to, if it was and did not end at its upper limit."""
        return self.targets[self._lead]

    @property
    def acceptance(self) -> np.ndarray:
        """Mean acceptance probability of the steps of each draw (chains, draws)."""
        rate, tried = self.tally.acceptance_rate[..., self._lead], self.tally.tried[..., self._lead]
        return np.where(tried > 0, rate / np.maximum(tried, 1), np.nan)

    @property
    def move_acceptance_rates(self) -> dict[str, float]:
        """Mean acceptance probability of each move, over all chains."""
        tried = np.maximum(self.tally.tried.sum(axis=(0, 1)), 1)
        rates = self.tally.acceptance_rate.sum(axis=(0, 1), dtype=np.float64) / tried
        return dict(zip(self.moves, rates.tolist(), strict=True))

    @property
    def num_accepted(self) -> np.ndarray:
        """Accepted steps of each chain."""
        return self.tally.accepted[..., self._lead].sum(axis=1)

    @property
    def num_nonfinite(self) -> np.ndarray:
        """Proposals of each chain where the log-likelihood was not finite, of all moves."""
        return self.tally.nonfinite.sum(axis=(1, 2))

    @property
    def num_steps(self) -> int:
        """Steps of each chain after warm-up."""
        return self.num_samples * self.thin

    @property
    def acceptance_rate(self) -> float:
        """Mean acceptance probability after warm-up, over all chains."""
        return self.move_acceptance_rates[self.moves[self._lead]]

    @property
    def chain_acceptance_rates(self) -> np.ndarray:
        """Mean acceptance probability of each chain."""
        tried = np.maximum(self.tally.tried[..., self._lead].sum(axis=1), 1)
        return self.tally.acceptance_rate[..., self._lead].sum(axis=1) / tried

    @property
    def is_tempered(self) -> bool:
        """Whether `tempering` and `evidence` are known."""
        return TEMPERING + "labels" in self.recorded

    @property
    def tempering(self) -> Tempering:
        """Schedule, communication barrier and round trips of a run with `tc.tempered`."""
        return tempering_of(self)

    @property
    def evidence(self) -> Evidence:
        """log p(data) with its standard error, of a run with `tc.tempered`."""
        return evidence_of(self.tempering)

    def summary(self) -> Summary:
        """Effective sample sizes, R-hat, acceptance, effective samples per second, and warnings."""
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
        tuned = {
            name if move == self.moves[self._lead] else f"{move}_{name}": value
            for move, tuning in self.tuning.items()
            for name, value in tuning.items()
        }
        attributes = tuned | {
            "thin": self.thin,
            "num_warmup": self.num_warmup,
            "seed": self.seed,
            "sampling_seconds": self.sampling_seconds,
        }
        with warnings.catch_warnings():
            # ArviZ takes more chains than draws for a transposed array; ours never are.
            warnings.filterwarnings("ignore", message="More chains")
            warnings.filterwarnings("ignore", message="Found chain dimension")
            tree = arviz_base.from_dict({"posterior": dict(self.draws), "sample_stats": stats})
        tree["sample_stats"].attrs.update(attributes)
        return tree

    def to_netcdf(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write `to_arviz()` to a netCDF file, whole or not at all.

        Parameters
        ----------
        path : path
            The file, outside of the run's own store.
        overwrite : bool
            Whether a plain file that is there already may be replaced.
        """
        folder = self.recorded.folder if isinstance(self.recorded, StoredDraws) else None
        own = [] if folder is None else [folder]
        with new_file(require_path(path, "path"), overwrite=overwrite, own=own) as temporary:
            write_netcdf(temporary, self.to_arviz())

    def flat_positions(self) -> np.ndarray:
        """All stored positions, chain after chain, as (chains * draws, z)."""
        positions = self.positions
        if positions is None:
            raise UserValueError(
                "this run kept no positions, so it cannot be evaluated at new points. Sample with "
                "store_positions=True, or pass the points as record= or moments=."
            )
        if not positions.size:
            raise UserValueError(
                "this run has no draws: it ended in warm-up. Give it more time, or resume it."
            )
        return positions.reshape(-1, positions.shape[-1])

    def _prior(self) -> Prior:
        if self.posterior is None:
            raise UserValueError(
                "a stored run does not hold the prior, which is code; pass it to "
                "open_run(path, posterior=...)."
            )
        return self.posterior.prior

    def stack(self) -> Stacking:
        """Weights for chains that do not mix, by how well each of them predicts.

        Stacking of the chains' leave-one-out predictive distributions; see `Stacking`. Give it to
        `predict` as `weights`. The likelihood needs `log_prob_each`.
        """
        self._prior()
        self.flat_positions()
        assert self.posterior is not None
        assert self.positions is not None
        return stacking_of(self.posterior, self.positions)

    def monitored(self) -> dict[str, np.ndarray]:
        """What convergence is judged by, (chains, draws, ...) each.

        All that is recorded, the log-likelihood, and the function's values at up to 200 of the
        data's points, which need the run's posterior and its positions; those of a store of more
        than 64 MB are not read for it.
        """
        everything = dict(self.draws)
        posterior, positions = self.posterior, self._few_positions()
        if posterior is None or positions is None:
            return everything
        every = max(1, positions.shape[1] // _MOST_MONITORED)
        few = positions[:, ::every]
        values_of = FewValues(posterior.values_of)
        values = compiled_over(values_of, jnp.asarray(few.reshape(-1, few.shape[-1])))
        return everything | {VALUES: np.asarray(values).reshape(*few.shape[:2], -1)}

    def _few_positions(self) -> np.ndarray | None:
        """Positions, unless there are none, or a store holds so many that reading takes long."""
        if isinstance(self.recorded, StoredDraws) and self.recorded.num_bytes >= _FEW_BYTES:
            return None
        positions = self.positions
        return None if positions is None or not positions.size else positions

    def mean_square_residual(self) -> tuple[float, int] | None:
        """The mean over draws and observations of the squared residual, in noise sds, and their n.

        None where the likelihood has no residuals, or positions are not stored.
        """
        posterior, positions = self.posterior, self._few_positions()
        if posterior is None or positions is None:
            return None
        if not hasattr(posterior.likelihood, "residuals"):
            return None
        every = max(1, positions.shape[1] // _MOST_RESIDUALS)
        few = positions[:, ::every].reshape(-1, positions.shape[-1])
        squares = np.asarray(compiled_over(_SquaredResiduals(posterior), jnp.asarray(few)))
        return float(squares.mean(dtype=np.float64)), squares.shape[1]

    def predict(
        self,
        x: Any,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        weights: Stacking | Any = None,
    ) -> Prediction:
        """Mean, sd and quantiles of the function at new points, over all stored draws.

        Parameters
        ----------
        x : array (points, dim)
            Where to evaluate the function.
        quantiles : sequence of floats
            Probabilities in [0, 1].
        weights : Stacking or array (chains,), optional
            How much each chain counts: what `stack()` gives, or numbers that are not negative.
            None: all the same. Quantiles are then those of the step function of weighted draws.
        """
        positions, prior = jnp.asarray(self.flat_positions()), self._prior()
        points = prior.checked_points(jnp.atleast_2d(as_floats(x, "x")))
        probabilities = _checked_probabilities(quantiles)
        if not len(points):
            raise UserValueError(f"x must hold at least one point, got shape {points.shape}.")
        batch = max(1, _MAX_VALUES // len(positions))
        by_draw = None if weights is None else self._by_draw(weights, len(positions))
        parts = [
            _statistics(
                compiled_over(prior.at(points[i : i + batch]), positions), probabilities, by_draw
            )
            for i in range(0, len(points), batch)
        ]
        return Prediction(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))

    def _by_draw(self, weights: Stacking | Any, num_draws: int) -> np.ndarray:
        """The weight of every draw, from those of the chains."""
        given = weights.weights if isinstance(weights, Stacking) else as_doubles(weights, "weights")
        is_right = given.shape == (self.num_chains,) and (given >= 0).all() and given.sum() > 0
        if not is_right or not np.isfinite(given).all():
            raise UserValueError(
                f"weights must hold one number >= 0 for each of the {self.num_chains} chains, not "
                f"all zero; got {shortened(weights)}."
            )
        each = num_draws // self.num_chains
        return np.repeat(given / given.sum() / each, each)

    def mean_function(self) -> Callable[[Float[Array, "points dim"]], Float[Array, " points"]]:
        """The posterior mean of the function, as a JAX function of points (n, d)."""
        return mean_function(self._prior(), jnp.asarray(self.flat_positions()))


class _SquaredResiduals(Module):
    """z -> ((y - predicted) / noise)^2 of every observation."""

    posterior: Posterior

    def __call__(self, z: Array) -> Array:
        posterior = self.posterior
        residuals = posterior.likelihood.residuals
        return jnp.ravel(at_noise(residuals, posterior.values_of(z), posterior.prior.noise(z))) ** 2


class _Draws(Mapping[str, np.ndarray]):
    """What is recorded, without positions and counters."""

    def __init__(self, recorded: Mapping[str, np.ndarray]):
        self._recorded = recorded
        # No functional's name has a slash; what the library itself keeps has.
        self._names = [n for n in recorded if n != "position" and "/" not in n]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(f"{name!r} was not recorded; there is {', '.join(self._names)}.")
        return self._recorded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _checked_probabilities(quantiles: Any) -> np.ndarray:
    given = as_doubles(quantiles, "quantiles")
    if given.ndim != 1 or not given.size or not ((given >= 0) & (given <= 1)).all():
        raise UserValueError(
            f"quantiles must list probabilities in [0, 1], got {shortened(quantiles)}."
        )
    return given


def _statistics(
    values: Array, quantiles: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, ...]:
    draws = np.asarray(values, dtype=np.float64)
    if weights is not None:
        mean = weights @ draws
        sd = np.sqrt(weights @ (draws - mean) ** 2)
        counted = weights > 0
        at = np.quantile(
            draws[counted], quantiles, axis=0, weights=weights[counted], method="inverted_cdf"
        )
        return mean, sd, at
    return draws.mean(axis=0), draws.std(axis=0, ddof=1), np.quantile(draws, quantiles, axis=0)
