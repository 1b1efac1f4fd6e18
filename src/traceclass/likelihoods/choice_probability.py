r"""The probability that one noisy value is the largest of several, accurate in the tails.

With gaps d_j = (v_1 - v_j) / sigma, eq. likelihood_computable reads, after t -> v_1 + sigma t,

    p(d) = int phi(t) prod_j Phi(t + d_j) dt = int exp(h(t)) dt / sqrt(2 pi),
    h(t) = -t^2/2 + sum_j log Phi(t + d_j).

h is strictly concave, -M <= h'' <= -1, and |h''| falls from left to right. So, with t* its mode
and kappa = -h''(t*), all but a share of order Phi(-R) of the mass lies in
[t* - R/sqrt(kappa), t* + R], and the trapezoidal rule on that interval converges geometrically,
because the integrand is entire: a dozen nodes give float32 its full precision, three dozen give
1e-12. Gauss-Hermite nodes at fixed places, or an interval fixed around v_1, miss the mass as soon
as the choice is unlikely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import erfcx

_SQRT_2PI = math.sqrt(2 * math.pi)


class _Quadrature(NamedTuple):
    """Reach R of the nodes, their number nodes + more_nodes sqrt(M), and the Mills polynomial."""

    reach: float
    nodes: int
    more_nodes: int
    mills: tuple[float, ...]
    largest_gap: float

    def num_nodes(self, num_rivals: int) -> int:
        # The narrowest feature has width 1/sqrt(M), so the step must shrink like it.
        return self.nodes + math.ceil(self.more_nodes * math.sqrt(num_rivals + 1))


# Polynomial of the Mills ratio: Phi(-y) = exp(-y^2/2) Q(y), and (y + a) Q(y) is a smooth function
# of w = (y - a)/(y + a) in [-1, 1] (Shepherd & Laframboise 1981). a = 3.75 needs the fewest terms.
_A = 3.75


def _mills_polynomial(degree: int) -> tuple[float, ...]:
    """Coefficients in w, highest power first, of (y + a) Q(y) with y = a (1 + w) / (1 - w)."""

    def scaled(w: np.ndarray) -> np.ndarray:
        y = _A * (1 + w) / (1 - w)
        return (y + _A) * 0.5 * erfcx(y / math.sqrt(2))

    chebyshev: np.ndarray = np.polynomial.chebyshev.chebinterpolate(scaled, degree)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return tuple(np.polynomial.chebyshev.cheb2poly(chebyshev)[::-1].tolist())


# Reach and node counts were read off the error against 800 nodes over gaps in [-60, 60]: it stays
# near rounding in single precision and below 1e-12 in double, see tests.
_SINGLE = _Quadrature(
    reach=5.0, nodes=8, more_nodes=3, mills=_mills_polynomial(10), largest_gap=1e4
)
_DOUBLE = _Quadrature(
    reach=7.5, nodes=24, more_nodes=6, mills=_mills_polynomial(22), largest_gap=1e7
)

# Beyond this many sigmas nodes one sigma apart can no longer be placed. There log p is quadratic to
# within rounding: log p(d) = log p(c d) / c^2. Above the last limit its square would overflow; it
# is held there, with a gradient that still points home.
_LARGEST_FINITE_GAP = 1e17

# Up to this many rivals are written out, which a CPU runs two to three times faster than a loop or
# an array axis; beyond it the time to compile would grow faster than their number.
_MAX_UNROLLED = 8


class _Normal(NamedTuple):
    """Phi(x) = exp(-tail) F with F in (0, 1], and lambda(x) = phi(x)/Phi(x), without underflow."""

    tail: Array
    factor: Array
    inverse_mills: Array


def _normal(x: Array, rule: _Quadrature) -> _Normal:
    r"""Phi split as exp(-x^2/2) Q(-x) for x < 0 and 1 - exp(-x^2/2) Q(x) for x >= 0."""
    y = jnp.abs(x)
    r = 1 / (y + _A)
    w = 1 - 2 * _A * r
    polynomial = jnp.full_like(w, rule.mills[0])
    for coefficient in rule.mills[1:]:
        polynomial = polynomial * w + coefficient
    q = polynomial * r
    negative = x < 0
    density = jnp.exp(-0.5 * y * y)
    factor = jnp.where(negative, q, 1 - density * q)
    inverse_mills = jnp.where(negative, 1.0, density) / (_SQRT_2PI * factor)
    return _Normal(jnp.where(negative, 0.5 * y * y, 0.0), factor, inverse_mills)


def _mode(gaps: Float[Array, "rivals *batch"], rule: _Quadrature) -> Float[Array, "*batch"]:
    r"""t* with h'(t*) = -t* + sum_j lambda(t* + d_j) = 0, to about 0.1, by Newton from the left.

    lambda(x) >= max(0, -x), so the root of the piecewise linear t = sum_j max(0, -(t + d_j)) is a
    lower bound; it is the largest over k of sum_{j: d_j <= d_k} (-d_j) / (1 + #{j: d_j <= d_k}).
    h' is convex and falls, so Newton steps from there rise to t* and cannot pass it. Where the
    nodes are centred only moves the truncation, so a rough mode is enough.
    """
    below = gaps[:, None] <= gaps[None, :]
    bounds = -jnp.sum(jnp.where(below, gaps[:, None], 0.0), axis=0) / (1 + jnp.sum(below, axis=0))
    mode = jnp.maximum(0.0, jnp.max(bounds, axis=0))
    for _ in range(1 + math.ceil(math.log2(gaps.shape[0] + 1))):
        x = mode + gaps
        lam = _normal(x, rule).inverse_mills
        slope = jnp.sum(lam, axis=0) - mode
        mode = mode + slope / (1 + jnp.sum(lam * (lam + x), axis=0))
    return mode


def _for_each_rival(
    body: Callable[[Any, Any], tuple[Any, Array]], carry: Any, rivals: tuple[Array, ...]
) -> tuple[Any, Iterable[Array]]:
    """`jax.lax.scan`, written out for few rivals."""
    if len(rivals[0]) > _MAX_UNROLLED:
        return jax.lax.scan(body, carry, rivals)
    outputs = []
    for rival in zip(*rivals, strict=True):
        carry, output = body(carry, rival)
        outputs.append(output)
    return carry, outputs


@partial(jax.jit, inline=True)
def _value_and_gradient(
    gaps: Float[Array, "rivals *batch"],
) -> tuple[Float[Array, "*batch"], Float[Array, "rivals *batch"]]:
    r"""log p(d) and d log p / d d_j = E[lambda(t + d_j)] under the density exp(h)/int exp(h).

    All is taken relative to the mode, with u = t - t*, so that nothing under- or overflows:
    log p = h(t*) + log I, I = int exp(h(t* + u) - h(t*)) du / sqrt(2 pi). The gradient comes from
    the same nodes, but for two rivals from a closed form, which costs a third.
    """
    rule = _DOUBLE if gaps.dtype == jnp.float64 else _SINGLE
    # A rival far behind does not matter, however far; one far ahead sets the scale c.
    gaps = jnp.clip(gaps, -_LARGEST_FINITE_GAP, rule.largest_gap)
    c = jnp.minimum(1.0, rule.largest_gap / jnp.maximum(jnp.max(-gaps, axis=0), 1.0))
    gaps = c * gaps
    mode = jax.lax.stop_gradient(_mode(gaps, rule))
    x_mode = mode + gaps
    at_mode = _normal(x_mode, rule)
    lam = jax.lax.stop_gradient(at_mode.inverse_mills)
    curvature = 1 + jnp.sum(lam * (lam + jax.lax.stop_gradient(x_mode)), axis=0)

    num_nodes = rule.num_nodes(gaps.shape[0])
    left = rule.reach / jnp.sqrt(curvature)
    step = (left + rule.reach) / (num_nodes - 1)
    index = jnp.arange(num_nodes, dtype=gaps.dtype).reshape(-1, *([1] * mode.ndim))
    u = index * step - left  # (nodes, *batch)

    # -(t^2 - t*^2)/2 and the like are written u (t* + u/2): subtracting the squares would lose
    # the digits that matter at 60 sigma.
    def with_rival(carry: tuple[Array, Array], rival: tuple[Array, Array, Array]):
        exponent, product = carry
        x_j, tail_j, factor_j = rival
        normal = _normal(x_j + u, rule)
        both_negative = (x_j < 0) & (x_j + u < 0)
        exponent -= jnp.where(both_negative, u * (x_j + 0.5 * u), normal.tail - tail_j)
        return (exponent, product * normal.factor / factor_j), normal.inverse_mills

    (exponent, product), inverse_mills = _for_each_rival(
        with_rival,
        (-u * (mode + 0.5 * u), jnp.ones_like(u)),
        (x_mode, at_mode.tail, at_mode.factor),
    )
    weight = jnp.exp(exponent) * product
    total = jnp.sum(weight, axis=0)
    integral = total * step / _SQRT_2PI
    if len(gaps) == 2:
        gradient = _gradient_of_two(mode, x_mode, at_mode, rule) / integral
    else:
        gradient = jnp.stack([jnp.sum(weight * lam_j, axis=0) / total for lam_j in inverse_mills])
    height = jnp.sum(jnp.log(at_mode.factor) - at_mode.tail, axis=0) - 0.5 * mode**2
    log_p = height + jnp.log(integral)
    return jnp.minimum(log_p, 0.0) / c**2, gradient / c


def _gradient_of_two(
    mode: Float[Array, "*batch"],
    x: Float[Array, "2 *batch"],
    at_mode: _Normal,
    rule: _Quadrature,
) -> Float[Array, "2 *batch"]:
    r"""exp(-h(t*)) dp/dd_j for two rivals, x = t* + d.

    The factor phi(t) phi(t + d_1) of dp/dd_1 is a normal density in t, so that with d_2 the other

        dp/dd_1 = exp(-d_1^2/4) Phi(y) / (2 sqrt(pi)),   y = (2 d_2 - d_1) / sqrt(6).

    Its exponent and that of h(t*) are both large in the tails, but with s = t* + x_1 (so that
    2 d_2 - d_1 = 2 x_2 - s) their difference is a sum of squares of what is small near the mode:
    for x_1, x_2, y < 0 it is (x_2 + s)^2 / 6.
    """
    other = x[::-1]
    s = mode + x
    y = (2 * other - s) / math.sqrt(6.0)
    normal = _normal(y, rule)
    exponent = jnp.where(
        other < 0,
        jnp.where(y < 0, (other + s) ** 2 / 6, s**2 / 4 + other**2 / 2),
        jnp.where(y < 0, s**2 / 6 + other * (s - other) / 3, s**2 / 4),
    ) - jnp.where(x < 0, 0.0, 0.5 * x**2)
    factor = normal.factor / (at_mode.factor[0] * at_mode.factor[1])
    return jnp.exp(exponent) * factor / (2 * math.sqrt(math.pi))


@jax.custom_jvp
def log_choice_probability(gaps: Float[Array, "rivals *batch"]) -> Float[Array, "*batch"]:
    r"""log P(v_1 + e_1 > v_j + e_j for all j), e ~ N(0, sigma^2 I), from gaps (v_1 - v_j)/sigma.

    The first axis runs over the rivals j of the chosen action; further axes are a batch. Finite
    for finite gaps. The derivative is that of the integral. Beyond 1e4 sigma
    (1e7 in double precision) both follow the quadratic limit.
    """
    return _value_and_gradient(gaps)[0]


@log_choice_probability.defjvp
def _log_choice_probability_jvp(
    primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    value, gradient = _value_and_gradient(primals[0])
    return value, jnp.sum(gradient * tangents[0], axis=0)
