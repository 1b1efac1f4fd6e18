"""One Markov kernel a file, as BlackJAX algorithms."""

from traceclass.kernels.base import Kernel as Kernel
from traceclass.kernels.pcn import pcn as pcn
