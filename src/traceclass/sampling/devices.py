"""Where chains run: one mesh axis, "chains", over the JAX devices there are."""

from __future__ import annotations

import os

import jax
import numpy as np

from traceclass.errors import UserRuntimeError
from traceclass.validation import require_count


def use_cpu_devices(count: int | None = None) -> int:
    """Make JAX show `count` CPU devices, so that chains run in parallel.

    Call it once, before anything is computed: JAX fixes its devices at first use. The library
    never calls it by itself; the command line does. Returns the number of devices.

    Parameters
    ----------
    count : int, optional
        Devices. None: one per core that this process may use, which may be fewer than the machine
        has.
    """
    if count is None:
        affinity = hasattr(os, "sched_getaffinity")
        count = len(os.sched_getaffinity(0)) if affinity else (os.cpu_count() or 1)
    count = require_count(count, "count", "Chains need a device to run on.")
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:
        if len(jax.devices()) == count:
            return count
        raise UserRuntimeError(
            f"use_cpu_devices({count}) came too late: JAX has already started with "
            f"{len(jax.devices())} device(s). Call it right after importing traceclass (importing "
            "blackjax starts JAX: do that later)."
        ) from error
    return count


# More chains in a group are hardly faster on a CPU; see benchmarks/README.md.
_LARGEST_GROUP = 4


def default_group_size(num_chains: int) -> int:
    """How many chains are computed together: at most 4, and at least two groups if possible."""
    largest = min(_LARGEST_GROUP, max(1, num_chains // 2))
    return max(k for k in range(1, largest + 1) if num_chains % k == 0)


def chain_mesh(num_groups: int) -> jax.sharding.Mesh:
    """The largest number of devices that divides `num_groups`, as a mesh with axis "chains"."""
    devices = jax.devices()
    count = max(k for k in range(1, len(devices) + 1) if num_groups % k == 0)
    return jax.sharding.Mesh(np.array(devices[:count]), ("chains",))
