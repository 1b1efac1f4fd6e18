"""Importing is cheap and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_IMPORTS = {
    "peers": "import jax, blackjax",
    "ours": "import traceclass as tc; [getattr(tc, name) for name in tc.__all__]",
}


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.long
def test_import_takes_at_most_half_as_long_again_as_jax_and_blackjax():
    """Processor time, which other work on the machine hardly changes; the best of three."""
    best = dict.fromkeys(_IMPORTS, float("inf"))
    for _ in range(3):
        for name, statement in _IMPORTS.items():
            code = (
                f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
            )
            best[name] = min(best[name], float(_run(code)))
    assert best["ours"] <= 1.5 * best["peers"]


@pytest.mark.long
def test_import_changes_no_jax_setting():
    show = "print(json.dumps({k: str(v) for k, v in jax.config.values.items()}))"
    before = json.loads(_run(f"import json, jax; {show}"))
    after = json.loads(_run(f"import json, jax, traceclass; {show}"))
    assert {name: after[name] for name in before} == before


@pytest.mark.long
def test_public_names_are_there_and_none_is_a_module_by_accident():
    """A module of the same name would take a function's place once it is imported."""
    code = (
        "import pkgutil, types, traceclass as tc; "
        "[__import__(m.name) for m in pkgutil.walk_packages(tc.__path__, 'traceclass.') "
        "if not m.name.endswith(('__main__', 'cheetah_camera'))]; "
        "print(sorted(n for n in tc.__all__ if isinstance(getattr(tc, n), types.ModuleType)))"
    )
    assert _run(code).strip() == "['control', 'scores', 'theory']"


def test_help_and_list_do_not_start_jax():
    check = "assert not {'jax', 'numpy', 'matplotlib'} & set(sys.modules), sorted(sys.modules)"
    for words in (["--help"], ["--version"], ["run", "--help"], ["list"]):
        code = (
            "import sys; from typer.testing import CliRunner; from traceclass.cli import app; "
            f"answer = CliRunner().invoke(app, {words}); assert answer.exit_code == 0; {check}"
        )
        _run(code)
