"""Tables of text from rows of numbers: a column says where its number is and how it is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# A row of the results: a mapping read from JSON, where null stands for what is not finite.
Row = Mapping[str, Any]

# Policies and classifiers that are compared with the posteriors.
ALTERNATIVES = {
    "logistic": "cloning, logistic",
    "network": "cloning, network",
    "forest": "cloning, forest",
    "expert": "expert",
    "optimal": "optimal",
}


class Table(NamedTuple):
    """Column titles and rows, all text."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


class Column(NamedTuple):
    """One column: its title, where a row has its value, and how the value is written.

    `key` is a name, a path of names with dots, or a function of the row. `format` is a format
    specification or a function. A value {"mean", "error"} is written with its error, a missing one
    as a dash. `scale` multiplies numbers (100 for per cent). A `marked` value stands in brackets
    where the chains of the row did not converge.
    """

    title: str
    key: str | Callable[[Any], Any]
    format: str | Callable[[Any], str] = ""
    scale: float = 1.0
    marked: bool = False

    def text(self, row: Row) -> str:
        """What stands in this column of a row."""
        value = self.key(row) if callable(self.key) else found(row, self.key)
        if isinstance(self.format, str):
            text = written(value, self.format, self.scale)
        else:
            text = self.format(value)
        return marked(text, row) if self.marked else text


def table(rows: Iterable[Row], columns: Sequence[Column]) -> Table:
    """One line of text for each row."""
    lines = [tuple(column.text(row) for column in columns) for row in rows]
    return Table([column.title for column in columns], lines)


def grouped(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    """The rows that share what they have under `key`, in the order of their first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def found(row: Row, path: str) -> Any:
    """The value at a path of names joined by dots; None if any of them is missing."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def written(value: Any, digits: str, scale: float = 1.0) -> str:
    """A value by a format specification; a number {"mean", "error"} with its error."""
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        mean, error = (None if value[n] is None else scale * value[n] for n in ("mean", "error"))
        return with_error(mean, error, digits)
    if isinstance(value, str) or not digits:
        return str(value)
    return format(value if scale == 1 else scale * value, digits)


def pair(mean: str, error: str) -> Callable[[Row], dict[str, Any]]:
    """A key for a number and its error that stand under names of their own."""
    return lambda row: {"mean": row[mean], "error": row[error]}


def with_error(value: float | None, error: float | None, digits: str = ".1f") -> str:
    """The number and its standard error; a value that is not finite is stored as null."""
    if value is None:
        return "not finite"
    text = format(value, digits)
    return text if error is None or not math.isfinite(error) else f"{text} ± {error:{digits}}"


def marked(text: str, row: Row) -> str:
    """The text, in brackets if the chains of the row did not converge."""
    return text if row["is_converged"] else f"[{text}]"


def errors_over(results: Row) -> str:
    """What the errors in a table of failures are over."""
    if results["num_data_sets"] == 1:
        return "± is the standard error over the episodes"
    return "± is the standard error over the data sets that converged"
