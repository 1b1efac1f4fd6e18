"""Tables of a report: where a value comes from, how it is written, and when it is in brackets."""

from __future__ import annotations

import pytest

from traceclass.report.tables import Column, found, grouped, table, with_error, written

ROWS = [
    {"name": "a", "is_converged": True, "deep": {"er": 0.25}, "score": {"mean": 0.5, "error": 0.1}},
    {"name": "b", "is_converged": False, "deep": {}, "score": {"mean": 0.75, "error": None}},
]


def test_a_table_has_one_line_per_row_and_one_cell_per_column():
    columns = (
        Column("name", "name"),
        Column("deeper", "deep.er", ".2f"),
        Column("score", "score", ".1f", scale=100, marked=True),
        Column("computed", lambda row: row["name"] * 2),
    )
    made = table(ROWS, columns)
    assert list(made.titles) == ["name", "deeper", "score", "computed"]
    assert list(made.rows) == [("a", "0.25", "50.0 ± 10.0", "aa"), ("b", "-", "[75.0]", "bb")]


def test_values_that_are_missing_or_not_finite_say_so():
    assert found({"a": {"b": 1}}, "a.b") == 1
    assert found({"a": 3}, "a.b") is None
    assert written(None, ".1f") == "-"
    assert with_error(None, 0.1) == "not finite"
    assert with_error(1.0, float("nan")) == "1.0"


@pytest.mark.parametrize(("value", "text"), [("word", "word"), (3, "3"), (True, "True")])
def test_what_has_no_format_is_written_as_it_is(value, text):
    assert written(value, "") == text


def test_rows_are_grouped_in_the_order_of_their_first():
    rows = [{"k": "y", "n": 1}, {"k": "x", "n": 2}, {"k": "y", "n": 3}]
    assert [(key, [r["n"] for r in of]) for key, of in grouped(rows, "k").items()] == [
        ("y", [1, 3]), ("x", [2]),
    ]  # fmt: skip
