"""A table cell is plain data: another process makes the same one, and goes on with its run."""

from __future__ import annotations

import json

import pytest
from own_process import python

import traceclass as tc
from traceclass.experiments import EXPERIMENTS
from traceclass.experiments.cells import Chains, run_cells

pytestmark = pytest.mark.xdist_group("tables")

# The last cell begins where the first ended, so all that it needs is on disk.
CHANGES = {
    "widths": (2, 3), "bnn_widths": (), "gradient_widths": (), "num_chains": 2,
    "num_moved": 2_000, "min_steps": 20, "max_steps": 40, "num_demonstrations": 5,
    "gradient_chains": 2,
}  # fmt: skip
ELSEWHERE = """
import json, pathlib, sys
import traceclass as tc
from traceclass.experiments.cells import Chains, make_cell

tc.use_cpu_devices(2)
*plain, store = json.loads(sys.argv[1])
cell = make_cell(*plain, pathlib.Path(store))
print(Chains(progress=False, store=pathlib.Path(store), resume=True).sample(cell).sha256())
"""


@pytest.mark.long
def test_another_process_makes_the_same_cell_and_goes_on_with_its_run(tmp_path):
    """Resuming compares what every function computes; the draws are those of the first process."""
    experiment = EXPERIMENTS["width-sweep"]
    config = experiment.presets["quick"].model_copy(update=CHANGES)
    done = run_cells(experiment, config, Chains(progress=False, store=tmp_path))
    assert list(done) == ["tcnn-2", "tcnn-3"]
    settings = json.loads(config.model_dump_json())
    task = json.dumps(["width-sweep", settings, "tcnn-3", str(tmp_path)])
    answer = python("-c", ELSEWHERE, task)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == done["tcnn-3"].run.sha256()
    assert done["tcnn-3"].run.sha256() == tc.open_run(tmp_path / "tcnn-3").sha256()


def test_numbers_are_kept_after_every_cell():
    experiment = EXPERIMENTS["width-sweep"]
    config = experiment.presets["quick"].model_copy(update=CHANGES)
    seen = []
    run_cells(experiment, config, Chains(progress=False), lambda n: seen.append(list(n["cells"])))
    assert seen == [["tcnn-2"], ["tcnn-2", "tcnn-3"]]
