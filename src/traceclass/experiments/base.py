"""What an experiment is: a frozen configuration, a problem built from it, and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import xarray as xr

from traceclass.kernels.base import KernelFactory
from traceclass.posterior import Posterior
from traceclass.sampling import Run, sample
from traceclass.sampling.store import MANIFEST
from traceclass.sampling.until import Until


class Config(pydantic.BaseModel):
    """Settings of one experiment; unknown names and wrong types are refused."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=True
    )

    seed: int = pydantic.Field(
        default=0, ge=0, lt=2**32, description="seed of data, chains and rollouts"
    )


class Result(NamedTuple):
    """What an experiment leaves behind: figures are drawn from these alone.

    `numbers` is plain JSON; `trace` the recorded draws, if there was a chain; `arrays` everything
    else that a figure needs.
    """

    numbers: dict[str, Any]
    trace: xr.DataTree | None
    arrays: xr.Dataset


class Chains(NamedTuple):
    """How an experiment is to run its chains: arguments of `tc.sample` that change no draw.

    An experiment is a table of cells, and every cell a run of its own with a store of its own.
    """

    progress: bool = True
    store: Path | None = None
    resume: bool = False
    force: bool = False
    until: Until | None = None

    def sample(
        self,
        cell: str,
        posterior: Posterior,
        kernel: KernelFactory,
        *,
        until: Until | None = None,
        **arguments: Any,
    ) -> Run:
        """`tc.sample` for one cell. `until` is the experiment's own wish; the user's comes first.

        A cell that was not begun cannot be resumed: it begins.
        """
        store = None if self.store is None else self.store / cell
        is_begun = store is not None and (store / MANIFEST).exists()
        return sample(
            posterior,
            kernel,
            **arguments,
            progress=cell if self.progress else False,
            store=store,
            resume=self.resume and is_begun,
            force=self.force and is_begun,
            until=self.until or until,
        )


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A named experiment with its presets.

    `build` makes the problem from a configuration, cheaply, and raises ValueError or TypeError if
    the settings make no sense; `run` does the work, with chains (if `has_chains`) as told.
    """

    name: str
    summary: str
    presets: Mapping[str, Config]
    build: Callable[[Any], Any]
    run: Callable[[Any, Any, Chains], Result]
    has_chains: bool = False
    # Not where chains begin at the ends of others, which must stay where they are.
    takes_until: bool = True
