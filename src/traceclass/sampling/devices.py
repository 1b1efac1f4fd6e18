"""Where chains run: one mesh axis, "chains", over the JAX devices there are, or threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from traceclass.errors import UserRuntimeError
from traceclass.validation import require_count


def use_cpu_devices(count: int | None = None) -> int:
    """Make JAX show `count` CPU devices, and chains use as many cores.

    `tc.sample` uses all cores without it. It is for fewer cores, e.g. one where other processes use
    the others, and for programs of one's own that are spread over devices. Call it once, before
    anything is computed: JAX fixes its devices at first use. The library never calls it by itself;
    the command line does. Returns the number of devices.

    Parameters
    ----------
    count : int, optional
        Devices. None: one per core that this process may use, which may be fewer than the machine
        has.
    """
    count = _cores_of_process() if count is None else count
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


class Spread(NamedTuple):
    """How the chains of a run are spread over what there is to compute on."""

    mesh: jax.sharding.Mesh
    # Equal parts of the chains that threads compute side by side; one where devices do.
    num_shares: int
    # Cores that the run may use, and those it has work for; None where it is not on CPUs.
    num_cores: int | None
    num_cores_used: int | None
    # Why cores are idle and what to do, in words; empty if none is.
    idle_cores: str


def spread(num_chains: int, group_size: int, hindrance: Callable[[], str]) -> Spread:
    """Groups of chains by device if this uses all cores, otherwise by threads on one device.

    `hindrance` says in words why threads must not be used, if they must not.
    """
    num_groups = num_chains // group_size
    mesh = chain_mesh(num_groups)
    if mesh.devices.flat[0].platform != "cpu":
        return Spread(mesh, 1, None, None, "")
    cores = num_cores()
    wanted = min(cores, num_groups)
    if mesh.size >= wanted:
        return Spread(mesh, 1, cores, wanted, _too_few(num_chains, group_size, cores))
    if why := hindrance():
        words = f"the run used {mesh.size} of {cores} cores: {why}."
        return Spread(mesh, 1, cores, mesh.size, words)
    # As few equal shares as keep the cores busy: calls have a cost, and shares of different sizes
    # would be different programs.
    num_shares = min(k for k in range(wanted, num_groups + 1) if num_groups % k == 0)
    words = _too_few(num_chains, group_size, cores)
    return Spread(chain_mesh(1), num_shares, cores, wanted, words)


def num_cores() -> int:
    """Cores that a run may use: those of this process, unless a number of devices was asked for."""
    cores, devices = _cores_of_process(), len(jax.devices())
    is_asked = devices > 1 or jax.config.values["jax_num_cpu_devices"] > 0
    return min(cores, devices) if is_asked else cores


def _cores_of_process() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _too_few(num_chains: int, group_size: int, cores: int) -> str:
    """That there are fewer groups of chains than cores, and what to do; empty if there are not."""
    num_groups = num_chains // group_size
    if num_groups >= cores:
        return ""
    used = f"the run used {num_groups} of {cores} cores"
    if group_size == 1:
        return f"{used}, one per chain. Use more chains."
    return (
        f"{used}, one per group of {group_size} chains, which are computed together. Use more "
        "chains, or group_size=1."
    )
