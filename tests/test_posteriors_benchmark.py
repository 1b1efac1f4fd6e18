"""The page of `benchmarks.posteriors`, from cells that were made up."""

from __future__ import annotations

import sys

import pytest

from benchmarks.posteriors import __main__ as command
from benchmarks.posteriors import cells, page


def cell(kernel: str, ess: float, *, rhat: float | None = 1.01, posterior="diabetes"):
    """Ten seconds of sampling after thirty of warm-up."""
    return {
        "posterior": posterior,
        "kernel": kernel,
        "seconds": 10.0,
        "warmup_seconds": 30.0,
        "acceptance": 0.8,
        "evaluations": 2_000.0,
        "uses_gradients": kernel != "pcn",
        "ess": {"smallest": ess, "median": 2 * ess},
        "rhat": {"worst": rhat, "median": 1.0},
        "log_likelihood": {"mean": -12.34, "error": None},
        "traceclass": "0.1.0",
        "blackjax": "1.7.1",
        "jax": "0.10.2",
        "devices": 2,
        "machine": "x86_64",
    }


FAILED = {"posterior": "diabetes", "kernel": "laps", "failed": "ValueError: a | b"}
# NUTS is faster, but its chains do not agree.
CELLS = [
    cell("nuts", 400.0, rhat=1.5),
    cell("hmc", 300.0),
    cell("mclmc", 100.0),
    cell("pcn", 50.0, rhat=None),
    FAILED,
]


def figures_of(kernel: str, made: list) -> list[str]:
    """What stands after the name of the kernel."""
    (line,) = (x for x in page.table(made).splitlines() if f"| {cells.KERNELS[kernel]} |" in x)
    return [text.strip() for text in line.split("|")[3:-1]]


def test_ratios_are_to_the_best_of_blackjax_whose_chains_agree():
    best = page.best_of_blackjax(CELLS)
    assert best is not None
    assert best["kernel"] == "mclmc"
    assert {c["kernel"]: page.ratio(c, best) for c in CELLS} == {
        "hmc": 3.0, "nuts": 4.0, "mclmc": 1.0, "pcn": 0.5, "laps": None,
    }  # fmt: skip


def test_without_agreement_or_without_blackjax():
    apart = page.best_of_blackjax([cell("nuts", 10.0, rhat=1.5), cell("mclmc", 5.0, rhat=None)])
    assert apart is not None
    assert apart["kernel"] == "nuts"
    assert page.best_of_blackjax([cell("hmc", 10.0), FAILED]) is None
    assert page.ratio(cell("hmc", 10.0), None) is None
    assert page.ratio(cell("hmc", 10.0), cell("nuts", 0.0)) is None


def test_a_line_has_the_figures_by_second_and_by_gradient():
    hmc = figures_of("hmc", CELLS)
    assert hmc[:8] == ["1.01", "1.00", "30", "3", "60", "7.5", "150", "0.80"]
    assert hmc[-1] == "-12.3"
    assert figures_of("nuts", CELLS)[2] == "[40]"
    assert figures_of("pcn", CELLS)[0] == "not finite"
    assert figures_of("pcn", CELLS)[6] == "[25] (log-likelihoods)"
    assert figures_of("laps", CELLS)[0] == "failed: ValueError: a / b"


def test_the_page_is_the_same_from_the_same_cells(tmp_path):
    own = [
        *CELLS,
        cell("hmc", 1.0, posterior="data-yacht"),
        cell("nuts", 9.0, posterior="two-modes"),
    ]
    for folder in ("one", "two"):
        page.write(own, tmp_path / folder / "page.md")
    first, second = ((tmp_path / f / "page.svg").read_bytes() for f in ("one", "two"))
    assert first == second
    assert first.startswith(b"<?xml")
    text = (tmp_path / "one" / "page.md").read_text(encoding="utf-8")
    assert "yacht, everything inferred" in text
    assert "(page.svg)" in text
    # Posteriors stand in the order of the program, whatever the order of the cells.
    assert text.index("| diabetes") < text.index("| two separate") < text.index("| yacht")


def test_cells_that_are_there_are_not_run_again_and_failures_end_nothing(tmp_path, monkeypatch):
    file, made = tmp_path / "cells.json", []
    cells.write(file, CELLS[:2])

    def run_cell(posterior, kernel, _):
        made.append(kernel)
        return FAILED if kernel == "laps" else cell(kernel, 1.0)

    monkeypatch.setattr(command, "run_cell", run_cell)
    asked = ["--out", str(file), "--page", str(tmp_path / "p.md"), "--posteriors", "diabetes"]
    monkeypatch.setattr(sys, "argv", ["posteriors", *asked, "--kernels", "hmc", "laps", "pcn"])
    command.main()
    command.main()
    assert made == ["laps", "pcn"]
    assert len(cells.read(file)) == 4
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--retry"])
    command.main()
    assert made == ["laps", "pcn", "laps"]
    assert len(cells.read(file)) == 4
    assert "failed: ValueError" in (tmp_path / "p.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (-9, "", "ended by SIGKILL"),
        (1, "Traceback:\nValueError: no\n---\nFor simplicity, JAX ...\n", "ValueError: no"),
        (1, "a.b.NoNumbersError: 3 of 9 are NaN.\n", "a.b.NoNumbersError: 3 of 9 are NaN."),
        (3, "", "exit code 3"),
    ],
)
def test_a_process_that_failed_says_why(code, said, words):
    assert command.reason(code, said) == words
