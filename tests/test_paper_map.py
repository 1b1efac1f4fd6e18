"""Every function and test that docs/paper-map.md names exists."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`(traceclass(?:\.\w+)+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", TEXT)))


def test_the_map_names_functions_and_tests():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) >= 10
    for row in rows:
        equation, meaning, function, test = (cell.strip() for cell in row.strip("|").split("|"))
        assert equation, row
        assert meaning, row
        assert "`traceclass." in function, row
        assert "`tests/" in test, row


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_exists(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    pytest.fail(f"no module of {name}")


@pytest.mark.parametrize("name", TESTS)
def test_test_exists(name):
    path, function = name.split("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert function in names
