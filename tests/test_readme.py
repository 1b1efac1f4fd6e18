"""The README's program runs as it stands, and so do those on demonstrations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from own_process import python

# A group, because groups begin first: the program takes longer than any test at the end should.
pytestmark = pytest.mark.xdist_group("readme")

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def output_of(program, capsys):
    """What a program prints; in this process, where JAX and its devices are there already."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traceclass.use_cpu_devices", lambda: None)
        exec(compile(program, "program", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


def programs_in(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.long
def test_the_first_program_runs(capsys):
    """Every line of it, with a shorter run; `make test-long` runs it as it stands."""
    program = programs_in(README)[0]
    settings = "tc.hmc, num_chains=2, num_warmup=400, num_samples=20)"
    shorter = program.replace("tc.hmc, seed=0)", settings)
    assert shorter != program
    assert "r_hat" in output_of(shorter, capsys)


@pytest.mark.long
def test_the_first_program_runs_as_it_stands():
    answer = python("-c", programs_in(README)[0])
    assert answer.returncode == 0, answer.stderr
    assert "r_hat" in answer.stdout


def test_the_programs_on_demonstrations_run(capsys):
    programs = programs_in((ROOT / "docs" / "control.md").read_text(encoding="utf-8"))
    printed = [output_of(program + "print(after.shape)", capsys).strip() for program in programs]
    assert printed == ["(50, 2, 4)", "(100, 8, 17)"]


def test_every_command_in_the_first_screen_is_a_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    first_screen = "\n".join(README.splitlines()[:30])
    targets = set(re.findall(r"^ {4}make (\S+)", first_screen, flags=re.MULTILINE))
    assert targets == {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
