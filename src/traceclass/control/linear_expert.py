r"""A linear expert with a few discrete actions, kept in small plain files.

    u(x) = clip(W (x - m) / s, -1, 1),    a(x) = argmin_j |A_j - u(x)|^2

u is the continuous expert, a the discretised one: the nearest of the actions A to what the
continuous one would do, which is what the paper calls optimal.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from traceclass.errors import UserValueError
from traceclass.validation import require_finite

_PROVENANCE = "provenance.json"
_ARRAYS = ("weights", "mean", "scale", "actions")


@dataclasses.dataclass(frozen=True)
class LinearExpert:
    """See the module. `provenance` says how it came about, as plain JSON."""

    weights: Float[np.ndarray, "controls dim"]
    mean: Float[np.ndarray, " dim"]
    scale: Float[np.ndarray, " dim"]
    actions: Float[np.ndarray, "actions controls"]
    provenance: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        controls, dim = self.weights.shape
        for name, shape in (
            ("mean", (dim,)),
            ("scale", (dim,)),
            ("actions", (len(self.actions), controls)),
        ):
            if getattr(self, name).shape != shape:
                raise UserValueError(
                    f"an expert with weights (controls, dim) = {controls, dim} needs {name} of "
                    f"shape {shape}, got {getattr(self, name).shape}."
                )
        for name in _ARRAYS:
            require_finite(getattr(self, name), name)
        if len(self.actions) < 2:
            raise UserValueError(
                f"an expert needs actions to choose among, got {len(self.actions)}."
            )
        if np.any(self.scale <= 0):
            raise UserValueError(
                f"scale must be positive, got {self.scale.min()}: it divides states."
            )

    @property
    def num_actions(self) -> int:
        """The number of actions of the discretised expert."""
        return len(self.actions)

    def controls(self, states: Float[np.ndarray, "*batch dim"]) -> np.ndarray:
        """u(x): what the continuous expert does."""
        return np.clip((states - self.mean) / self.scale @ self.weights.T, -1, 1)

    def nearest(self, states: Float[np.ndarray, "*batch dim"]) -> Int[np.ndarray, "*batch"]:
        """a(x): the number of the action that is nearest to what the continuous expert does."""
        gaps = self.actions - self.controls(states)[..., None, :]
        return np.argmin(np.sum(gaps**2, axis=-1), axis=-1)

    def save(self, directory: Path) -> None:
        """Write one file per array, and the provenance as JSON."""
        directory.mkdir(parents=True, exist_ok=True)
        for name in _ARRAYS:
            np.save(directory / f"{name}.npy", getattr(self, name), allow_pickle=False)
        text = json.dumps(dict(self.provenance), indent=2) + "\n"
        (directory / _PROVENANCE).write_text(text, encoding="utf-8")


def load_expert(directory: Path) -> LinearExpert:
    """What `LinearExpert.save` wrote; never unpickles, and refuses shapes that do not fit."""
    arrays = {name: _loaded(directory / f"{name}.npy") for name in _ARRAYS}
    for name, array in arrays.items():
        wanted = 1 if name in ("mean", "scale") else 2
        if array.ndim != wanted or array.dtype.kind != "f":
            raise UserValueError(
                f"{directory / name}.npy must hold real numbers in {wanted} dimensions, got "
                f"{array.dtype} of shape {array.shape}: it is not an expert's."
            )
    return LinearExpert(
        **{name: array.astype(np.float64) for name, array in arrays.items()},
        provenance=_described(directory / _PROVENANCE),
    )


def _loaded(file: Path) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserValueError(f"{file} is no array of an expert ({error}).") from error


def _described(file: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserValueError(
            f"{file} does not say where the expert comes from ({error})."
        ) from error
