"""Where chains begin: at draws of the prior where all is finite, or at given positions."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from traceclass.errors import UserValueError
from traceclass.kernels.base import Tuning
from traceclass.posterior import Posterior
from traceclass.sampling.chunk import Chain, Program
from traceclass.sampling.functionals import Functional
from traceclass.sampling.moments import no_moments

MAX_START_TRIES = 100
# Among these each start of `shrunken_draws` is found.
SHRINKAGE = tuple(2.0**-k for k in range(8))


@eqx.filter_jit
def start(
    program: Program,
    posterior: Posterior,
    tuning: tuple[Tuning, ...],
    key: Key[Array, ""],
    num_chains: int,
    chains_per_start: int = 1,
) -> tuple[Chain, Array, Array]:
    """Chains at draws where all is finite, after at most 100 tries each; see `_chain`.

    So many chains, one after another, begin at the same draw. The draws are from the prior, or from
    the first reference that a move of the kernel has in its place.
    """

    references = [move.reference for move in program.kernel.moves if move.reference is not None]

    def find(tuning: Any, number: Array) -> tuple[Chain, Array, Array]:
        algorithm = program.kernel.assemble(posterior, tuning)
        chain_key = jax.random.fold_in(key, number // chains_per_start)

        def attempt(tries: Any) -> Array:
            begin = references[0] if references else posterior.prior
            return begin.sample(jax.random.fold_in(chain_key, tries))

        def hopeless(carry: Any) -> Any:
            tries, position = carry
            return ~_is_finite(algorithm.init(position, key)) & (tries < MAX_START_TRIES - 1)

        _, position = jax.lax.while_loop(
            hopeless, lambda carry: (carry[0] + 1, attempt(carry[0] + 1)), (0, attempt(0))
        )
        return _chain(program, posterior, tuning, key, number, position)

    return jax.vmap(find, (_axis(program), 0))(tuning, jnp.arange(num_chains))


def _axis(program: Program) -> int | None:
    """The axis of what is tuned that belongs to chains, if they are tuned apart."""
    return 0 if program.tunes_chains else None


@eqx.filter_jit
def start_at(
    program: Program,
    posterior: Posterior,
    tuning: tuple[Tuning, ...],
    key: Key[Array, ""],
    positions: Float[Array, "chains z"],
) -> tuple[Chain, Array, Array]:
    """Chains at the given positions; see `_chain`."""

    def chain_at(tuning: Any, number: Array, position: Array) -> tuple[Chain, Array, Array]:
        return _chain(program, posterior, tuning, key, number, position)

    each = jax.vmap(chain_at, (_axis(program), 0, 0))
    return each(tuning, jnp.arange(len(positions)), positions)


def shrunken_draws(
    posterior: Posterior, key: Key[Array, ""], num_chains: int
) -> Float[Array, "chains z"]:
    r"""A start for each chain: the best point on the way from zero to a draw of the prior.

        c z,   z ~ N(0, I),   c = argmax over 1, 1/2, ..., 1/128 of l(c z)

    To be given to `tc.sample` as `initial_positions`. The log-likelihood of prior draws themselves
    may be thousands below l(0), and chains from there take long to arrive; zero itself is a saddle
    where functions are symmetric, as networks are.
    """
    draws = jax.vmap(posterior.prior.sample)(jax.random.split(key, num_chains))
    shrunk = jnp.asarray(SHRINKAGE)[:, None, None] * draws
    flat = shrunk.reshape(-1, draws.shape[-1])
    log_likelihoods = jax.jit(lambda z: jax.lax.map(posterior.log_likelihood, z))(flat)
    best = jnp.argmax(log_likelihoods.reshape(len(SHRINKAGE), num_chains), axis=0)
    return shrunk[best, jnp.arange(num_chains)]


def _chain(
    program: Program,
    posterior: Posterior,
    tuning: tuple[Tuning, ...],
    key: Key[Array, ""],
    number: Array,
    position: Array,
) -> tuple[Chain, Array, Array]:
    """A chain at a position, the log-likelihood there, and whether all of its state is finite."""
    algorithm = program.kernel.assemble(posterior, tuning)
    moments = {
        name: no_moments(_shape_of(functional, position)) for name, functional in program.moments
    }
    # Some of BlackJAX's algorithms draw a momentum at the start; tries of a start count from 0.
    key_init = jax.random.fold_in(jax.random.fold_in(key, number), MAX_START_TRIES)
    chain = Chain(number, algorithm.init(position, key_init), moments)
    return chain, posterior.log_likelihood(position), _is_finite(chain.state)


def _is_finite(state: Any) -> Array:
    """Whether the log-likelihood and all else that a kernel keeps (its gradient) is finite."""
    floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in floats]).all()


def _shape_of(functional: Functional, position: Array) -> Array:
    shape = jax.eval_shape(lambda z: functional(z), position)
    return jnp.zeros(shape.shape, jnp.result_type(float))


@contextlib.contextmanager
def gradients_in_words() -> Generator[None, None, None]:
    """Say in words what a gradient cannot go through: code of others, called back by JAX."""
    try:
        yield
    except ValueError as error:
        if "callbacks do not support JVP" not in str(error):
            raise
        raise UserValueError(
            "this kernel needs the gradient of the log-likelihood, and JAX has none of "
            'jax.pure_callback. Use tc.pcn or tc.elliptical_slice, without reference="adapt", or '
            "give it a gradient by jax.custom_vjp."
        ) from error


def check_start(log_likelihoods: np.ndarray, finite: np.ndarray, *, given: bool) -> None:
    """Refuse a start where the log-likelihood or its gradient is not finite, by the first chain."""
    hopeless = np.flatnonzero(~finite)
    if hopeless.size:
        first = int(hopeless[0])
        where = "its initial position" if given else f"{MAX_START_TRIES} prior draws in a row"
        what = f"the log-likelihood is {log_likelihoods[first]}"
        if np.isfinite(log_likelihoods[first]):
            what = "the gradient of the log-likelihood is not finite"
        raise UserValueError(
            f"chain {first} cannot start: {what} at {where}. "
            "Check the data and the likelihood, or pass initial_positions= where it is finite."
        )
