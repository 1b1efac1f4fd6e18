"""Names and numbers as they stand in tables: with errors, and with a word where there is none."""

from __future__ import annotations

from typing import Any

KERNELS = {
    "pcn": "pCN",
    "pcnl": "pCNL",
    "hmc": "HMC",
    "laplace-pcn": "Laplace pCN",
    "laplace-hmc": "Laplace HMC",
}
ALTERNATIVES = {
    "logistic": "cloning, logistic",
    "network": "cloning, network",
    "forest": "cloning, forest",
    "expert": "expert",
    "optimal": "optimal",
}


def with_error(value: float | None, error: float | None, digits: str = ".1f") -> str:
    """The number and its standard error; a value that is not finite is stored as null."""
    if value is None:
        return "not finite"
    text = format(value, digits)
    return text if error is None else f"{text} ± {format(error, digits)}"


def estimate(figure: dict[str, Any] | None, digits: str = ".1f") -> str:
    """A figure {"mean", "error"} of the results, or a dash."""
    return "-" if figure is None else with_error(figure["mean"], figure["error"], digits)


def number(value: float | None, digits: str) -> str:
    """A number, or words where it is not defined."""
    return "not defined" if value is None else format(value, digits)


def errors_over(results: dict[str, Any]) -> str:
    """What the errors in a table of failures are over."""
    if results["num_data_sets"] == 1:
        return "± is the standard error over the episodes"
    return "± is the standard error over the data sets that converged"


def marked(text: str, cell: dict[str, Any]) -> str:
    """A figure of a cell, in brackets if its chains did not converge."""
    return text if cell["is_converged"] else f"[{text}]"
