"""Bayesian inference of unknown functions with trace-class Gaussian priors.

prior -> values at points -> likelihood -> posterior -> kernel -> sample -> run -> report
"""

from traceclass import control, theory
from traceclass.errors import UserError
from traceclass.kernels import (
    Kernel,
    Reference,
    block_node_swap,
    cycle,
    elliptical_slice,
    hmc,
    mala,
    mixture,
    node_swap,
    pcn,
    pcnl,
    random_walk,
    smc_kernel,
    tempered,
)
from traceclass.laplace import laplace
from traceclass.likelihoods import (
    ActionChoice,
    DarcyFlow,
    FlowBoundary,
    GaussianRegression,
    GroundwaterFlow,
    Likelihood,
)
from traceclass.model_choice import (
    Comparison,
    Evidence,
    SMCEvidence,
    Tempering,
    compare,
    smc_evidence,
)
from traceclass.posterior import Posterior
from traceclass.priors import (
    CosineSeries,
    FourierSeries,
    Hyper,
    IidNetwork,
    LogNormal,
    Prior,
    Reduced,
    Series,
    ShiftedLogNormal,
    TraceClassNetwork,
    Uniform,
    scale_to_box,
)
from traceclass.sampling import (
    Interrupted,
    Run,
    StoreError,
    Until,
    open_run,
    sample,
    use_cpu_devices,
)
from traceclass.version import __version__

__all__ = [
    "ActionChoice",
    "Comparison",
    "CosineSeries",
    "DarcyFlow",
    "Evidence",
    "FlowBoundary",
    "FourierSeries",
    "GaussianRegression",
    "GroundwaterFlow",
    "Hyper",
    "IidNetwork",
    "Interrupted",
    "Kernel",
    "Likelihood",
    "LogNormal",
    "Posterior",
    "Prior",
    "Reduced",
    "Reference",
    "Run",
    "SMCEvidence",
    "Series",
    "ShiftedLogNormal",
    "StoreError",
    "Tempering",
    "TraceClassNetwork",
    "Uniform",
    "Until",
    "UserError",
    "__version__",
    "block_node_swap",
    "compare",
    "control",
    "cycle",
    "elliptical_slice",
    "hmc",
    "laplace",
    "mala",
    "mixture",
    "node_swap",
    "open_run",
    "pcn",
    "pcnl",
    "random_walk",
    "sample",
    "scale_to_box",
    "smc_evidence",
    "smc_kernel",
    "tempered",
    "theory",
    "use_cpu_devices",
]
