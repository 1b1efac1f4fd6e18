"""Chains and what warm-up has learnt, as the plain arrays that a chunk keeps, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.sampling.adaptation import Memory
from traceclass.sampling.chunk import Chain
from traceclass.sampling.files import StoreError

_ADAPTATION, _CHAINS = "adaptation/", "chains"


def checkpoint(chains: Chain, learnt: Memory) -> dict[str, np.ndarray]:
    """All of it by name."""
    state = {
        _CHAINS + jax.tree_util.keystr(path): _plain(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(chains)
    }
    return state | {_ADAPTATION + name: array for name, array in learnt.items()}


def learnt_in(arrays: Mapping[str, np.ndarray]) -> Memory:
    """What warm-up had learnt."""
    return {n.removeprefix(_ADAPTATION): a for n, a in arrays.items() if n.startswith(_ADAPTATION)}


def chains_in(arrays: Mapping[str, np.ndarray], like: Chain) -> Chain:
    """The chains; `like` has the shapes they must have for this kernel."""

    def restored(path: Any, leaf: Any) -> Any:
        array = arrays.get(_CHAINS + jax.tree_util.keystr(path))
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if array is not None and is_key:
            return jax.random.wrap_key_data(jnp.asarray(array))
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise StoreError(
                f"the chains in the store do not fit this kernel: {jax.tree_util.keystr(path)} "
                f"should be {leaf.dtype}{list(leaf.shape)}."
            )
        return array

    return jax.tree_util.tree_map_with_path(restored, like)


def _plain(leaf: Any) -> np.ndarray:
    """An array of plain numbers; a JAX key is stored as its data."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)
