"""The paper's tables and figures: numbers and wiring, no mathematics."""

from collections.abc import Mapping
from types import MappingProxyType

from traceclass.experiments import (
    approximation,
    cheetah_curves,
    groundwater,
    half_cheetah,
    learning_curve,
    mesh_refinement,
    model_choice,
    mountain_car,
    prior_comparison,
    prior_draws,
    theory,
    width_sweep,
)
from traceclass.experiments.base import Chains as Chains
from traceclass.experiments.base import Config as Config
from traceclass.experiments.base import Experiment as Experiment
from traceclass.experiments.base import Result as Result

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        module.EXPERIMENT.name: module.EXPERIMENT
        for module in (
            prior_draws,
            theory,
            mountain_car,
            width_sweep,
            prior_comparison,
            learning_curve,
            half_cheetah,
            cheetah_curves,
            groundwater,
            approximation,
            mesh_refinement,
            model_choice,
        )
    }
)
