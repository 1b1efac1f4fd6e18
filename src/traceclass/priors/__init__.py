"""Gaussian measures on functions, in whitened coordinates."""

from traceclass.priors.base import Prior
from traceclass.priors.fourier import FourierSeries
from traceclass.priors.hyper import Hyper
from traceclass.priors.hyperpriors import LogNormal, ShiftedLogNormal, Uniform
from traceclass.priors.inputs import scale_to_box
from traceclass.priors.network import IidNetwork, TraceClassNetwork
from traceclass.priors.reduced import Reduced
from traceclass.priors.series import CosineSeries, Series

__all__ = [
    "CosineSeries",
    "FourierSeries",
    "Hyper",
    "IidNetwork",
    "LogNormal",
    "Prior",
    "Reduced",
    "Series",
    "ShiftedLogNormal",
    "TraceClassNetwork",
    "Uniform",
    "scale_to_box",
]
