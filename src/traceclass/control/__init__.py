"""Dynamics, experts, demonstrations, policies and rollouts."""

from traceclass.control import half_cheetah as half_cheetah
from traceclass.control import mountain_car as mountain_car
from traceclass.control.cloning import CLONES as CLONES
from traceclass.control.cloning import Method as Method
from traceclass.control.cloning import clone as clone
from traceclass.control.cloning import forest as forest
from traceclass.control.policies import MeanValue as MeanValue
from traceclass.control.policies import argmax_policy as argmax_policy
from traceclass.control.policies import majority_policy as majority_policy
from traceclass.control.policies import noisy_argmax_policy as noisy_argmax_policy
from traceclass.control.policies import thompson_policy as thompson_policy
from traceclass.control.rollouts import Rollouts as Rollouts
from traceclass.control.rollouts import rollout as rollout
from traceclass.control.transitions import successors as successors
from traceclass.control.value_iteration import value_iteration as value_iteration
