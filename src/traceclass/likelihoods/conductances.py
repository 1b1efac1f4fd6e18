"""Direct solution of a rectangular network of conductances, without a single subtraction.

Flow through a porous medium on a grid is a network: nodes joined by conductances w >= 0, some of
them joined to ground (nodes of known head) by conductances e >= 0,

    e_i p_i + sum_j w_ij (p_i - p_j) = b_i.

Eliminating nodes leaves a smaller network of the same kind, whose conductances are sums and
products of those before (the star-mesh transform). So all that is computed is positive, nothing
cancels, and heads keep their digits at contrasts that make the matrix useless as such: 1e26 in
single precision. The idea is that of Grassmann, Taksar & Heyman (Oper. Res. 1985) for Markov
chains; Alfa, Xue & Ye (Math. Comp. 2002) prove it for matrices like this one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Network(NamedTuple):
    """Conductances of a grid of nodes: along its first axis, along its second, and to ground."""

    first: Float[Array, "I-1 J"]
    second: Float[Array, "I J-1"]
    ground: Float[Array, "I J"]


class Factor(NamedTuple):
    """What solving with any right-hand side needs: lines eliminated from both ends to the middle.

    Of the lines from either end inwards, `inverse` has the inverse of what is left when all lines
    further out are gone, and `onward` the conductances to the next line.
    """

    inverse: Float[Array, "lines 2 n n"]
    onward: Float[Array, "lines 2 n"]
    middle: Float[Array, "n n"]


@jax.jit
def solve(network: Network, b: Float[Array, "I J"]) -> Float[Array, "I J"]:
    """The heads p; differentiable in both arguments at the cost of one more substitution.

    With A p = b the derivative is A dp = db - dA p, and A is its own transpose: a gradient is one
    substitution with the factor that is there, and never looks into the elimination.
    """
    if b.shape[0] < b.shape[1]:  # lines along the shorter side cost less
        turned = Network(network.second.T, network.first.T, network.ground.T)
        return solve(turned, b.T).T
    factor = factorise(jax.tree.map(jax.lax.stop_gradient, network))
    return jax.lax.custom_linear_solve(
        lambda p: outflow(network, p), b, lambda _, rhs: substitute(factor, rhs), symmetric=True
    )


def outflow(network: Network, p: Float[Array, "I J"]) -> Float[Array, "I J"]:
    """A p: what leaves each node at heads p."""
    first, second, ground = network
    along = jnp.pad(first * (p[1:] - p[:-1]), ((1, 1), (0, 0)))
    across = jnp.pad(second * (p[:, 1:] - p[:, :-1]), ((0, 0), (1, 1)))
    return ground * p + along[:-1] - along[1:] + across[:, :-1] - across[:, 1:]


def factorise(network: Network) -> Factor:
    r"""Eliminate the lines p[0], p[1], ... and p[-1], p[-2], ..., both at once, up to the middle.

    When all lines before line i are gone, it is a network by itself, with conductances W among its
    nodes, g to ground, and onward to the next line D (a diagonal matrix). Eliminating it too adds

        W' = D G D,   g' = D G g,   G = (its matrix with row sums g + D)^-1

    to the next line: g' because G (g + D) = 1, so D - D G D 1 = D G g, without the subtraction.
    """
    (first, second, ground), n = _odd(network), network.ground.shape[1]
    half = ground.shape[0] // 2
    next_to = jnp.eye(n, k=1, dtype=ground.dtype)

    def eliminate(w: Array, g: Array, across: Array, e: Array, d: Array) -> tuple[Array, ...]:
        across = jnp.pad(across, (0, 1))
        w = w + across[:, None] * next_to + across * next_to.T
        inverse = inverse_of(w, g + e + d)
        return d[:, None] * inverse * d, d * (inverse @ (g + e)), inverse

    def body(
        carry: tuple[Array, Array], given: tuple[Any, ...]
    ) -> tuple[tuple[Array, Array], Array]:
        *line, is_middle = given
        # The middle line takes what comes from both ends; it stands here twice, so that the
        # elimination, which is long when compiled, is compiled once.
        met = jax.tree.map(lambda ends: jnp.where(is_middle, ends.sum(0), ends), carry)
        w, g, inverse = jax.vmap(eliminate)(*met, *line)
        return (w, g), inverse

    nothing = (jnp.zeros((2, n, n), ground.dtype), jnp.zeros((2, n), ground.dtype))
    onward = jnp.pad(_from_both_ends(first, half), ((0, 1), (0, 0), (0, 0)))
    lines = (_from_both_ends(second, half + 1), _from_both_ends(ground, half + 1), onward)
    inverse = jax.lax.scan(body, nothing, (*lines, jnp.arange(half + 1) == half))[1]
    return Factor(inverse[:half], onward[:half], inverse[half, 0])


def substitute(factor: Factor, b: Float[Array, "I J"]) -> Float[Array, "I J"]:
    """The heads at right-hand side b."""
    num_lines = b.shape[0]
    b = jnp.pad(b, ((0, 1 - num_lines % 2), (0, 0)))
    half = b.shape[0] // 2

    def inwards(carried: Array, line: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        own, inverse, onward = line
        total = own + carried
        return onward * _times(inverse, total), total

    def outwards(p: Array, line: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        total, inverse, onward = line
        p = _times(inverse, total + onward * p)
        return p, p

    ends = _from_both_ends(b, half)
    carried, totals = jax.lax.scan(
        inwards, jnp.zeros((2, b.shape[1]), b.dtype), (ends, factor.inverse, factor.onward)
    )
    middle = factor.middle @ (b[half] + carried[0] + carried[1])
    _, p = jax.lax.scan(
        outwards,
        jnp.stack([middle, middle]),
        (totals, factor.inverse, factor.onward),
        reverse=True,
    )
    return jnp.concatenate([p[:, 0], middle[None], p[::-1, 1]])[:num_lines]


def inverse_of(w: Float[Array, "n n"], g: Float[Array, " n"]) -> Float[Array, "n n"]:
    r"""The inverse of a network's matrix diag(g + W 1) - W, for W >= 0 (its diagonal is ignored).

    With the nodes in two halves a and b, G_a that of the first with all of b as ground, and
    X = G_a W_ab the shares in which a node of a feels those of b,

        G_b = inverse of (W_bb + W_ba X, g_b + X' g_a),   Y = X G_b,

        G = ( G_a + Y X'   Y   )
            (     Y'      G_b  ).

    Sums and products of positive numbers all the way down to single nodes, where G = 1/g. Nearly
    all of the work is in matrix products, which many chains share well.
    """
    n = g.shape[0]
    if n == 1:
        return 1 / g[None]
    h = n // 2
    between = w[:h, h:]
    inverse_a = inverse_of(w[:h, :h], g[:h] + jnp.sum(between, axis=1))
    x = inverse_a @ between
    g_b = g[h:] + jnp.sum(x * g[:h, None], axis=0)
    inverse_b = inverse_of(w[h:, h:] + between.T @ x, g_b)
    y = x @ inverse_b
    return jnp.block([[inverse_a + y @ x.T, y], [y.T, inverse_b]])


def _odd(network: Network) -> Network:
    """The network with an odd number of lines, by a last one joined to ground alone."""
    first, second, ground = network
    if ground.shape[0] % 2:
        return network
    last = ((0, 1), (0, 0))
    return Network(
        jnp.pad(first, last), jnp.pad(second, last), jnp.pad(ground, last, constant_values=1)
    )


def _from_both_ends(lines: Array, half: int) -> Array:
    """Lines 0, 1, ... beside lines -1, -2, ...: (half, 2, n)."""
    return jnp.stack([lines[:half], lines[::-1][:half]], axis=1)


def _times(matrices: Array, vectors: Array) -> Array:
    return jax.vmap(jnp.matmul)(matrices, vectors)
