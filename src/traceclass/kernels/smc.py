"""Our kernels as the moves of BlackJAX's sequential Monte Carlo samplers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.errors import UserTypeError
from traceclass.kernels.base import KernelFactory, as_kernel


class _Target:
    """What a kernel asks of a posterior, from a log-density: l(z) = log pi(z) + |z|^2 / 2."""

    def __init__(self, logdensity: Callable[[Array], Array]):
        self.logdensity = logdensity

    def log_likelihood(self, z: Float[Array, " z"]) -> Float[Array, ""]:
        return self.logdensity(z) + 0.5 * jnp.vdot(z, z)

    def log_likelihood_and_gradient(self, z: Float[Array, " z"]) -> tuple[Array, Array]:
        return jax.value_and_grad(self.log_likelihood)(z)


def smc_kernel(kernel: KernelFactory) -> tuple[Callable[..., Any], Callable[..., Any]]:
    r"""`(mcmc_init_fn, mcmc_step_fn)` for BlackJAX's samplers, e.g. `adaptive_tempered_smc`.

    They hand over the log-density of each tempered target with respect to Lebesgue measure; with
    the prior as `logprior_fn = lambda z: -0.5 * jnp.sum(z**2)` and `posterior.log_likelihood` it is
    t l(z) - |z|^2/2, from which the kernel takes t l(z) back. The mcmc parameter is
    `step_size`. |z|^2 is formed here, so in single precision this is for thousands of coordinates,
    not millions. Kernels that look into the prior (`node_swap`) cannot be used.
    """
    kernel = as_kernel(kernel)
    kernel.require_reference()
    if not kernel.is_composable:
        raise UserTypeError(
            f"BlackJAX's SMC tempers by itself; pass the kernel inside, not {kernel.name}."
        )
    for move in kernel.moves:
        if move.keeps_any_state:  # swaps, which permute what they are given
            raise UserTypeError(
                f"{move.name} looks into the prior; BlackJAX's SMC hands over a log-density only, "
                "so it cannot be used there."
            )

    def algorithm(logdensity: Callable[[Array], Array], step_size: Any) -> Any:
        return kernel.assemble(_Target(logdensity), kernel.tuning(step_size))

    def init(position: Any, logdensity_fn: Callable[[Array], Array]) -> Any:
        return algorithm(logdensity_fn, kernel.first_step_size).init(position)

    def step(
        rng_key: Any, state: Any, logdensity_fn: Callable[[Array], Array], step_size: Any = None
    ) -> Any:
        return algorithm(logdensity_fn, step_size).step(rng_key, state)

    return init, step
