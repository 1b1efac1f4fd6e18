"""The compiled part of a run: some draws of all chains, from one state to the next."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, Key, PyTree

from traceclass.kernels.base import KernelFactory
from traceclass.posterior import Posterior
from traceclass.sampling.functionals import Functional, recordable
from traceclass.sampling.moments import Moments, add_draw, no_moments

MAX_START_TRIES = 100


class Program(NamedTuple):
    """All of a run that is fixed when it is compiled."""

    kernel: KernelFactory
    record: tuple[tuple[str, Functional], ...]
    moments: tuple[tuple[str, Functional], ...]
    store_positions: bool
    capacity: int
    mesh: Mesh


class Chain(NamedTuple):
    """One chain between chunks; a run carries an array of them (leading axis chains)."""

    number: Int[Array, ""]
    state: Any
    moments: dict[str, Moments]


class Tally(NamedTuple):
    """Sums over the steps of a draw; JAX arrays in the program, NumPy arrays on the host."""

    acceptance_rate: Any
    accepted: Any
    nonfinite: Any


class Schedule(NamedTuple):
    """How far to go; all traced, so one compilation serves warm-up and sampling."""

    first_step: Int[Array, ""]
    num_draws: Int[Array, ""]
    steps_per_draw: Int[Array, ""]
    keep: Any


@eqx.filter_jit
def start(
    program: Program,
    posterior: Posterior,
    step_size: Float[Array, ""],
    key: Key[Array, ""],
    num_chains: int,
) -> tuple[Chain, Array]:
    """Chains at prior draws of finite log-likelihood, after at most 100 tries each, and that."""

    def find(number: Array) -> tuple[Chain, Array]:
        chain_key = jax.random.fold_in(key, number)

        def attempt(tries: Any) -> Array:
            return posterior.prior.sample(jax.random.fold_in(chain_key, tries))

        def hopeless(carry: Any) -> Any:
            tries, position = carry
            bad = ~jnp.isfinite(posterior.log_likelihood(position))
            return bad & (tries < MAX_START_TRIES)

        _, position = jax.lax.while_loop(
            hopeless, lambda carry: (carry[0] + 1, attempt(carry[0] + 1)), (0, attempt(0))
        )
        return _chain(program, posterior, step_size, number, position)

    return jax.vmap(find)(jnp.arange(num_chains))


@eqx.filter_jit
def start_at(
    program: Program,
    posterior: Posterior,
    step_size: Float[Array, ""],
    positions: Float[Array, "chains z"],
) -> tuple[Chain, Array]:
    """Chains at the given positions, and their log-likelihoods."""
    chain_at = partial(_chain, program, posterior, step_size)
    return jax.vmap(chain_at)(jnp.arange(len(positions)), positions)


def _chain(
    program: Program, posterior: Posterior, step_size: Array, number: Array, position: Array
) -> tuple[Chain, Array]:
    algorithm = program.kernel(posterior, step_size)
    moments = {
        name: no_moments(_shape_of(functional, position)) for name, functional in program.moments
    }
    # Some of BlackJAX's algorithms draw a momentum at the start.
    key = jax.random.fold_in(jax.random.key(0), number)
    chain = Chain(number, algorithm.init(position, key), moments)
    return chain, posterior.log_likelihood(position)


@eqx.filter_jit
def advance(
    program: Program,
    posterior: Posterior,
    step_size: Float[Array, ""],
    key: Key[Array, ""],
    chains: Chain,
    schedule: Schedule,
) -> tuple[Chain, Tally, PyTree]:
    """`num_draws` draws, `steps_per_draw` steps apart, of every chain on its device.

    The key of a step comes from (key, chain, global step) alone, so draws do not depend on how
    a run is cut into chunks. Returns the chains, tallies a draw, and the draws; entries of these
    two past `num_draws` are void.
    """
    arrays, static = eqx.partition(posterior, eqx.is_array)

    def of_device(arrays: Any, step_size: Array, key: Array, chains: Chain, schedule: Schedule):
        posterior = eqx.combine(arrays, static)
        run = partial(_advance_chain, program, posterior, step_size, key, schedule)
        return jax.vmap(run)(chains)

    everywhere, by_chain = PartitionSpec(), PartitionSpec("chains")
    return jax.shard_map(
        of_device,
        mesh=program.mesh,
        in_specs=(everywhere, everywhere, everywhere, by_chain, everywhere),
        out_specs=by_chain,
        check_vma=False,
    )(arrays, step_size, key, chains, schedule)


def _advance_chain(
    program: Program,
    posterior: Posterior,
    step_size: Array,
    key: Array,
    schedule: Schedule,
    chain: Chain,
) -> tuple[Chain, Tally, PyTree]:
    algorithm = program.kernel(posterior, step_size)
    chain_key = jax.random.fold_in(key, chain.number)

    def one_step(step: Array, carry: tuple[Any, Tally]) -> tuple[Any, Tally]:
        state, tally = carry
        state, info = algorithm.step(jax.random.fold_in(chain_key, step), state)
        return state, jax.tree.map(jnp.add, tally, _tally(info))

    def one_draw(draw: Array, carry: tuple[Chain, Tally, PyTree]) -> tuple[Chain, Tally, PyTree]:
        chain, tallies, draws = carry
        first = schedule.first_step + draw * schedule.steps_per_draw
        state, tally = jax.lax.fori_loop(
            first, first + schedule.steps_per_draw, one_step, (chain.state, _no_tally())
        )
        tallies = _set(tallies, draw, tally)
        chain, draws = jax.lax.cond(
            schedule.keep,
            lambda: _keep(program, posterior, chain._replace(state=state), draw, draws),
            lambda: (chain._replace(state=state), draws),
        )
        return chain, tallies, draws

    blank = jax.eval_shape(partial(_draw_of, program, posterior), chain.state)
    return jax.lax.fori_loop(
        0,
        schedule.num_draws,
        one_draw,
        (chain, _buffer(program, _no_tally()), _buffer(program, blank)),
    )


def _keep(
    program: Program, posterior: Posterior, chain: Chain, draw: Array, draws: PyTree
) -> tuple[Chain, PyTree]:
    moments = {
        name: add_draw(chain.moments[name], recordable(functional(chain.state.position)))
        for name, functional in program.moments
    }
    draws = _set(draws, draw, _draw_of(program, posterior, chain.state))
    return chain._replace(moments=moments), draws


def _draw_of(program: Program, posterior: Posterior, state: Any) -> dict[str, Any]:
    """What is kept of a state: its log-likelihood, the recorded functionals, the position."""
    position = state.position
    known = getattr(state, "log_likelihood", None)
    kept = {"log_likelihood": posterior.log_likelihood(position) if known is None else known}
    kept |= {name: recordable(functional(position)) for name, functional in program.record}
    return kept | ({"position": position} if program.store_positions else {})


def _tally(info: Any) -> Tally:
    """Our names are BlackJAX's; its kernels lack some, and MCLMC has no rejections at all."""
    rate = jnp.asarray(getattr(info, "acceptance_rate", 1.0), dtype=float)
    accepted = getattr(info, "is_accepted", rate > 0)
    nonfinite = getattr(info, "is_nonfinite", jnp.isnan(rate))
    return Tally(rate, accepted.astype(jnp.int32), nonfinite.astype(jnp.int32))


def _no_tally() -> Tally:
    return Tally(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def _buffer(program: Program, like: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.zeros((program.capacity, *leaf.shape), leaf.dtype), like)


def _set(buffer: PyTree, index: Array, value: PyTree) -> PyTree:
    return jax.tree.map(lambda whole, part: whole.at[index].set(part), buffer, value)


def _shape_of(functional: Functional, position: Array) -> Array:
    shape = jax.eval_shape(lambda z: functional(z), position)
    return jnp.zeros(shape.shape, jnp.result_type(float))
