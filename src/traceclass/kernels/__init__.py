"""One Markov kernel a file, as BlackJAX algorithms."""

from traceclass.kernels.base import Kernel as Kernel
from traceclass.kernels.block_node_swap import block_node_swap as block_node_swap
from traceclass.kernels.cycle import cycle as cycle
from traceclass.kernels.elliptical_slice import elliptical_slice as elliptical_slice
from traceclass.kernels.hmc import hmc as hmc
from traceclass.kernels.mala import mala as mala
from traceclass.kernels.mixture import mixture as mixture
from traceclass.kernels.node_swap import node_swap as node_swap
from traceclass.kernels.pcn import pcn as pcn
from traceclass.kernels.pcnl import pcnl as pcnl
from traceclass.kernels.random_walk import random_walk as random_walk
from traceclass.kernels.smc import smc_kernel as smc_kernel
from traceclass.kernels.tempered import tempered as tempered
