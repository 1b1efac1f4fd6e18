"""What kernels move: targets, states that carry what is cached of a position, and the noise."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Float, Key


@runtime_checkable
class Target(Protocol):
    """What most kernels ask of a posterior: l(z), and its gradient in whitened coordinates."""

    def log_likelihood(self, z: Any) -> Any: ...

    def log_likelihood_and_gradient(self, z: Any) -> Any: ...


class State(NamedTuple):
    """A position z and its log-likelihood."""

    position: Float[Array, " z"]
    log_likelihood: Float[Array, ""]


class GradientState(NamedTuple):
    """A position z, its log-likelihood l and the gradient of l, in whitened coordinates."""

    position: Float[Array, " z"]
    log_likelihood: Float[Array, ""]
    gradient: Float[Array, " z"]


def init(
    posterior: Target, position: Float[Array, " z"], rng_key: Key[Array, ""] | None = None
) -> State:
    """The state of a kernel that needs no gradient."""
    del rng_key
    return State(position, posterior.log_likelihood(position))


def init_with_gradient(
    posterior: Target, position: Float[Array, " z"], rng_key: Key[Array, ""] | None = None
) -> GradientState:
    """The state of a kernel that uses the gradient of the log-likelihood."""
    del rng_key
    return GradientState(position, *posterior.log_likelihood_and_gradient(position))


def standard_normal(key: Key[Array, ""], like: Float[Array, " z"]) -> Float[Array, " z"]:
    """A standard normal vector of the shape and type of `like`.

    Bits come from the sequential threefry stream: JAX's default one can be split over devices
    inside one array, at twice the cost, and a chain's position is never split.
    """
    with jax.threefry_partitionable(False):
        return jax.random.normal(key, like.shape, like.dtype)
