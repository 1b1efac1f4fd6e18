"""NodeSwap: two neighbouring nodes change places, and the function stays what it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from traceclass.kernels.base import kernel
from traceclass.kernels.metropolis import MetropolisInfo, decide, sampling_algorithm
from traceclass.kernels.nodes import (
    NodeTable,
    Pair,
    log_prior_ratio,
    no_pair,
    node_table,
    read,
    write,
)
from traceclass.kernels.states import init
from traceclass.posterior import Posterior


def _exchange(vector: Array, pair: Pair, ratio: Array, is_accepted: Array) -> Array:
    """`nodes.swap` if accepted; only the swapped entries are touched in either case."""
    a, b = read(vector, pair.first), read(vector, pair.second)
    vector = write(vector, pair.first, jnp.where(is_accepted, ratio * b, a))
    return write(vector, pair.second, jnp.where(is_accepted, a / ratio, b))


def _step(
    table: NodeTable | None, posterior: Posterior, rng_key: Key[Array, ""], state: Any
) -> tuple[Any, MetropolisInfo]:
    if table is None:
        return no_pair(state)
    key_pair, key_accept = jax.random.split(rng_key)
    pair = table.at(state.position).pick(key_pair)
    is_accepted, info = decide(key_accept, log_prior_ratio(state.position, pair), state)
    position = _exchange(state.position, pair, pair.ratio, is_accepted)
    state = state._replace(position=position)
    if hasattr(state, "gradient") and table.alpha_of is not None:
        # What alpha does to the function depends on which node has which weights.
        state = state._replace(gradient=posterior.log_likelihood_and_gradient(position)[1])
    elif hasattr(state, "gradient"):
        # l(theta') = l(theta), so the gradient in theta is permuted too; in whitened coordinates
        # it carries the inverse factor.
        gradient = _exchange(state.gradient, pair, 1 / pair.ratio, is_accepted)
        state = state._replace(gradient=gradient)
    return state, info


@kernel(keeps_any_state=True)
def node_swap(posterior: Posterior, step_size: Any = None, law: str = "geometric") -> Any:
    r"""Swap nodes i and i + 1 of a hidden layer with all their weights (Algorithm 1).

    The layer is uniform among those with two nodes or more; the pair i = 1, ..., N_l - 1 follows
    `law`: "geometric" with P(i) ~ (1 - 1/alpha)^(i-1) (Algorithm 1; uniform for alpha <= 1, where
    that law does not exist), "power" with P(i) ~ i^-alpha (the Lemma), or "uniform". The function
    is unchanged, so the move is accepted with probability min(1, mu_0(theta') / mu_0(theta)), which
    needs the swapped entries only.

    It does not reach other functions: use it in `tc.cycle`. It does not exist at infinite width,
    and its acceptance rate falls with width (Lemma); see `block_node_swap`. Where no layer has two
    nodes it does nothing. `step_size` is ignored.
    """
    del step_size
    table = node_table(posterior, law, move="node_swap")
    return sampling_algorithm(partial(init, posterior), partial(_step, table, posterior))
