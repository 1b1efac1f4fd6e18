"""`tc.sample`: what a user asks for, checked, and handed to a `Session`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from traceclass.errors import UserValueError
from traceclass.kernels.base import Kernel, KernelFactory, as_kernel
from traceclass.kernels.tempered import Tempered
from traceclass.posterior import Posterior
from traceclass.sampling.adaptation import MIN_WARMUP
from traceclass.sampling.chunk import Program
from traceclass.sampling.devices import chain_mesh, default_group_size
from traceclass.sampling.functionals import (
    Functional,
    bytes_per_draw,
    check_functionals,
    check_memory,
    counter_bytes,
    kept_bytes,
)
from traceclass.sampling.identity import identity_of
from traceclass.sampling.interrupt import Pending, deferred_signals
from traceclass.sampling.progress import make_progress
from traceclass.sampling.run import Run
from traceclass.sampling.session import Session, traced
from traceclass.sampling.store import Store, check_room, opened_for_writing
from traceclass.sampling.until import Until
from traceclass.sampling.warmup import adaptation_of
from traceclass.validation import require_count

# Draws of one call of the program live on the devices until it ends; the buffer is made anew for
# every call, warm-up windows included, so it is kept small.
_MAX_BYTES_PER_CALL = 4 * 2**20


def sample(
    posterior: Posterior,
    kernel: KernelFactory,
    *,
    step_size: float | Sequence[float] | str = "adapt",
    num_chains: int = 4,
    num_warmup: int = 2_000,
    num_samples: int = 1_000,
    thin: int | None = None,
    seed: int = 0,
    record: Mapping[str, Functional] | None = None,
    moments: Mapping[str, Functional] | None = None,
    store_positions: bool | int = True,
    initial_positions: Any = None,
    store: str | os.PathLike[str] | None = None,
    resume: bool = False,
    force: bool = False,
    until: Until | None = None,
    chunk_size: int | None = None,
    group_size: int | None = None,
    progress: bool | str = True,
) -> Run:
    """Run `num_chains` chains of `kernel` on `posterior` and keep `num_samples` draws of each.

    Chains start at prior draws (or at `initial_positions`, (chains, z)), take `num_warmup` steps
    in which `step_size="adapt"` is tuned to the kernel's target acceptance, and `tc.hmc`'s number
    of kicks to the autocorrelation it leaves; what was found is frozen (`run.tuning`), and then
    `thin` steps make each draw kept (None: 10, but 1 for `tc.hmc`). Chains are spread over the JAX
    devices there are (see `tc.use_cpu_devices`).

    `record` maps names to functions of a position; their values are kept for every draw.
    `moments` does the same for functions too large to keep: only a running mean and variance
    stay (`run.moments(name)`). `store_positions=False` keeps no positions, and a number k those of
    every k-th draw.

    `store` is a directory to which draws and the full state are committed as the run goes on, so
    that memory does not grow with the number of draws, and a run that was killed, or is to have
    more draws, goes on with `resume=True`: to the same draws, bit for bit. Another posterior,
    kernel, setting or version of JAX is refused, unless `force=True`. Ctrl-C and SIGTERM then
    commit, and raise `tc.Interrupted`.

    `progress` shows how far the run is, under a name if it is a string.

    `until=tc.Until(ess=400)` goes on beyond `num_samples` until the draws are good enough.

    The draws depend on the seed, the number of chains and the machine, not on `chunk_size` (draws
    between two commits; chosen by time if None), nor on the number of devices. Chains are vmapped
    in groups of `group_size` (None: half of them, at most 4), and devices share the groups: with
    more than two devices use more chains, or smaller groups (which round differently).
    """
    num_chains = require_count(num_chains, "num_chains", "Nothing runs without a chain.")
    num_warmup = require_count(num_warmup, "num_warmup", "Steps cannot be negative.", 0)
    num_samples = require_count(num_samples, "num_samples", "A run needs draws.")
    kernel = as_kernel(kernel)
    thin = kernel.thin if thin is None else thin
    thin = require_count(thin, "thin", "It is the number of steps between two draws.")
    _check_steps(num_warmup + num_samples * thin)
    seed = require_count(seed, "seed", "Seeds are counted from 0.", 0)
    if seed >= 2**32:
        raise UserValueError(f"seed must be below 2**32, got {seed}: JAX would wrap it around.")
    if chunk_size is not None:
        chunk_size = require_count(chunk_size, "chunk_size", "A chunk holds draws.")
    group_size = _checked_group_size(group_size, num_chains)
    if (resume or force) and store is None:
        raise UserValueError("resume and force go on with a stored run: pass store= too.")
    record, moments = record or {}, moments or {}
    position_every = _position_every(store_positions)
    moment_shapes = check_functionals(posterior, moments).values()
    shapes = check_functionals(posterior, record)
    if until is not None:
        _check_until(until, num_samples, thin, record)
    positions = _checked_positions(initial_positions, posterior, num_chains)
    counts = {
        "num_moves": len(kernel.moves),
        "num_temperatures": kernel.num_temperatures if isinstance(kernel, Tempered) else 0,
    }
    draw_bytes = bytes_per_draw(posterior, shapes, position_every > 0) + counter_bytes(**counts)
    draw_bytes *= num_chains
    num_bytes = num_chains * kept_bytes(
        posterior,
        shapes,
        num_samples=num_samples,
        position_every=position_every,
        **counts,
    )
    # Running moments are a mean and a sum of squares a chain, however many draws there are.
    moment_bytes = 2 * num_chains * sum(s.size * s.dtype.itemsize for s in moment_shapes)
    check_memory(moment_bytes + (num_bytes if store is None else 0), position_every > 0)
    fitting = max(1, _MAX_BYTES_PER_CALL // draw_bytes)
    adapted = _is_adapted(kernel, step_size, num_warmup)
    tuning = list(kernel.tuning(kernel.first_step_size if adapted else step_size))
    settings = {
        "num_chains": num_chains,
        "num_warmup": num_warmup,
        "thin": thin,
        "seed": seed,
        "step_size": step_size if isinstance(step_size, str) else np.asarray(step_size).tolist(),
        "store_positions": position_every,
        "group_size": group_size,
    }
    if isinstance(kernel, Tempered):
        settings["schedule"] = "adapt" if kernel.schedule is None else list(kernel.schedule)

    def session(signals: Pending, opened: Store | None) -> Session:
        return Session(
            posterior=posterior,
            program=Program(
                kernel=kernel,
                record=tuple(record.items()),
                moments=tuple(moments.items()),
                store_positions=position_every > 0,
                capacity=min(num_samples, fitting, chunk_size or num_samples),
                group_size=group_size,
                mesh=chain_mesh(num_chains // group_size),
            ),
            adaptation=adaptation_of(kernel, num_warmup, posterior, sizes_are_given=not adapted),
            tuning=tuning,
            num_chains=num_chains,
            num_warmup=num_warmup,
            num_samples=num_samples,
            thin=thin,
            seed=seed,
            position_every=position_every,
            chunk_size=chunk_size,
            until=until,
            progress=make_progress(progress),
            signals=signals,
            store=opened,
        )

    if store is None:
        return session(Pending(), None).run(positions)
    identity = identity_of(
        posterior,
        kernel,
        traced(tuning),
        record=record,
        moments=moments,
        initial_positions=positions,
        settings=settings,
    )
    path = Path(store)
    check_room(path, num_bytes + moment_bytes)
    with (
        deferred_signals() as signals,
        opened_for_writing(path, identity, resume=resume, force=force) as opened,
    ):
        return session(signals, opened).run(positions)


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


def _checked_positions(positions: Any, posterior: Posterior, num_chains: int) -> Any:
    """`initial_positions` as an array (chains, z)."""
    if positions is None:
        return None
    positions = jnp.asarray(positions, dtype=float)
    shape = (num_chains, posterior.prior.num_coordinates)
    if positions.shape != shape:
        raise UserValueError(
            f"initial_positions must have shape (num_chains, num_coordinates) = {shape}, "
            f"got {positions.shape}."
        )
    return positions


def _check_steps(num_steps: int) -> None:
    if num_steps >= 2**32:
        raise UserValueError(
            f"a chain of {num_steps:,} steps is too long: the global step, from which every key "
            "comes, must stay below 2**32. Thin less or keep fewer draws."
        )


def _is_adapted(kernel: Kernel, step_size: Any, num_warmup: int) -> bool:
    """Whether step sizes are to be found; fixed ones are checked by the kernel."""
    if isinstance(kernel, Tempered) and kernel.schedule is None and num_warmup < MIN_WARMUP:
        raise UserValueError(
            f"tempered needs num_warmup >= {MIN_WARMUP}, got {num_warmup}: the schedule is found "
            "in warm-up. Use e.g. num_warmup=2000, or tc.tempered(..., schedule=(1, ..., 0))."
        )
    if not isinstance(step_size, str):
        kernel.check_step_size(step_size)
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
