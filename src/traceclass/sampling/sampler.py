"""`tc.sample`: what a user asks for is checked and handed to a `Session`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jax.sharding import Mesh

from traceclass.errors import UserValueError
from traceclass.kernels.base import KernelFactory, as_kernel
from traceclass.posterior import Posterior, require_posterior
from traceclass.sampling.adaptation.windows import WINDOW
from traceclass.sampling.chunk import Program
from traceclass.sampling.devices import Spread, spread
from traceclass.sampling.functionals import ChainBytes, Functional, chain_bytes, check_memory
from traceclass.sampling.identity import identity_of
from traceclass.sampling.interrupt import Pending, deferred_signals
from traceclass.sampling.progress import make_progress
from traceclass.sampling.run import Run
from traceclass.sampling.session import Session
from traceclass.sampling.settings import Settings, checked_settings
from traceclass.sampling.side_by_side import hindrance
from traceclass.sampling.store import Store, check_room, num_stored, opened_for_writing
from traceclass.sampling.until import Until
from traceclass.validation import require_path

# Draws of one call of the program live on the devices until it ends; a new buffer is made for
# every call, warm-up windows included, so it is kept small.
_MAX_BYTES_PER_CALL = 4 * 2**20
# Within these few bytes there is room for as many draws as short runs keep, so that runs of
# different lengths, or in chunks of different sizes, share one compiled program.
_FEW_BYTES = 2**18
_SHORT = 128


def sample(
    posterior: Posterior,
    kernel: KernelFactory | None = None,
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
    num_starts: int | None = None,
    store: str | os.PathLike[str] | None = None,
    resume: bool = False,
    force: bool = False,
    until: Until | None = None,
    chunk_size: int | None = None,
    group_size: int | None = None,
    progress: bool | str = True,
) -> Run:
    """Run `num_chains` chains of `kernel` on `posterior` and keep `num_samples` draws of each.

    Chains start at draws of the prior and take `num_warmup` steps in which step sizes, for
    `tc.hmc` the number of kicks, and with `reference="adapt"`, or where the data are loud, a
    measure to move by are tuned. What was found is frozen (`run.tuning`), and then `thin` steps
    make each draw that is kept. Chains are spread over the JAX devices there are, or by threads
    over the cores of a host with one.

    The draws depend on the arguments, on the number of chains and on the machine, but neither on
    `chunk_size`, nor on the number of devices, nor on where a run was stopped and resumed.

    Parameters
    ----------
    posterior : Posterior
        What to sample from.
    kernel : Kernel or callable
        `tc.hmc`, `tc.pcn`, ..., a composition of them, or a function (posterior, step_size) that
        returns a BlackJAX algorithm. There is no default: without one, the error says so.
    step_size : float, sequence of floats or "adapt"
        The step size, one per part of a composition that has one, or "adapt": it is then tuned to
        the kernel's target acceptance rate.
    num_chains : int
        Independent chains.
    num_warmup : int
        Steps of each chain before the first draw; at least 400 if something is tuned.
    num_samples : int
        Draws that are kept per chain.
    thin : int, optional
        Steps per draw. None: 10, but 1 for `tc.hmc`.
    seed : int
        The same seed gives the same draws. Below 2**32.
    record : mapping from names to functions, optional
        Functions of a position z whose values are kept for every draw (`run.draws`).
    moments : mapping from names to functions, optional
        Functions of a position whose values are too large to keep: only a running mean and variance
        stay (`run.moments(name)`).
    store_positions : bool or int
        Whether positions are kept; a number k keeps those of every k-th draw. Without them, the
        function cannot be evaluated at new points.
    initial_positions : array (chains, z), optional
        Where chains start; with `num_starts` one row per start. None: at draws of the prior, or of
        the kernel's `reference`.
    num_starts : int, optional
        Chains begin at so many different points, as many chains at each. For many short chains: the
        verdict of `run.summary()` is then by nested R-hat (Margossian et al. 2024), which compares
        the starts and not the chains, and asks for few draws of each. None: a start for each chain.
    store : path, optional
        A directory to which draws and the full state are committed as the run goes on. Memory then
        does not grow with the number of draws, a run that was killed can be resumed, and Ctrl-C and
        SIGTERM commit before they raise `tc.Interrupted`.
    resume : bool
        Go on with the run in `store`, to the same draws bit for bit, or to more of them. Another
        posterior, kernel, setting or version of JAX is refused.
    force : bool
        Go on even with another run; its draws are then of two different runs.
    until : Until, optional
        Goes on beyond `num_samples` until the draws are good enough, e.g. `tc.Until(ess=400)`.
    chunk_size : int, optional
        Draws between two commits. None: commits are timed.
    group_size : int, optional
        Chains that are vmapped together; devices or cores share the groups. None: half of the
        chains, at most 4. With more than two cores use more chains, or smaller groups, which round
        differently.
    progress : bool or str
        Whether to show how far the run is; a string is shown as the name of the run.

    Returns
    -------
    Run
        Draws, moments and diagnostics.
    """
    require_posterior(posterior)
    settings = checked_settings(
        posterior,
        as_kernel(kernel),
        step_size=step_size,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thin=thin,
        seed=seed,
        record=record,
        moments=moments,
        store_positions=store_positions,
        initial_positions=initial_positions,
        num_starts=num_starts,
        until=until,
        chunk_size=chunk_size,
        group_size=group_size,
    )
    if (resume or force) and store is None:
        raise UserValueError("resume and force go on with a stored run: pass store= too.")
    sizes = chain_bytes(posterior, settings.kernel, settings.record, settings.moments)
    over = _spread(posterior, settings)
    program_of = partial(_program, settings, sizes, over.mesh)

    def session(signals: Pending, opened: Store | None) -> Session:
        return Session(
            posterior=posterior,
            settings=settings,
            program_of=program_of,
            spread=over,
            progress=make_progress(progress),
            signals=signals,
            store=opened,
        )

    draws, running = _total_bytes(settings, sizes)
    check_memory(running + (draws if store is None else 0), settings.position_every > 0)
    if store is None:
        return session(Pending(), None).run()
    path = require_path(store, "store")
    check_room(path, _bytes_left(settings, sizes, num_stored(path) if resume else 0))
    identity, words = identity_of(posterior, settings), posterior.described()
    with (
        deferred_signals() as signals,
        opened_for_writing(path, identity, words, resume=resume, force=force) as opened,
    ):
        return session(signals, opened).run()


def _total_bytes(settings: Settings, sizes: ChainBytes) -> tuple[int, int]:
    """Bytes of all draws of all chains, and of their running moments."""
    draws = sizes.kept(settings.num_samples, settings.position_every)
    return settings.num_chains * draws, settings.num_chains * sizes.moments


def _bytes_left(settings: Settings, sizes: ChainBytes, num_done: int) -> int:
    """Bytes that are still to be written when `num_done` draws are stored."""
    left = max(settings.num_samples - num_done, 0)
    return settings.num_chains * (
        sizes.kept(left, settings.position_every) + sizes.moments * (left > 0)
    )


def _spread(posterior: Posterior, settings: Settings) -> Spread:
    functionals = [*settings.record.values(), *settings.moments.values()]
    return spread(
        settings.num_chains, settings.group_size, lambda: hindrance(posterior, functionals)
    )


def _program(settings: Settings, sizes: ChainBytes, mesh: Mesh, is_by_chain: bool) -> Program:
    """All that is fixed when the run is compiled; `is_by_chain` if chains are tuned apart."""
    stores_positions = settings.position_every > 0
    adapts = is_by_chain
    draw_bytes = sizes.draw + (sizes.position if stores_positions or adapts else 0)
    draw_bytes += sizes.position if adapts else 0
    all_chains = settings.num_chains * draw_bytes
    fitting = max(1, _MAX_BYTES_PER_CALL // all_chains)
    wanted = min(settings.num_samples, settings.chunk_size or settings.num_samples)
    least = min(_SHORT, _FEW_BYTES // all_chains)
    room = min(max(wanted, least), fitting)
    return Program(
        kernel=settings.kernel,
        record=tuple(settings.record.items()),
        moments=tuple(settings.moments.items()),
        store_positions=stores_positions,
        shows_gradients=adapts,
        tunes_chains=adapts,
        # A window of warm-up shows all its steps.
        capacity=max(room, WINDOW) if adapts else room,
        group_size=settings.group_size,
        mesh=mesh,
    )
