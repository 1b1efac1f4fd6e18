"""Gaussian measures on functions, in whitened coordinates."""

from traceclass.priors.base import Prior as Prior
from traceclass.priors.fourier import FourierSeries as FourierSeries
from traceclass.priors.hyper import Hyper as Hyper
from traceclass.priors.hyperpriors import LogNormal as LogNormal
from traceclass.priors.hyperpriors import ShiftedLogNormal as ShiftedLogNormal
from traceclass.priors.hyperpriors import Uniform as Uniform
from traceclass.priors.inputs import scale_to_box as scale_to_box
from traceclass.priors.network import IidNetwork as IidNetwork
from traceclass.priors.network import TraceClassNetwork as TraceClassNetwork
from traceclass.priors.reduced import Reduced as Reduced
from traceclass.priors.series import CosineSeries as CosineSeries
from traceclass.priors.series import Series as Series
