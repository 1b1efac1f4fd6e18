"""One Markov kernel per file, as BlackJAX algorithms.

A name here is the kernel itself, also where its file has the same name: `traceclass.kernels.hmc` is
`tc.hmc`. What else a file holds is imported from it by name, as in
`from traceclass.kernels.hmc import trajectory`.
"""

from traceclass.kernels.base import Kernel
from traceclass.kernels.block_node_swap import block_node_swap
from traceclass.kernels.centred import centred
from traceclass.kernels.cycle import cycle
from traceclass.kernels.elliptical_slice import elliptical_slice
from traceclass.kernels.hmc import hmc
from traceclass.kernels.mala import mala
from traceclass.kernels.mixture import mixture
from traceclass.kernels.node_swap import node_swap
from traceclass.kernels.pcn import pcn
from traceclass.kernels.pcnl import pcnl
from traceclass.kernels.random_walk import random_walk
from traceclass.kernels.reference import Reference
from traceclass.kernels.smc import smc_kernel
from traceclass.kernels.tempered import tempered

__all__ = [
    "Kernel",
    "Reference",
    "block_node_swap",
    "centred",
    "cycle",
    "elliptical_slice",
    "hmc",
    "mala",
    "mixture",
    "node_swap",
    "pcn",
    "pcnl",
    "random_walk",
    "smc_kernel",
    "tempered",
]
