"""The centred move of hyperparameters: the weights stay, and what they are measured in changes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from traceclass.errors import UserValueError
from traceclass.kernels.base import kernel
from traceclass.kernels.metropolis import MetropolisInfo, sampling_algorithm
from traceclass.kernels.states import init, init_with_gradient
from traceclass.posterior import Posterior
from traceclass.priors.hyper import NOISE, Hyper
from traceclass.validation import require_count, shortened


class Centring(NamedTuple):
    """What the move needs to know of a posterior, whose prior is `hyper`.

    `held` marks the coordinates of the inner prior whose parameters stay, `scaling` and `noisy`
    list the places in h of hyperparameters that scale parameters, and of the noise level. If all
    parameters are held, so is the function, and its likelihood need not be computed.
    """

    posterior: Posterior
    hyper: Hyper
    held: Bool[Array, " z"]
    holds_function: bool
    scaling: tuple[int, ...]
    noisy: tuple[int, ...]

    def log_deviations(self, position: Array) -> Array:
        """log s(eta) of every coordinate, by theta = s(eta) z at z = 1."""
        found, z = self.hyper.parts(position)
        theta = self.hyper.prior.parameters(jnp.ones_like(z), found)
        return jnp.log(jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(theta)]))

    def moved(self, position: Array, k: Any, h_k: Array) -> tuple[Array, Array]:
        """The position with h_k in place k and the held parameters as they are, and log r."""
        there = position.at[k].set(h_k)
        log_r = self.log_deviations(position) - self.log_deviations(there)
        log_r = jnp.where(self.held, log_r, 0.0)
        first = self.hyper.num_hyperparameters
        return there.at[first:].multiply(jnp.exp(log_r)), log_r

    def log_prior_ratio(self, position: Array, log_r: Array) -> Array:
        """The sum over held coordinates of log r_i - (r_i^2 - 1) z_i^2 / 2."""
        z = position[self.hyper.num_hyperparameters :]
        return jnp.sum(log_r - 0.5 * jnp.expm1(2 * log_r) * z**2)


def _moved_by_slice(
    key: Key[Array, ""], h: Float[Array, ""], rise: Any
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """An elliptical slice of one standard normal number; `rise(h)` itself must be zero.

    Also whether the first point of the slice was taken.
    """
    from blackjax.mcmc import elliptical_slice as theirs

    def finite_rise(proposed: Array) -> Array:
        value = rise(proposed[0])
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    step = theirs.build_kernel(jnp.ones(1, h.dtype), jnp.zeros(1, h.dtype))
    (moved, _), info = step(key, theirs.EllipSliceState(h[None], jnp.zeros_like(h)), finite_rise)
    return jnp.asarray(moved)[0], jnp.asarray(info.subiter == 1)


def _with_scale_moved(
    centring: Centring, position: Array, k: Any, key: Key[Array, ""]
) -> tuple[Array, Array]:
    """One hyperparameter that scales parameters, moved with the held ones as they are."""
    posterior = centring.posterior
    here = 0.0 if centring.holds_function else posterior.log_likelihood(position)

    def rise(h_k: Array) -> Array:
        there, log_r = centring.moved(position, k, h_k)
        ratio = centring.log_prior_ratio(position, log_r)
        return ratio if centring.holds_function else ratio + posterior.log_likelihood(there) - here

    h_k, at_once = _moved_by_slice(key, position[k], rise)
    return centring.moved(position, k, h_k)[0], at_once


def _with_noise_moved(
    centring: Centring, position: Array, k: int, key: Key[Array, ""]
) -> tuple[Array, Array]:
    """The noise level, moved with the function as it is: its values are computed once."""
    posterior = centring.posterior
    values, t = posterior.values_of(position), posterior.inverse_temperature

    def level(h_k: Array) -> Array:
        level = posterior.log_prob(values, position.at[k].set(h_k))
        return level if t is None else t * level

    here = level(position[k])
    h_k, at_once = _moved_by_slice(key, position[k], lambda h_k: level(h_k) - here)
    return position.at[k].set(h_k), at_once


def _step(centring: Centring, rng_key: Key[Array, ""], state: Any) -> tuple[Any, MetropolisInfo]:
    keys = jax.random.split(rng_key, len(centring.scaling) + len(centring.noisy))
    position, at_once = state.position, jnp.zeros(())

    def scale_moved(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        position, first = _with_scale_moved(centring, carry[0], scaling[i], keys[i])
        return position, carry[1] + first

    if centring.scaling:
        scaling = jnp.asarray(centring.scaling)
        position, at_once = jax.lax.fori_loop(0, scaling.size, scale_moved, (position, at_once))
    for k, key in zip(centring.noisy, keys[len(centring.scaling) :], strict=True):
        position, first = _with_noise_moved(centring, position, k, key)
        at_once = at_once + first
    make = init_with_gradient if hasattr(state, "gradient") else init
    info = MetropolisInfo(at_once / keys.size, jnp.asarray(True), jnp.asarray(False))
    return make(centring.posterior, position), info


@kernel(keeps_any_state=True)
def centred(posterior: Posterior, step_size: Any = None, block: Any = None) -> Any:
    r"""Move the hyperparameters of a `Hyper` with the parameters theta held (interweaving).

    A position is (h, z) with theta = s(eta(h)) z, and other kernels move h with z as it is: then
    all of theta scales with eta, and where data say much of the function, h hardly moves. This
    kernel takes the hyperparameters one by one and replaces

        h_k -> h_k',   z_i -> r_i z_i,   r_i = s_i(eta) / s_i(eta')   for the held i,

    so that theta_i stays. With respect to the prior the law of h_k given theta has the density

        exp( l(z') - l(z) + sum over held i of log r_i - (r_i^2 - 1) z_i^2 / 2 ),

    log r_i being the volume factor of the map, and h_k' is drawn by an elliptical slice, which has
    no step size and no rejection. The noise level of the data is moved with the function held.

    By default all of theta is held. Then l does not change and is not computed, but the sum over
    ever more coordinates leaves h_k ever less room: a wide network determines its own variances,
    and in the limit of infinite width they cannot move at all with theta held. `block` holds the
    first so many entries along every axis of the prior's blocks (weights of a layer, coefficients
    of a series); the others keep z, at the cost of a likelihood per trial, and the room that h_k
    has does not depend on the width.

    It moves nothing else: use it in a cycle, `tc.cycle(tc.hmc, tc.centred)`. `acceptance_rate` is
    the share of hyperparameters that took the first point of their slice. `step_size` is ignored.
    References: Papaspiliopoulos, Roberts & Skold 2007; Yu & Meng 2011; Murray, Adams & MacKay 2010.

    Parameters
    ----------
    posterior : Posterior
        Its prior is a `Hyper` without heavier tails.
    step_size : None
        Ignored.
    block : int, optional
        How many entries along every axis of a block are held. None: all of them.
    """
    del step_size
    if block is not None:
        block = require_count(block, "block", "It is the number of entries that are held.")
    return sampling_algorithm(partial(init, posterior), partial(_step, _centring(posterior, block)))


def _centring(posterior: Posterior, block: int | None) -> Centring:
    hyper = posterior.prior
    if not isinstance(hyper, Hyper) or not hyper.num_hyperparameters:
        raise UserValueError(
            f"centred moves the hyperparameters of a tc.Hyper, got {shortened(hyper)}, which has "
            "none. Leave it out."
        )
    if hyper.tails is not None:
        raise UserValueError(
            "centred needs Gaussian weights, got a Hyper with tails: a weight that is held is then "
            "not its coordinate times a number. Leave it out."
        )
    held = np.concatenate([_corner(shape, block).ravel() for shape in hyper.prior.blocks()])
    places = list(enumerate(hyper.names_by_coordinate))
    return Centring(
        posterior=posterior,
        hyper=hyper,
        held=jnp.asarray(held),
        holds_function=bool(held.all()),
        scaling=tuple(k for k, name in places if name != NOISE),
        noisy=tuple(k for k, name in places if name == NOISE),
    )


def _corner(shape: tuple[int, ...], block: int | None) -> np.ndarray:
    """Which entries of an array are in its leading corner with sides `block`; None: all."""
    sides = (slice(block),) * len(shape)
    held = np.zeros(shape, dtype=bool)
    held[sides] = True
    return held
