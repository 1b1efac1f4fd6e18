"""What data say about the function's values at fixed points."""

from traceclass.likelihoods.action_choice import ActionChoice
from traceclass.likelihoods.base import Likelihood
from traceclass.likelihoods.darcy import DarcyFlow, FlowBoundary
from traceclass.likelihoods.groundwater import GroundwaterFlow
from traceclass.likelihoods.regression import GaussianRegression

__all__ = [
    "ActionChoice",
    "DarcyFlow",
    "FlowBoundary",
    "GaussianRegression",
    "GroundwaterFlow",
    "Likelihood",
]
