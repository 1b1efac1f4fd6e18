"""The paper's tables and figures: numbers and wiring, no mathematics.

`EXPERIMENTS` has every experiment by name, each in a folder of its own; the modules beside the
folders are what several of them share.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from traceclass.experiments.experiment import Experiment

__all__ = ["EXPERIMENTS", "Experiment"]

_NAMES = (
    "prior-draws",
    "theory",
    "mountain-car",
    "width-sweep",
    "prior-comparison",
    "learning-curve",
    "half-cheetah",
    "half-cheetah-curves",
    "groundwater",
    "approximation",
    "mesh-refinement",
    "model-choice",
)


class _Registry(Mapping[str, Experiment]):
    """Experiments by name; the settings of one are imported when it is asked for."""

    def __getitem__(self, name: str) -> Experiment:
        if name not in _NAMES:
            raise KeyError(name)
        folder = name.replace("-", "_")
        return importlib.import_module(f"traceclass.experiments.{folder}.settings").EXPERIMENT

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


EXPERIMENTS: Mapping[str, Experiment] = _Registry()
