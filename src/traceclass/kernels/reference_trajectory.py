"""Trajectories of Hamiltonian Monte Carlo by a reference, in two passes over V per kick."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.kernels.reference import Reference
from traceclass.kernels.states import GradientState, Target


class Split(NamedTuple):
    """A displacement x in whitened coordinates, and its components V' S^-1 x."""

    vector: Float[Array, " z"]
    along: Float[Array, " rank"]


def trajectory_by_reference(
    posterior: Target,
    reference: Reference,
    state: GradientState,
    noise: Float[Array, " z"],
    epsilon: Any,
    num_kicks: Any,
) -> tuple[GradientState, Float[Array, ""]]:
    r"""`num_kicks` steps of the splitting in the coordinates of N(m, G), and their energy error.

    It is `hmc.trajectory` in the coordinates zeta of the reference, z = m + G^(1/2) zeta, with
    l + phi in the place of l, but written for x = z - m and the velocity v = G^(1/2) p, whose
    rotation is the same,

        (x, v) <- (cos(epsilon) x + sin(epsilon) v, cos(epsilon) v - sin(epsilon) x),

    so that zeta is never formed. With b = grad(l + phi)(z) a kick of size h is v <- v + h G b, and
    its work h <v, b> + (h^2/2) <b, G b>. By G^-1 = S^-1 (I + V diag(lambda) V') S^-1,

        b   = e + S^-1 V (lambda x_V),     e = g - m + (S^-2 - I) x,     x_V = V' S^-1 x,
        G b = S (S e + V c),               c = lambda (x_V - w) / (1 + lambda),   w = V' S e,

    and V' S^-1 G b = w + c. So x_V and v_V = V' S^-1 v are carried along, and only w and V c take a
    pass over V. In coordinates where reference and prior agree e is g to the last bit, and nothing
    here is a sum over coordinates that does not vanish with g.
    """
    m, vectors, lam = reference.mean, reference.vectors, reference.eigenvalues
    scale = 1.0 if reference.scale is None else reference.scale
    stiffness = 0.0 if reference.scale is None else reference.stiffness
    cosine, sine = jnp.cos(epsilon), jnp.sin(epsilon)

    def split(vector: Array) -> Split:
        return Split(vector, vectors.T @ (vector / scale))

    def plus(a: Split, h: Any, b: Split) -> Split:
        return Split(a.vector + h * b.vector, a.along + h * b.along)

    def kick(x: Split, v: Split, g: Array, h: Any) -> tuple[Split, Array]:
        e = g - m + stiffness * x.vector
        w = vectors.T @ (scale * e)
        c = lam * (x.along - w) / (1 + lam)
        pulled = Split(scale * (scale * e + vectors @ c), w + c)
        pull = lam * x.along

        def with_b(y: Split) -> Array:
            return jnp.vdot(y.vector, e) + jnp.vdot(y.along, pull)

        return plus(v, h, pulled), h * with_b(v) + 0.5 * h**2 * with_b(pulled)

    def step(number: Array, carry: Any) -> Any:
        x, v, _, total = carry
        x, v = (
            jax.tree.map(lambda a, b: cosine * a + sine * b, x, v),
            jax.tree.map(lambda a, b: cosine * b - sine * a, x, v),
        )
        z = m + x.vector
        here = GradientState(z, *posterior.log_likelihood_and_gradient(z))
        h = jnp.where(number < num_kicks - 1, epsilon, 0.5 * epsilon)
        v, work = kick(x, v, here.gradient, h)
        return x, v, here, total + work

    x = split(state.position - m)
    v = split(reference.displacement(noise))
    v, work = kick(x, v, state.gradient, 0.5 * epsilon)
    _, _, end, work = jax.lax.fori_loop(0, num_kicks, step, (x, v, state, work))
    rise = end.log_likelihood + reference.phi(end.position)
    return end, work - (rise - (state.log_likelihood + reference.phi(state.position)))
