"""One of several kernels at random, as one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from traceclass.arrays import as_doubles
from traceclass.errors import UserValueError
from traceclass.kernels.base import KernelFactory
from traceclass.kernels.composition import Composition, compose
from traceclass.kernels.metropolis import MetropolisInfo, sampling_algorithm
from traceclass.kernels.parts import CompositionInfo, Part, entry_key, joined, leading, moves_of
from traceclass.validation import no_type_check


def _mixture(parts: tuple[Part, ...], weights: tuple[float, ...]) -> Any:
    lead = leading(parts)

    def run(chosen: int, key: Array, state: Any) -> tuple[Any, CompositionInfo]:
        """One step of a part, and what happened in the form that all branches share."""
        part = parts[chosen]
        after, info = part.algorithm.step(key, part.entered(state, entry_key(key)))
        infos = [_not_tried(other, state) for other in parts]
        infos[chosen] = moves_of(info)
        return lead.entered(after, entry_key(entry_key(key))), joined(infos)

    def step(rng_key: Key[Array, ""], state: Any) -> tuple[Any, CompositionInfo]:
        key_part, key_step = jax.random.split(rng_key)
        log_weights = jnp.log(jnp.asarray(weights, dtype=float))
        chosen = jax.random.categorical(key_part, log_weights)
        branches = [partial(run, number) for number in range(len(parts))]
        return jax.lax.switch(chosen, branches, key_step, state)

    return sampling_algorithm(lead.algorithm.init, step)


def _not_tried(part: Part, state: Any) -> tuple[MetropolisInfo, Array]:
    """The info of a part that was left out, in the shape it has when it runs."""
    key = jax.random.key(0)
    shape = jax.eval_shape(
        lambda s: moves_of(part.algorithm.step(key, part.entered(s, key))[1]), state
    )
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)


@no_type_check
def mixture(*kernels: KernelFactory, weights: Sequence[float] | None = None) -> Composition:
    """A kernel whose step is one step of one of `kernels`, chosen with probabilities `weights`.

    Equal weights if None. It is reversible if its parts are. States are kept consistent as in
    `cycle`. Chains are vmapped and choose apart, so every step computes all parts and keeps one:
    `cycle` gives more for the same time, unless reversibility is wanted.
    """
    chosen = np.full(len(kernels), 1.0) if weights is None else as_doubles(weights, "weights")
    if chosen.shape != (len(kernels),) or not (np.isfinite(chosen) & (chosen > 0)).all():
        raise UserValueError(
            f"weights must hold one positive number for each of the {len(kernels)} kernels, got "
            f"{weights}."
        )
    probabilities = tuple(float(w) for w in chosen / chosen.sum()) if len(kernels) else ()
    return compose(_mixture, kernels, weights=probabilities)
