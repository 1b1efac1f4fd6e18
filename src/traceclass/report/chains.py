"""What reports say of chains: how they went, whether they converged, how long they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from traceclass.report.tables import Column, Row, Table, pair, table

KERNELS = {
    "pcn": "pCN",
    "pcnl": "pCNL",
    "hmc": "HMC",
    "random_walk": "random walk",
    "laplace-pcn": "Laplace pCN",
    "laplace-hmc": "Laplace HMC",
}


def rhat(value: float | None) -> str:
    """R-hat with three decimals; it is not defined for chains that never moved."""
    return "not defined" if value is None else f"{value:.3f}"


RHAT = Column("R-hat", "rhat", rhat)
CHAINS = (
    Column("acceptance", pair("acceptance_rate", "acceptance_error"), ".3f"),
    Column("step size", "tuning.step_size", ".3g"),
    Column("kicks", "tuning.num_kicks", ".0f"),
    Column("draws", "draws", ","),
    Column("steps", "steps", ","),
    Column("ESS", "ess", ",.0f"),
    RHAT._replace(marked=True),
    Column("ESS per second", "ess_per_second", ".1f"),
    Column("seconds", "seconds", ".0f"),
)


def no_warnings(_: Any) -> list[str]:
    """The warnings of an experiment whose tables say themselves what is wrong."""
    return []


def chain_table(cells: Iterable[Row], *named: Column, more: Sequence[Column] = ()) -> Table:
    """How the chains of each table cell went: `named` say which cell, `more` what else is known."""
    return table(cells, (*named, *CHAINS, *more))


def chain_warnings(cells: Iterable[Row], name: Callable[[Row], str]) -> list[str]:
    """What the chains warned of, each with the name of its table cell."""
    return [f"{name(cell)}: {text}" for cell in cells for text in cell["warnings"]]


def warnings_of_cells(name: Callable[[Row], str]) -> Callable[[Row], list[str]]:
    """The `warnings` of an experiment: those of the chains of all its table cells."""
    return lambda results: chain_warnings(results["cells"], name)


def num_converged(cells: Sequence[Row]) -> str:
    """How many of the table cells converged, in words."""
    return f"{sum(cell['is_converged'] for cell in cells)} of {len(cells)}"
