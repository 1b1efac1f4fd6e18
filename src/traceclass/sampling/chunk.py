"""The compiled part of a run: some draws of all chains, from one state to the next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int, Key, PyTree

from traceclass.kernels.base import Kernel, Tuning
from traceclass.kernels.parts import moves_of
from traceclass.kernels.states import GradientState
from traceclass.posterior import Posterior
from traceclass.sampling.functionals import Functional, recordable
from traceclass.sampling.moments import Moments, add_draw

# Under this name, gradients of the log-likelihood are among the draws of warm-up.
GRADIENT = "warmup/gradient"
# From this number of coordinates on, the matrix products of one chain are worth more than one core.
_LARGE = 50_000


class Program(NamedTuple):
    """All of a run that is fixed when it is compiled."""

    kernel: Kernel
    record: tuple[tuple[str, Functional], ...]
    moments: tuple[tuple[str, Functional], ...]
    store_positions: bool
    # Whether warm-up is told the gradient of the log-likelihood at every step.
    shows_gradients: bool
    # Whether every chain is tuned by itself: what is tuned then has a leading axis chains.
    tunes_chains: bool
    capacity: int
    group_size: int
    mesh: Mesh


class Chain(NamedTuple):
    """One chain between chunks; a run carries an array of them (leading axis chains)."""

    number: Int[Array, ""]
    state: Any
    moments: dict[str, Moments]


class Tally(NamedTuple):
    """Sums over the steps of a draw, one for each of the kernel's moves (trailing axis moves).

    JAX arrays in the program, NumPy arrays on the host.
    """

    acceptance_rate: Any
    accepted: Any
    nonfinite: Any
    tried: Any


class Schedule(NamedTuple):
    """How far to go; all traced, so one compilation serves warm-up and sampling."""

    first_step: Int[Array, ""]
    num_draws: Int[Array, ""]
    steps_per_draw: Int[Array, ""]
    # Whether draws are kept, and whether they are warm-up's, of which gradients are wanted and no
    # running moments.
    keep: Any
    is_warmup: Any


def traced(tuning: Sequence[Tuning]) -> tuple[Tuning, ...]:
    """What is tuned, as the arrays that the compiled program takes."""

    def as_arrays(name: str, value: Any) -> Any:
        dtype = jnp.int32 if name == "num_kicks" else float
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=dtype), value)

    return tuple({n: as_arrays(n, value) for n, value in of_move.items()} for of_move in tuning)


def _advance(
    program: Program,
    posterior: Posterior,
    tuning: tuple[Tuning, ...],
    key: Key[Array, ""],
    chains: Chain,
    schedule: Schedule,
) -> tuple[Chain, Tally, PyTree]:
    """`num_draws` draws, `steps_per_draw` steps apart, of every chain on its device.

    The key of a step comes from (key, chain, global step) alone, so draws do not depend on how
    a run is cut into chunks. Chains are vmapped in groups of a fixed size, and a device runs its
    groups one after the other: rounding depends on how many chains are computed together, and so
    it does not depend on the number of devices.

    Returns the chains, one tally per draw, and the draws; entries of these two past `num_draws`
    are void.
    """
    arrays, static = eqx.partition(posterior, eqx.is_array)

    def of_device(arrays: Any, tuning: Any, key: Array, chains: Chain, schedule: Schedule):
        posterior = eqx.combine(arrays, static)
        run = partial(_advance_chain, program, posterior, key, schedule)
        if program.tunes_chains:
            return jax.lax.map(lambda pair: run(*pair), (tuning, chains), batch_size=size)
        return jax.lax.map(partial(run, tuning), chains, batch_size=size)

    size = program.group_size
    everywhere, by_chain = PartitionSpec(), PartitionSpec("chains")
    of_tuning = by_chain if program.tunes_chains else everywhere
    return jax.shard_map(
        of_device,
        mesh=program.mesh,
        in_specs=(everywhere, of_tuning, everywhere, by_chain, everywhere),
        out_specs=by_chain,
        check_vma=False,
    )(arrays, tuning, key, chains, schedule)


# XLA shares every matrix product among all cores; where they are small this makes a solve of the
# groundwater problem three times slower, and chains are shared among cores already.
_by_one_thread = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
    _advance, compiler_options={"xla_cpu_multi_thread_eigen": False}
)
_by_many_threads = eqx.filter_jit(_advance)


def advance(program: Program, posterior: Posterior, *state: Any) -> tuple[Chain, Tally, PyTree]:
    """`_advance` with the same arguments; compiled once per program and posterior of one shape."""
    is_small = posterior.prior.num_coordinates < _LARGE
    compiled = _by_one_thread if is_small else _by_many_threads
    return compiled(program, posterior, *state)


def _advance_chain(
    program: Program,
    posterior: Posterior,
    key: Array,
    schedule: Schedule,
    tuning: tuple[Tuning, ...],
    chain: Chain,
) -> tuple[Chain, Tally, PyTree]:
    algorithm = program.kernel.assemble(posterior, tuning)
    chain_key = jax.random.fold_in(key, chain.number)

    def one_step(step: Array, carry: tuple[Any, Tally]) -> tuple[Any, Tally]:
        state, tally = carry
        state, info = algorithm.step(jax.random.fold_in(chain_key, step), state)
        return state, jax.tree.map(jnp.add, tally, _tally(info))

    def one_draw(draw: Array, carry: tuple[Chain, Tally, PyTree]) -> tuple[Chain, Tally, PyTree]:
        chain, tallies, draws = carry
        first = schedule.first_step + draw * schedule.steps_per_draw
        state, tally = jax.lax.fori_loop(
            first, first + schedule.steps_per_draw, one_step, (chain.state, _no_tally(program))
        )
        tallies = _set(tallies, draw, tally)
        chain, draws = jax.lax.cond(
            schedule.keep,
            lambda: _keep(program, posterior, schedule, chain._replace(state=state), draw, draws),
            lambda: (chain._replace(state=state), draws),
        )
        return chain, tallies, draws

    blank = jax.eval_shape(partial(_draw_of, program, posterior, schedule), chain.state)
    return jax.lax.fori_loop(
        0,
        schedule.num_draws,
        one_draw,
        (chain, _buffer(program, _no_tally(program)), _buffer(program, blank)),
    )


def _keep(
    program: Program,
    posterior: Posterior,
    schedule: Schedule,
    chain: Chain,
    draw: Array,
    draws: PyTree,
) -> tuple[Chain, PyTree]:
    def with_draw() -> dict[str, Moments]:
        return {
            name: add_draw(chain.moments[name], recordable(functional(chain.state.position)))
            for name, functional in program.moments
        }

    moments = with_draw()
    if program.shows_gradients:
        moments = jax.lax.cond(schedule.is_warmup, lambda: chain.moments, with_draw)
    draws = _set(draws, draw, _draw_of(program, posterior, schedule, chain.state))
    return chain._replace(moments=moments), draws


def _draw_of(
    program: Program, posterior: Posterior, schedule: Schedule, state: Any
) -> dict[str, Any]:
    """What is kept of a state: its log-likelihood, the recorded functionals, the position.

    Where warm-up asks for gradients, that of the log-likelihood is kept of its draws; a kernel
    that has none of its own has it computed.
    """
    position = state.position
    known = getattr(state, "log_likelihood", None)
    kept = {"log_likelihood": posterior.log_likelihood(position) if known is None else known}
    kept |= program.kernel.kept_of(state)
    kept |= {name: recordable(functional(position)) for name, functional in program.record}
    if program.shows_gradients:
        kept[GRADIENT] = _gradient_of(posterior, schedule, state)
    is_wanted = program.store_positions or program.shows_gradients
    return kept | ({"position": position} if is_wanted else {})


def _gradient_of(posterior: Posterior, schedule: Schedule, state: Any) -> Array:
    if isinstance(state, GradientState):
        return state.gradient
    position = state.position
    return jax.lax.cond(
        schedule.is_warmup,
        lambda: posterior.log_likelihood_and_gradient(position)[1],
        lambda: jnp.zeros_like(position),
    )


def _tally(info: Any) -> Tally:
    moves, tried = moves_of(info)
    counts = (moves.is_accepted, moves.is_nonfinite, tried)
    return Tally(moves.acceptance_rate, *(count.astype(jnp.int32) for count in counts))


def _no_tally(program: Program) -> Tally:
    moves = len(program.kernel.moves)
    counts = (jnp.zeros(moves, jnp.int32) for _ in range(3))
    return Tally(jnp.zeros(moves), *counts)


def _buffer(program: Program, like: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.zeros((program.capacity, *leaf.shape), leaf.dtype), like)


def _set(buffer: PyTree, index: Array, value: PyTree) -> PyTree:
    return jax.tree.map(lambda whole, part: whole.at[index].set(part), buffer, value)
