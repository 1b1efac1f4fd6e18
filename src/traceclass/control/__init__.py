"""Dynamics, experts, demonstrations, policies and rollouts."""

from traceclass.control import half_cheetah, mountain_car
from traceclass.control.cloning import CLONES, Method, clone, forest
from traceclass.control.grid_value import value_iteration
from traceclass.control.policies import (
    MeanValue,
    argmax_policy,
    majority_policy,
    noisy_argmax_policy,
    thompson_policy,
)
from traceclass.control.rollouts import Rollouts, rollout
from traceclass.control.transitions import successors

__all__ = [
    "CLONES",
    "MeanValue",
    "Method",
    "Rollouts",
    "argmax_policy",
    "clone",
    "forest",
    "half_cheetah",
    "majority_policy",
    "mountain_car",
    "noisy_argmax_policy",
    "rollout",
    "successors",
    "thompson_policy",
    "value_iteration",
]
