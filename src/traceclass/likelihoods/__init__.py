"""What data say about the function's values at fixed points."""

from traceclass.likelihoods.action_choice import ActionChoice as ActionChoice
from traceclass.likelihoods.base import Likelihood as Likelihood
from traceclass.likelihoods.darcy import DarcyFlow as DarcyFlow
from traceclass.likelihoods.darcy import FlowBoundary as FlowBoundary
from traceclass.likelihoods.groundwater import GroundwaterFlow as GroundwaterFlow
from traceclass.likelihoods.regression import GaussianRegression as GaussianRegression
