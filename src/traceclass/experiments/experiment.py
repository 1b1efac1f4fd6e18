"""What an experiment is: frozen settings, table cells made from plain data, results, a report.

Each experiment is a folder with three modules. `settings` has its configuration and presets and
imports nothing heavy; `run` has the functions of `Program`; `report` those of `Report`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import pydantic

from traceclass.errors import UserValueError

if TYPE_CHECKING:
    import xarray as xr

    from traceclass.experiments.cells import Cell, Done, Earlier, Measured
    from traceclass.report.page import Report
    from traceclass.sampling.run import Run


_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")
# The priors and kernels of the mountain-car experiments.
PriorName = Literal["tcnn", "kl", "bnn"]
KernelName = Literal["pcn", "pcnl", "hmc"]


class Config(pydantic.BaseModel):
    """Settings of one experiment; unknown names and wrong types are refused."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=True
    )

    seed: int = pydantic.Field(
        default=0, ge=0, lt=2**32, description="seed of data, chains and rollouts"
    )


class Sampled(Config):
    """Settings of an experiment with chains: how many, and how many draws each keeps."""

    num_chains: pydantic.PositiveInt = 8
    num_warmup: int = pydantic.Field(default=1_000, ge=400)
    num_samples: pydantic.PositiveInt = 100

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments of `tc.sample` that every table cell shares."""
        names = ("num_chains", "num_warmup", "num_samples", "seed")
        return {name: getattr(self, name) for name in names}


class Agreeing(Sampled):
    """Settings of an experiment whose chains go on until they agree, or have `max_samples`."""

    max_samples: pydantic.PositiveInt = 1_000


class Repeated(Agreeing):
    """Settings of an experiment with several data sets, each with the next seed."""

    num_data_sets: int = pydantic.Field(default=3, ge=1, le=1_000)

    @property
    def seeds(self) -> range:
        """One seed per data set."""
        return range(self.seed, self.seed + self.num_data_sets)


def check_table(config: Config, **names: tuple[object, ...]) -> None:
    """Refuse settings that name a table cell twice, or a data set beyond the last seed."""
    for setting, values in names.items():
        if len(set(values)) < len(values):
            raise UserValueError(f"{setting} must differ from each other, got {list(values)}.")
    if isinstance(config, Repeated) and config.seeds.stop > 2**32:
        raise UserValueError(
            f"seed + num_data_sets must be at most 2**32, got {config.seed} + "
            f"{config.num_data_sets}: each data set has the next seed."
        )


def made_once(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """Remember what was last made from settings: table cells share their data and priors."""
    return cast("Callable[_Given, _Made]", functools.lru_cache(maxsize=16)(function))


class Result(NamedTuple):
    """What an experiment leaves behind: figures are drawn from these alone.

    `numbers` is plain JSON; `trace` the recorded draws, if there was a chain; `arrays` everything
    else that a figure needs.
    """

    numbers: dict[str, Any]
    trace: xr.DataTree | None
    arrays: xr.Dataset


class Program(Protocol):
    """The module `run` of an experiment."""

    Results: type
    """A TypedDict: what `results.json` holds."""

    def check(self, config: Any) -> None:
        """Raise a `UserError` if the settings make no sense, before anything is written."""
        ...

    def cells(self, config: Any) -> Collection[str]:
        """The names of all table cells, in the order in which they run."""
        ...

    def cell(self, config: Any, name: str, earlier: Earlier) -> Cell:
        """The table cell of that name; `earlier` gives the runs of cells that it begins from."""
        ...

    def measure(self, config: Any, cell: Cell, run: Run) -> Measured:
        """What is reported of a sampled table cell, and what `finish` still needs of it."""
        ...

    def finish(self, config: Any, done: Mapping[str, Done]) -> Result:
        """The result of the whole experiment."""
        ...


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A named experiment, with the settings that take seconds; their defaults are the paper's.

    `takes_until` is False where chains begin at the ends of others, which must stay where they are.
    """

    name: str
    summary: str
    quick: Config
    has_chains: bool = True
    takes_until: bool = True

    @property
    def presets(self) -> dict[str, Config]:
        """Settings by name."""
        return {"quick": self.quick, "paper": type(self.quick)()}

    @property
    def program(self) -> Program:
        """Its module `run`, imported when it is first needed."""
        return cast("Program", self._module("run"))

    @property
    def report(self) -> Report:
        """Its module `report`."""
        return cast("Report", self._module("report"))

    def _module(self, part: str) -> Any:
        folder = self.name.replace("-", "_")
        return importlib.import_module(f"traceclass.experiments.{folder}.{part}")
