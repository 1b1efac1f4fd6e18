"""Settings of JAX that a context manager makes for one thread, carried to others."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

# By JAX's name of a setting, what makes it for a block of code.
_MANAGERS = {
    "jax_debug_nans": jax.debug_nans,
    "jax_default_device": jax.default_device,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_default_prng_impl": jax.default_prng_impl,
    "jax_enable_x64": jax.enable_x64,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_threefry_partitionable": jax.threefry_partitionable,
}


def own_settings() -> dict[str, Any]:
    """The settings of this thread that a new one would not have."""
    with ThreadPoolExecutor(1) as thread:
        others = thread.submit(_settings).result()
    return {name: value for name, value in _settings().items() if value != others[name]}


def can_be_carried(settings: Mapping[str, Any]) -> bool:
    """Whether `carried` knows how to make all of them."""
    return settings.keys() <= _MANAGERS.keys()


@contextlib.contextmanager
def carried(settings: Mapping[str, Any]) -> Generator[None, None, None]:
    """Make the settings of another thread for a block of code in this one."""
    with contextlib.ExitStack() as stack:
        for name, value in settings.items():
            stack.enter_context(_MANAGERS[name](value))
        yield


def _settings() -> dict[str, Any]:
    return {name: getattr(jax.config, name, None) for name in jax.config.values}
