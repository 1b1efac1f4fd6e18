"""Bayesian inference of unknown functions with trace-class Gaussian priors.

prior -> values at points -> likelihood -> posterior -> kernel -> sample -> trace -> report
"""

from traceclass import control as control
from traceclass import theory as theory
from traceclass.errors import UserError as UserError
from traceclass.kernels import Kernel as Kernel
from traceclass.kernels import block_node_swap as block_node_swap
from traceclass.kernels import cycle as cycle
from traceclass.kernels import elliptical_slice as elliptical_slice
from traceclass.kernels import hmc as hmc
from traceclass.kernels import mala as mala
from traceclass.kernels import mixture as mixture
from traceclass.kernels import node_swap as node_swap
from traceclass.kernels import pcn as pcn
from traceclass.kernels import pcnl as pcnl
from traceclass.kernels import random_walk as random_walk
from traceclass.kernels import smc_kernel as smc_kernel
from traceclass.kernels import tempered as tempered
from traceclass.kernels.reference import Reference as Reference
from traceclass.laplace import laplace as laplace
from traceclass.likelihoods import ActionChoice as ActionChoice
from traceclass.likelihoods import DarcyFlow as DarcyFlow
from traceclass.likelihoods import FlowBoundary as FlowBoundary
from traceclass.likelihoods import GaussianRegression as GaussianRegression
from traceclass.likelihoods import GroundwaterFlow as GroundwaterFlow
from traceclass.likelihoods import Likelihood as Likelihood
from traceclass.posterior import Posterior as Posterior
from traceclass.priors import CosineSeries as CosineSeries
from traceclass.priors import FourierSeries as FourierSeries
from traceclass.priors import Hyper as Hyper
from traceclass.priors import IidNetwork as IidNetwork
from traceclass.priors import LogNormal as LogNormal
from traceclass.priors import Prior as Prior
from traceclass.priors import Reduced as Reduced
from traceclass.priors import Series as Series
from traceclass.priors import ShiftedLogNormal as ShiftedLogNormal
from traceclass.priors import TraceClassNetwork as TraceClassNetwork
from traceclass.priors import Uniform as Uniform
from traceclass.priors import scale_to_box as scale_to_box
from traceclass.sampling import Comparison as Comparison
from traceclass.sampling import Evidence as Evidence
from traceclass.sampling import Interrupted as Interrupted
from traceclass.sampling import Run as Run
from traceclass.sampling import SMCEvidence as SMCEvidence
from traceclass.sampling import StoreError as StoreError
from traceclass.sampling import Tempering as Tempering
from traceclass.sampling import Until as Until
from traceclass.sampling import compare as compare
from traceclass.sampling import open_run as open_run
from traceclass.sampling import sample as sample
from traceclass.sampling import smc_evidence as smc_evidence
from traceclass.sampling import use_cpu_devices as use_cpu_devices

__version__ = "0.1.0"
