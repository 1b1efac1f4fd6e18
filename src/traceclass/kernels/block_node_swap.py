"""Block NodeSwap: the first weights of two nodes change places, at any width."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jaxtyping import Array, Key

from traceclass.kernels.base import kernel
from traceclass.kernels.metropolis import MetropolisInfo, accept_or_reject, sampling_algorithm
from traceclass.kernels.nodes import NodeTable, log_prior_ratio, no_pair, node_table, swap
from traceclass.kernels.states import init, init_with_gradient
from traceclass.posterior import Posterior
from traceclass.validation import require_count


def _step(
    posterior: Posterior, table: NodeTable | None, rng_key: Key[Array, ""], state: Any
) -> tuple[Any, MetropolisInfo]:
    if table is None:
        return no_pair(state)
    key_pair, key_accept = jax.random.split(rng_key)
    pair = table.at(state.position).pick(key_pair)
    position = swap(state.position, pair, pair.ratio)
    make = init_with_gradient if hasattr(state, "gradient") else init
    proposal = make(posterior, position)
    prior = log_prior_ratio(state.position, pair)
    log_ratio = prior + proposal.log_likelihood - state.log_likelihood
    return accept_or_reject(key_accept, log_ratio, proposal, state)


@kernel(keeps_any_state=True)
def block_node_swap(
    posterior: Posterior, step_size: Any = None, block: int = 5, law: str = "geometric"
) -> Any:
    r"""Swap the first `block` incoming and outgoing weights, and the biases, of nodes i and i + 1.

    The paper names swapping blocks as a remedy for `node_swap`, which is not defined at infinite
    width, and does not build it. A finite block has a finite prior ratio at any width; the
    function changes, by what the weights beyond the block contribute, so the move is accepted with
    probability min(1, exp(l(z') - l(z)) mu_0(theta') / mu_0(theta)). With `block` at least the
    widths and the number of inputs it is `node_swap` at the cost of a likelihood. The laws of the
    pair are those of `node_swap`. `step_size` is ignored.
    """
    del step_size
    block = require_count(block, "block", "It is the number of weights that are swapped.")
    table = node_table(posterior, law, block, move="block_node_swap")
    return sampling_algorithm(partial(init, posterior), partial(_step, posterior, table))
