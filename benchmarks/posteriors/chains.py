"""Chains of BlackJAX's kernels over the same devices as ours, each with a tuning of its own.

`tc.sample` runs a kernel with one step size and one metric for all chains. Here each chain has what
its own warm-up found, and devices share the chains as they do in `tc.sample`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Key

from benchmarks.posteriors.problems import Problem
from traceclass.sampling.devices import chain_mesh

# Small matrix products are not worth more than one core, and chains have the cores already; so are
# our own programs compiled.
COMPILER_OPTIONS: dict[str, str | bool] = {"xla_cpu_multi_thread_eigen": False}
# Draws that one call of the program has room for.
CAPACITY = 200
# A call takes at most this share of the time, so that the last one does not end far too late.
SHARE = 0.05
# Chains that are computed together: what is faster depends on the posterior, since vmapped chains
# use the vector registers of a core better and wait for the longest trajectory. Each is tried for
# so many seconds, and the faster one draws.
GROUPS, TRIAL = (1, 4), 2.0
# The first draw, and how many.
_NO_DRAWS = (np.int32(0), np.int32(0))
# Any fixed number sets these keys apart from those of the starts.
_STEPS = 0x57E9


# Keys, states and tunings of chains that are warm, each with a leading axis chains.
Chains = tuple[Any, Any, Any]


class Work(NamedTuple):
    """What a step did; in a draw, sums over its steps."""

    acceptance: Any
    gradients: Any
    divergences: Any


class Warm(NamedTuple):
    """Chains after warm-up: states and what was tuned, both with a leading axis chains."""

    state: Any
    tuning: Any
    seconds: float
    compile_seconds: float


class Peer(NamedTuple):
    """A kernel of BlackJAX: its warm-up, and how a chain that is warm steps.

    `warm_up` maps a key and starts (chains, z) to `Warm`; `step` maps a key, a state and a tuning
    to a state and its `Work`. `thin` steps make a draw.
    """

    warm_up: Callable[[Key[Array, ""], Array], Warm]
    step: Callable[[Key[Array, ""], Any, Any], tuple[Any, Work]]
    thin: int


class Drawn(NamedTuple):
    """The draws of one cell, (chains, draws) and (chains, draws, predictions), and their cost.

    `evaluations` counts gradients of the log-likelihood, or its values for kernels that use none.
    """

    predictions: np.ndarray
    log_likelihood: np.ndarray
    acceptance: float
    evaluations: float
    uses_gradients: bool
    divergences: int
    seconds: float
    warmup_seconds: float
    compile_seconds: float
    chains_together: int


def over_devices(function: Callable[..., Any], num_chains: int, group: int) -> Callable[..., Any]:
    """(shared, of_chains) -> results of chains, from a function (shared, of_chain) of one of them.

    Devices share the groups of chains, and each runs its groups one after the other. A group of
    one is not vmapped at all: loops then end, and branches are left out, for that chain alone.
    """

    def of_device(shared: Any, of_chains: Any) -> Any:
        size = None if group == 1 else group
        return jax.lax.map(partial(function, shared), of_chains, batch_size=size)

    everywhere, by_chain = PartitionSpec(), PartitionSpec("chains")
    return jax.shard_map(
        of_device,
        mesh=chain_mesh(num_chains // group),
        in_specs=(everywhere, by_chain),
        out_specs=by_chain,
        check_vma=False,
    )


def compiled(function: Callable[..., Any], *arguments: Any) -> tuple[Callable[..., Any], float]:
    """The function as a program for these arguments, and the seconds that compiling it took."""
    began = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile(COMPILER_OPTIONS)
    return program, time.perf_counter() - began


def each_by_itself(
    warm_up: Callable[[Key[Array, ""], Array], tuple[Any, Any]],
) -> Callable[[Key[Array, ""], Array], Warm]:
    """The warm-up of all chains, from that of one: (key, start) -> (state, tuning).

    It is not vmapped: a metric would be estimated at every step, to be used at the end of windows.
    """

    def of_all(key: Key[Array, ""], starts: Array) -> Warm:
        arguments = ((), (jax.random.split(key, len(starts)), starts))
        function = over_devices(lambda _, pair: warm_up(*pair), len(starts), group=1)
        program, compile_seconds = compiled(function, *arguments)
        began = time.perf_counter()
        state, tuning = jax.block_until_ready(program(*arguments))
        return Warm(state, tuning, time.perf_counter() - began, compile_seconds)

    return of_all


def run(peer: Peer, problem: Problem, starts: Array, seconds: float) -> Drawn:
    """Warm-up, then draws for so many seconds."""
    key_warm_up, key_steps = jax.random.split(jax.random.key(_STEPS))
    warm = peer.warm_up(key_warm_up, starts)
    num_chains = len(jax.tree.leaves(warm.state)[0])
    chains = (jax.random.split(key_steps, num_chains), warm.state, warm.tuning)
    programs = {group: _program(peer, problem, chains, group) for group in GROUPS}
    fastest = max(GROUPS, key=lambda group: _rate(programs[group][0], chains))
    draws, taken = _draw_for(programs[fastest][0], chains, seconds)
    values, log_likelihood, work = jax.tree.map(_joined, *draws)
    return Drawn(
        predictions=values,
        log_likelihood=log_likelihood,
        acceptance=float(work.acceptance.mean(dtype=np.float64)) / peer.thin,
        evaluations=float(work.gradients.sum(dtype=np.float64)),
        uses_gradients=True,
        divergences=int(work.divergences.sum()),
        seconds=taken,
        warmup_seconds=warm.seconds,
        compile_seconds=warm.compile_seconds + sum(took for _, took in programs.values()),
        chains_together=fastest,
    )


def _program(
    peer: Peer, problem: Problem, chains: Chains, group: int
) -> tuple[Callable[..., Any], float]:
    """(schedule, chains) -> (states, draws), with `group` chains computed together."""

    def advance(schedule: tuple[Array, Array], chain: Chains) -> tuple[Any, Any]:
        return _some_draws(peer, problem, schedule, *chain)

    return compiled(over_devices(advance, len(chains[0]), group), _NO_DRAWS, chains)


def _joined(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=1)


def _rate(program: Callable[..., Any], chains: Chains) -> float:
    """Gradients per second in a trial whose draws are forgotten."""
    draws, taken = _draw_for(program, chains, TRIAL)
    return sum(float(work.gradients.sum()) for *_, work in draws) / taken


def _draw_for(
    program: Callable[..., Any], chains: Chains, seconds: float
) -> tuple[list[Any], float]:
    """Calls of the program until the time is over: their draws, and the time they took."""
    (keys, state, tuning), parts, done, size = chains, [], 0, 1
    jax.block_until_ready(program(_NO_DRAWS, chains))
    began = time.perf_counter()
    while (before := time.perf_counter() - began) < seconds:
        schedule = (np.int32(done), np.int32(size))
        state, draws = program(schedule, (keys, state, tuning))
        parts.append(jax.tree.map(lambda a, size=size: np.asarray(a)[:, :size].copy(), draws))
        done += size
        rate = size / (time.perf_counter() - began - before)
        size = int(np.clip(SHARE * seconds * rate, 1, min(2 * size, CAPACITY)))
    return parts, time.perf_counter() - began


def _some_draws(
    peer: Peer, problem: Problem, schedule: tuple[Array, Array], key: Array, state: Any, tuning: Any
) -> tuple[Any, Any]:
    """Draws `first`, `first` + 1, ... of one chain; entries past their number are void."""
    first, count = schedule

    def one_step(step: Array, carry: tuple[Any, Work]) -> tuple[Any, Work]:
        state, total = carry
        state, work = peer.step(jax.random.fold_in(key, step), state, tuning)
        return state, jax.tree.map(jnp.add, total, work)

    def one_draw(number: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, draws = carry
        begin = (first + number) * peer.thin
        nothing = Work(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        state, work = jax.lax.fori_loop(begin, begin + peer.thin, one_step, (state, nothing))
        draw = (*_looked_at(problem, state), work)
        return state, jax.tree.map(lambda whole, one: whole.at[number].set(one), draws, draw)

    blank = jax.eval_shape(partial(_looked_at, problem), state)
    count_of = jax.ShapeDtypeStruct((), jnp.int32)
    like = (*blank, Work(jax.ShapeDtypeStruct((), jnp.float32), count_of, count_of))
    room = jax.tree.map(lambda leaf: jnp.zeros((CAPACITY, *leaf.shape), leaf.dtype), like)
    return jax.lax.fori_loop(0, count, one_draw, (state, room))


def _looked_at(problem: Problem, state: Any) -> tuple[Array, Array]:
    """The predictions at a state and the log-likelihood, l = log density + |z|^2 / 2."""
    z = state.position
    return jnp.ravel(problem.predictions(z)), state.logdensity + 0.5 * jnp.vdot(z, z)
