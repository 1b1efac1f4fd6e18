"""Chains over the cores of a host with one device: threads that call the same program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.kernels.base import Tuning
from traceclass.posterior import Posterior
from traceclass.sampling.chunk import Chain, Program, Schedule, Tally, advance
from traceclass.sampling.functionals import Functional
from traceclass.sampling.thread_settings import can_be_carried, carried, own_settings

# What calls a function for each of several arguments, in turn or side by side.
ForEach = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def in_turn(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """The function of each argument, one after the other."""
    return [function(argument) for argument in arguments]


@contextlib.contextmanager
def side_by_side(number: int) -> Generator[ForEach, None, None]:
    """The function of each argument, by threads that have this one's settings of JAX.

    Whatever ends the block, e.g. Ctrl-C, it is left when the calls at hand have returned.
    """
    if number == 1:
        yield in_turn
        return
    settings = own_settings()

    def with_settings(function: Callable[[Any], Any], argument: Any) -> Any:
        with carried(settings):
            return function(argument)

    with ThreadPoolExecutor(number) as pool:
        yield lambda function, arguments: list(
            pool.map(partial(with_settings, function), arguments)
        )


def hindrance(posterior: Posterior, functionals: Sequence[Functional]) -> str:
    """Why threads must not compute these side by side, and what to do; empty if they may."""
    if not can_be_carried(own_settings()):
        return (
            "a setting of JAX was made by a context manager, for one thread alone. Make it by "
            "jax.config.update"
        )
    z = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), jnp.result_type(float))
    if any(_calls_back(function, z) for function in (posterior.log_likelihood, *functionals)):
        return (
            "JAX calls Python code back, which may not be made for several threads. If it is, call "
            "tc.use_cpu_devices() before anything is computed"
        )
    return ""


def _calls_back(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether JAX calls Python code of others when it evaluates a function."""
    # Wrapped, because JAX compares what it traces and modules that hold arrays cannot be.
    traced = jax.make_jaxpr(lambda *given: function(*given))(*arguments)
    return any("callback" in name for name in _primitives(traced))


def _primitives(traced: Any) -> Iterator[str]:
    """Names of the operations of a jaxpr and of those inside it."""
    for equation in getattr(traced, "jaxpr", traced).eqns:
        yield equation.primitive.name
        for part in jax.tree.leaves(list(equation.params.values())):
            if hasattr(part, "jaxpr") or hasattr(part, "eqns"):
                yield from _primitives(part)


def advance_shares(
    for_each: ForEach,
    num_shares: int,
    program: Program,
    posterior: Posterior,
    tuning: tuple[Tuning, ...],
    key: Any,
    chains: Chain,
    schedule: Schedule,
) -> tuple[Chain, Tally, dict[str, np.ndarray]]:
    """`advance`, share by share; tallies and draws come back as arrays of the host, cut to size.

    Shares hold whole groups, which are computed as they are without shares, so the draws are the
    same; and shares are equal, so that one program serves all.
    """
    num_draws = int(schedule.num_draws)

    def of_share(share: Any) -> Any:
        own, cut = share if program.tunes_chains else (tuning, share)
        ended, tally, draws = advance(program, posterior, own, key, cut, schedule)
        kept = draws if schedule.keep else {}
        return ended, jax.tree.map(lambda a: np.asarray(a)[:, :num_draws], (tally, kept))

    shares = _cut(num_shares, (tuning, chains) if program.tunes_chains else chains)
    ended, on_host = zip(*for_each(of_share, shares), strict=True)
    # One share is copied as well: a view would keep the whole buffer alive, of which the draws may
    # be a small part.
    tally, draws = jax.tree.map(lambda *arrays: np.concatenate(arrays), *on_host)
    return _joined(ended), tally, draws


def _cut(number: int, tree: Any) -> Sequence[Any]:
    """A tree of arrays with a leading axis in `number` equal parts."""
    if number == 1:
        return [tree]
    leaves, structure = jax.tree.flatten(tree)
    pieces = zip(*(jnp.split(leaf, number) for leaf in leaves), strict=True)
    return [jax.tree.unflatten(structure, piece) for piece in pieces]


def _joined(parts: Sequence[Any]) -> Any:
    """The opposite of `_cut`."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *parts)
