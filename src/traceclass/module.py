"""The base of every object that holds arrays."""

from __future__ import annotations

import equinox as eqx


class Module(eqx.Module):
    """An Equinox module hashed by identity, so that `jax.jit(posterior.log_likelihood)` works.

    JAX hashes what it compiles, and Equinox hashes a module by its fields, of which arrays have no
    hash.
    """

    def __hash__(self) -> int:
        return id(self)
