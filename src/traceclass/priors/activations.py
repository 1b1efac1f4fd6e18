"""Activation functions, and the check that one satisfies the assumption of Theorem 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from traceclass.errors import UserTypeError, UserValueError

Activation = Callable[[Array], Array]


def _scaled_erf(x: Array) -> Array:
    """erf(sqrt(pi) x / 2): plain erf has slope 2/sqrt(pi) > 1 at zero, outside the assumption."""
    return jax.scipy.special.erf(0.5 * math.sqrt(math.pi) * x)


def _hardtanh(x: Array) -> Array:
    return jnp.clip(x, -1.0, 1.0)


def _identity(x: Array) -> Array:
    return x


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "tanh": jnp.tanh,
        "erf": _scaled_erf,
        "relu": jax.nn.relu,
        "hardtanh": _hardtanh,
        "identity": _identity,
    }
)

# The assumption is checked on a grid: spacing 0.01 on [-30, 30] resolves every activation in use,
# and float32 rounding of a value near 30 (2e-6) is then 2e-4 of a slope, below the tolerance.
_GRID = np.linspace(-30.0, 30.0, 6001)
_SLOPE_TOLERANCE = 1e-3
_ZERO_TOLERANCE = 1e-6


def activation_named(activation: str | Activation) -> Activation:
    """The activation function of that name, or a user's callable once it is checked.

    Theorem 1 assumes zeta(0) = 0 and |zeta(x) - zeta(y)| <= |x - y|. The built-in ones satisfy it
    ("erf" is erf(sqrt(pi) x / 2), which has slope one at zero); a callable is tested on a grid.
    """
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            raise UserValueError(
                f"unknown activation {activation!r}. Use one of {', '.join(ACTIVATIONS)}, or pass "
                "a callable with zeta(0) = 0 and Lipschitz constant at most 1."
            )
        return ACTIVATIONS[activation]
    if not callable(activation):
        raise UserTypeError(
            f"activation must be a name or a callable, got {activation!r} "
            f"({type(activation).__name__})."
        )
    _check_assumption(activation)
    return activation


def _check_assumption(activation: Activation) -> None:
    name = getattr(activation, "__name__", repr(activation))
    values = np.asarray(activation(jnp.asarray(_GRID, dtype=float)), dtype=np.float64)
    if values.shape != _GRID.shape:
        raise UserValueError(
            f"activation {name} must act on each entry: it maps shape {_GRID.shape} to "
            f"{values.shape}."
        )
    if not np.isfinite(values).all():
        bad = _GRID[~np.isfinite(values)][0]
        raise UserValueError(
            f"activation {name} is not finite at {bad:g}; it must be for every input."
        )
    at_zero = float(activation(jnp.zeros((1,)))[0])
    if abs(at_zero) > _ZERO_TOLERANCE:
        raise UserValueError(
            f"activation {name} must be zero at zero, got {at_zero:g}. Otherwise the tail nodes of "
            "an infinitely wide layer do not fade. Subtract that constant."
        )
    where, slopes = _slopes(activation, values)
    steepest = int(np.argmax(slopes))
    if slopes[steepest] > 1 + _SLOPE_TOLERANCE:
        raise UserValueError(
            f"activation {name} must have Lipschitz constant at most 1, got slope "
            f"{slopes[steepest]:.4g} near x = {where[steepest]:.3g}. The variance bounds of the "
            "prior assume it. Divide the activation by that constant."
        )


def _slopes(activation: Activation, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Absolute slopes and where: secants on the grid, derivatives beside it and far outside."""
    secants = np.abs(np.diff(values)) / np.diff(_GRID)
    beside = _GRID + np.random.default_rng(0).uniform(-0.005, 0.005, _GRID.size)
    far = np.geomspace(30.0, 1e4, 200)
    points = np.concatenate([beside, far, -far])
    derivative = jax.grad(lambda x: jnp.sum(activation(x)))(jnp.asarray(points, dtype=float))
    return np.concatenate([_GRID[1:], points]), np.concatenate([secants, np.abs(derivative)])
