"""Several kernels in turn, as one."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Key

from traceclass.kernels.base import KernelFactory
from traceclass.kernels.composition import Composition, compose
from traceclass.kernels.metropolis import sampling_algorithm
from traceclass.kernels.parts import CompositionInfo, Part, entry_key, joined, leading, moves_of
from traceclass.validation import no_type_check


def _cycle(parts: tuple[Part, ...]) -> Any:
    lead = leading(parts)

    def step(rng_key: Key[Array, ""], state: Any) -> tuple[Any, CompositionInfo]:
        infos = []
        for key, part in zip(jax.random.split(rng_key, len(parts)), parts, strict=True):
            state, info = part.algorithm.step(key, part.entered(state, entry_key(key)))
            infos.append(moves_of(info))
        return lead.entered(state, entry_key(rng_key)), joined(infos)

    return sampling_algorithm(lead.algorithm.init, step)


@no_type_check
def cycle(*kernels: KernelFactory) -> Composition:
    """A kernel whose step is one step of each of `kernels`, in this order.

    Each leaves the posterior invariant, so their product does; it is not reversible. The cached
    log-likelihood and gradient go along: a kernel hands its state on to the next, and what the
    next one lacks is computed at the new position. In `tc.sample`, every part's step size is
    adapted on its own; a fixed `step_size` is a number, or a tuple if several parts have one.

    >>> import traceclass as tc
    >>> kernel = tc.cycle(tc.hmc, tc.node_swap)
    >>> print(*(move.name for move in kernel.moves))
    hmc node_swap
    """
    return compose(_cycle, kernels)
