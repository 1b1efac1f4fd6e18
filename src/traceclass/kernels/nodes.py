"""Where the weights of a node lie in a position, and the law by which a pair is picked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from traceclass.errors import UserValueError
from traceclass.kernels.metropolis import MetropolisInfo
from traceclass.posterior import Posterior
from traceclass.priors.hyper import Hyper
from traceclass.priors.network import NetworkPrior

LAWS = ("geometric", "power", "uniform")


class Pair(NamedTuple):
    """Nodes i and i + 1 of a layer: where their weights and biases lie, and r, see `NodeTable`.

    Rows of unequal length are filled up with an index past the end, which is read as 0.
    """

    first: Int[Array, " weights"]
    second: Int[Array, " weights"]
    ratio: Float[Array, ""]


class NodeTable(NamedTuple):
    r"""The hidden layers of two nodes or more, and the law on their neighbouring pairs.

    The m-th weight of node i (from 0) lies at start[l, m] + i stride[l, m]: `block` incoming
    ones, the bias, `block` outgoing ones. All of them have a standard deviation that falls as
    (i + 1)^(-alpha/2), so that of node i + 1 is r = ((i + 1) / (i + 2))^(alpha/2) times that of
    node i. `cumulative` (layers, pairs) is the law of the pair. Where alpha is inferred it is that
    of a position, `alpha_of(z)`, which a swap leaves as it is.
    """

    start: Int[Array, "layers weights"]
    stride: Int[Array, "layers weights"]
    cumulative: Float[Array, "layers pairs"]
    alpha: Any
    alpha_of: Callable[[Array], Array] | None = None

    def at(self, z: Float[Array, " z"]) -> NodeTable:
        """The table with the alpha of a position."""
        return self if self.alpha_of is None else self._replace(alpha=self.alpha_of(z))

    def pick(self, key: Key[Array, ""]) -> Pair:
        """A layer uniformly, then a pair of it by the law; neither looks at the position."""
        key_layer, key_pair = jax.random.split(key)
        layer = jax.random.randint(key_layer, (), 0, len(self.start))
        cumulative = self.cumulative[layer]
        u = jax.random.uniform(key_pair, dtype=cumulative.dtype)
        i = jnp.sum(u >= cumulative[:-1])
        return self.pair(layer, i)

    def pair(self, layer: Any, i: Any) -> Pair:
        """Nodes i and i + 1, counted from 0, of the given row of the table."""
        first = self.start[layer] + i * self.stride[layer]
        one_based = jnp.asarray(i + 1, self.cumulative.dtype)
        ratio = (one_based / (one_based + 1)) ** (self.alpha / 2)
        return Pair(first, first + self.stride[layer], ratio)


def node_table(
    posterior: Posterior, law: str, block: int | None = None, *, move: str
) -> NodeTable | None:
    """The table of a network prior; None if no layer has a pair of nodes."""
    whole, alpha_of, skipped = posterior.prior, None, 0
    prior = whole
    if isinstance(whole, Hyper):
        if whole.tails is not None:
            raise UserValueError(
                f"{move} needs Gaussian weights, got a Hyper with tails: weights that swap "
                "are then not multiplied by a number. Use another kernel."
            )
        prior, skipped = whole.prior, whole.num_hyperparameters
        alpha_of = _inferred_alpha(whole) if "alpha" in whole.names else None
    if not isinstance(prior, NetworkPrior):
        raise UserValueError(
            f"{move} needs a network prior (TraceClassNetwork or IidNetwork), got "
            f"{type(prior).__name__}: a series has no nodes to swap."
        )
    if law not in LAWS:
        raise UserValueError(f"{move} knows the laws {', '.join(LAWS)}; got law={law!r}.")
    layers = [layer for layer, width in enumerate(prior.widths) if width > 1]
    if not layers:
        return None
    rows = [_row(prior, layer, block) for layer in layers]
    length = max(len(start) for start, _ in rows)
    start = np.full((len(rows), length), whole.num_coordinates)
    stride = np.zeros_like(start)
    for row, (starts, strides) in enumerate(rows):
        start[row, : len(starts)], stride[row, : len(starts)] = skipped + starts, strides
    most_pairs = max(prior.widths) - 1
    laws = [_cumulative(law, prior.alpha, prior.widths[k] - 1, most_pairs) for k in layers]
    return NodeTable(
        jnp.asarray(start, dtype=jnp.int32),
        jnp.asarray(stride, dtype=jnp.int32),
        jnp.asarray(np.array(laws), dtype=float),
        prior.alpha,
        alpha_of,
    )


def _inferred_alpha(prior: Hyper) -> Callable[[Array], Array]:
    return lambda z: prior.hyperparameters(z)["alpha"]


def _row(prior: NetworkPrior, layer: int, block: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Places of node 0 of a hidden layer and their distances to those of node 1."""
    shapes = prior.blocks()
    offsets = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    width, num_in = shapes[2 * layer]
    num_out = shapes[2 * layer + 2][0]
    incoming = offsets[2 * layer] + np.arange(num_in)[:block]
    bias = offsets[2 * layer + 1 : 2 * layer + 2]
    outgoing = offsets[2 * layer + 2] + width * np.arange(num_out)[:block]
    start = np.concatenate([incoming, bias, outgoing])
    ones = np.ones(1 + len(outgoing), dtype=int)
    return start, np.concatenate([np.full(len(incoming), num_in), ones])


def _cumulative(law: str, alpha: float, num_pairs: int, length: int) -> np.ndarray:
    r"""The distribution function of the pair i = 1, ..., num_pairs, filled up with ones.

    geometric: P(i) ~ (1 - 1/alpha)^(i-1), Algorithm 1; power: P(i) ~ i^-alpha, the Lemma's. A
    geometric law needs alpha > 1; at or below it the nodes hardly differ, and it is uniform.
    """
    i = np.arange(1, num_pairs + 1)
    if law == "power":
        weights = i ** -float(alpha)
    elif law == "geometric" and alpha > 1:
        weights = (1 - 1 / alpha) ** (i - 1.0)
    else:
        weights = np.ones(num_pairs)
    filled = np.ones(length)
    filled[:num_pairs] = np.cumsum(weights) / weights.sum()
    return filled


def no_pair(state: Any) -> tuple[Any, MetropolisInfo]:
    """The step of a swap where there is nothing to swap: the identity, always accepted."""
    zero = jnp.zeros_like(state.log_likelihood)
    return state, MetropolisInfo(zero + 1, zero == 0, zero > 0)


def read(vector: Float[Array, " z"], index: Int[Array, " weights"]) -> Float[Array, " weights"]:
    """Entries of a vector; 0 past its end."""
    return vector.at[index].get(mode="fill", fill_value=0)


def write(
    vector: Float[Array, " z"], index: Int[Array, " weights"], value: Float[Array, " weights"]
) -> Float[Array, " z"]:
    """The vector with entries replaced; past its end nothing happens."""
    return vector.at[index].set(value, mode="drop")


def log_prior_ratio(z: Float[Array, " z"], pair: Pair) -> Float[Array, ""]:
    r"""log N(z'; 0, I) - log N(z; 0, I) for a swap, from the swapped entries a, b alone.

    z'_first = r b, z'_second = a / r, so it is -[(r^2 - 1) |b|^2 + (1/r^2 - 1) |a|^2] / 2. The
    swap exchanges entries of theta = C^(1/2) z, so its volume factor is one.
    """
    a, b, r2 = read(z, pair.first), read(z, pair.second), pair.ratio**2
    return -0.5 * ((r2 - 1) * jnp.vdot(b, b) + (1 / r2 - 1) * jnp.vdot(a, a))


def swap(vector: Float[Array, " z"], pair: Pair, ratio: Any) -> Float[Array, " z"]:
    """first <- ratio * second, second <- first / ratio; `pair.ratio` for z, its inverse for g."""
    a, b = read(vector, pair.first), read(vector, pair.second)
    return write(write(vector, pair.first, ratio * b), pair.second, a / ratio)
