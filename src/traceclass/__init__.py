"""Bayesian inference of unknown functions with trace-class Gaussian priors.

prior -> values at points -> likelihood -> posterior -> kernel -> sample -> run -> report

The public names are in `__init__.pyi`; each is imported when it is first used.
"""

import lazy_loader

from traceclass.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
