"""Importing is cheap and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

_IMPORTS = {"peers": "import jax, blackjax", "ours": "import traceclass"}


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_takes_at_most_half_as_long_again_as_jax_and_blackjax():
    """Best of four, measured in turns so that noise of the machine hits both."""
    best = dict.fromkeys(_IMPORTS, float("inf"))
    for _ in range(4):
        for name, statement in _IMPORTS.items():
            code = (
                f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
            )
            best[name] = min(best[name], float(_run(code)))
    assert best["ours"] <= 1.5 * best["peers"]


def test_import_changes_no_jax_setting():
    show = "print(json.dumps({k: str(v) for k, v in jax.config.values.items()}))"
    before = json.loads(_run(f"import json, jax; {show}"))
    after = json.loads(_run(f"import json, jax, traceclass; {show}"))
    assert {name: after[name] for name in before} == before
