"""What a user asks `tc.sample` for, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from traceclass.arrays import as_floats
from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.base import ADAPT, Kernel, Tuning
from traceclass.posterior import Posterior, require_posterior
from traceclass.sampling.adaptation import MIN_WARMUP
from traceclass.sampling.devices import default_group_size
from traceclass.sampling.functionals import Functional
from traceclass.sampling.until import Until
from traceclass.validation import require_count, shortened


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of `sample` that say what a run is; see there."""

    kernel: Kernel
    # As the user gave it: a number, one per move that has a step size, or "adapt".
    step_size: Any
    is_adapted: bool
    # What each move begins with.
    tuning: tuple[Tuning, ...]
    num_chains: int
    num_warmup: int
    num_samples: int
    thin: int
    seed: int
    record: Mapping[str, Functional]
    moments: Mapping[str, Functional]
    # The position of every k-th draw is kept; 0 keeps none.
    position_every: int
    initial_positions: Any
    # At how many different points chains begin: at each as many of them, one after another.
    num_starts: int
    until: Until | None
    chunk_size: int | None
    group_size: int

    @property
    def adapts_references(self) -> bool:
        """Whether chains may have references of their own, so that each is tuned by itself."""
        return any(move.adapts_reference for move in self.kernel.moves)

    def plain(self) -> dict[str, Any]:
        """The settings that the draws depend on, as plain values for the identity of a run."""
        is_word = isinstance(self.step_size, str)
        return {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "thin": self.thin,
            "seed": self.seed,
            "step_size": self.step_size if is_word else np.asarray(self.step_size).tolist(),
            "store_positions": self.position_every,
            "group_size": self.group_size,
            **self.kernel.settings(),
            **({} if self.num_starts == self.num_chains else {"num_starts": self.num_starts}),
            **({"reference": ADAPT} if self.adapts_references else {}),
        }


def checked_settings(
    posterior: Posterior,
    kernel: Kernel,
    *,
    step_size: Any,
    num_chains: int,
    num_warmup: int,
    num_samples: int,
    thin: int | None,
    seed: int,
    record: Mapping[str, Functional] | None,
    moments: Mapping[str, Functional] | None,
    store_positions: bool | int,
    initial_positions: Any,
    num_starts: int | None,
    until: Until | None,
    chunk_size: int | None,
    group_size: int | None,
) -> Settings:
    """The settings of a run, or an error that names the first argument that cannot be used."""
    require_posterior(posterior)
    for name, functionals in {"record": record, "moments": moments}.items():
        if functionals is not None and not isinstance(functionals, Mapping):
            raise UserTypeError(
                f"{name} must map names to functions of a position, got {shortened(functionals)}. "
                f'Use e.g. {name}={{"first": lambda z: z[0]}}.'
            )
    num_chains = require_count(num_chains, "num_chains", "Nothing runs without a chain.")
    num_warmup = require_count(num_warmup, "num_warmup", "Steps cannot be negative.", 0)
    num_samples = require_count(num_samples, "num_samples", "A run needs draws.")
    thin = kernel.thin if thin is None else thin
    thin = require_count(thin, "thin", "It is the number of steps between two draws.")
    _check_steps(num_warmup + num_samples * thin)
    if chunk_size is not None:
        chunk_size = require_count(chunk_size, "chunk_size", "A chunk holds draws.")
    if until is not None and not isinstance(until, Until):
        raise UserTypeError(f"until must be a tc.Until(...), got {shortened(until)}.")
    if until is not None:
        _check_until(until, num_samples, thin, record or {})
    num_starts = _checked_starts(num_starts, num_chains)
    is_adapted = _is_adapted(kernel, step_size, num_warmup)
    return Settings(
        kernel=kernel,
        step_size=step_size,
        is_adapted=is_adapted,
        tuning=kernel.tuning(kernel.first_step_size if is_adapted else step_size),
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thin=thin,
        seed=_checked_seed(seed),
        record=record or {},
        moments=moments or {},
        position_every=_position_every(store_positions),
        initial_positions=_checked_positions(initial_positions, posterior, num_starts, num_chains),
        num_starts=num_starts,
        until=until,
        chunk_size=chunk_size,
        group_size=_checked_group_size(group_size, num_chains),
    )


def _checked_seed(seed: int) -> int:
    seed = require_count(seed, "seed", "Seeds are counted from 0.", 0)
    if seed >= 2**32:
        raise UserValueError(
            f"seed must be below 2**32, got {shortened(seed)}: JAX would wrap it around."
        )
    return seed


def _checked_starts(num_starts: int | None, num_chains: int) -> int:
    if num_starts is None:
        return num_chains
    num_starts = require_count(num_starts, "num_starts", "Chains need a start to be compared.", 2)
    if num_chains % num_starts:
        raise UserValueError(
            f"num_starts must divide num_chains ({num_chains}), got {num_starts}: as many chains "
            "begin at each start."
        )
    return num_starts


def _checked_group_size(group_size: int | None, num_chains: int) -> int:
    if group_size is None:
        return default_group_size(num_chains)
    group_size = require_count(group_size, "group_size", "It is a number of chains.")
    if num_chains % group_size:
        raise UserValueError(
            f"group_size must divide num_chains ({num_chains}), got {group_size}: chains are "
            "computed in groups of the same size."
        )
    return group_size


def _position_every(store_positions: bool | int) -> int:
    """k if the positions of every k-th draw are kept, 0 if none are."""
    if isinstance(store_positions, (bool, np.bool_)):
        return int(store_positions)
    return require_count(
        store_positions, "store_positions", "True keeps all positions, False none, k every k-th."
    )


def _check_until(
    until: Until, num_samples: int, thin: int, record: Mapping[str, Functional]
) -> None:
    unknown = [name for name in until.of if name not in (*record, "log_likelihood")]
    if unknown:
        raise UserValueError(
            f"until looks at {unknown[0]!r}, which is not recorded; there is "
            f"{', '.join((*record, 'log_likelihood'))}."
        )
    if until.max_samples < num_samples:
        raise UserValueError(
            f"max_samples ({until.max_samples}) must not be below num_samples ({num_samples}), "
            "the fewest draws."
        )
    _check_steps(until.max_samples * thin)


def _checked_positions(
    positions: Any, posterior: Posterior, num_starts: int, num_chains: int
) -> Any:
    """`initial_positions`, one for each start, as an array (chains, z)."""
    if positions is None:
        return None
    positions = as_floats(positions, "initial_positions")
    shape = (num_starts, posterior.prior.num_coordinates)
    if positions.shape != shape:
        rows = "num_chains" if num_starts == num_chains else "num_starts"
        raise UserValueError(
            f"initial_positions must have shape ({rows}, num_coordinates) = {shape}, "
            f"got {positions.shape}."
        )
    return jnp.repeat(positions, num_chains // num_starts, axis=0)


def _check_steps(num_steps: int) -> None:
    if num_steps >= 2**32:
        raise UserValueError(
            f"a chain of {shortened(num_steps)} steps is too long: the global step, from which "
            "every key comes, must stay below 2**32. Thin less or keep fewer draws."
        )


def _is_adapted(kernel: Kernel, step_size: Any, num_warmup: int) -> bool:
    """Whether step sizes are to be found; fixed ones are checked by the kernel."""
    if kernel.why_warmup is not None and num_warmup < MIN_WARMUP:
        raise UserValueError(
            f"{kernel.name} needs num_warmup >= {MIN_WARMUP}, got {num_warmup}: {kernel.why_warmup}"
        )
    adapts = [move.name for move in kernel.moves if move.adapts_reference]
    if not isinstance(step_size, str):
        kernel.check_step_size(step_size)
        if adapts:
            raise UserValueError(
                f'{adapts[0]} with reference="adapt" needs step_size="adapt", got {step_size!r}: a '
                "step size means something else by each reference."
            )
        return False
    if step_size != "adapt":
        raise UserValueError(f'step_size must be a number or "adapt", got {step_size!r}.')
    rules = [move.rule for move in kernel.moves if move.rule is not None]
    if any(rule.target is None for rule in rules):
        raise UserValueError(
            'step_size="adapt" needs a kernel of traceclass, which knows its target '
            "acceptance rate; pass a number for other kernels."
        )
    if rules and num_warmup < MIN_WARMUP:
        raise UserValueError(
            f'step_size="adapt" needs num_warmup >= {MIN_WARMUP}, got {num_warmup}: the step '
            "size is found in warm-up. Use e.g. num_warmup=2000, or pass a number."
        )
    return True
