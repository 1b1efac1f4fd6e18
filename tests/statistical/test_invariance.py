"""Every kernel leaves every posterior it works on invariant, and seeded faults do not pass."""

from __future__ import annotations

import zlib

import pytest
from cells import CELLS, Cell
from faults import FAULTS
from invariance import NUM_CELLS, Verdict, judge

NUM_PAIRS = 16_384
# In every `make test`: the kernels that users want, over most priors and likelihoods, with fewer
# pairs. All others, and all combinations, are in CELLS.
QUICK = [
    Cell("pcn", "tcNN", "action choice"),
    Cell("pcnl", "Fourier", "regression"),
    Cell("hmc", "iid", "linear map"),
    Cell("elliptical_slice", "Fourier", "linear map"),
    Cell("block_node_swap", "iid", "regression"),
    Cell("cycle(pcnl, node_swap)", "tcNN", "regression"),
    Cell("hmc, reference", "Fourier", "groundwater"),
    Cell("hmc, scaled reference", "Fourier", "regression"),
    Cell("hmc", "noise", "regression"),
]
QUICK_FAULTS = [
    "HMC: likelihood tempered by 5 % everywhere",
    "pCNL: rho's arguments swapped",
    "NodeSwap: ratio of the next pair (off by one)",
    "reference: its mean left out of the ratio",
]


def verdict_of(cell: Cell, joint, num_pairs: int) -> Verdict:
    setting = cell.setting
    seed = zlib.crc32(str(cell).encode())
    return judge(
        joint, cell.tested, cell.step_size, setting.num_steps, num_pairs=num_pairs, seed=seed
    )


def check(cell: Cell, num_pairs: int) -> None:
    verdict = verdict_of(cell, cell.joint(), num_pairs)
    assert verdict.is_invariant, verdict
    # A kernel that hardly moves is invariant too, and says nothing.
    assert verdict.acceptance_rate > 0.02, verdict


def check_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    fault.patch(monkeypatch)
    verdict = verdict_of(fault.cell, fault.seeded_joint(), NUM_PAIRS)
    assert not verdict.is_invariant, verdict


def test_the_suite_is_as_large_as_it_says():
    assert len(CELLS) <= NUM_CELLS
    assert set(QUICK) <= set(CELLS)
    assert len(FAULTS) >= 15


@pytest.mark.parametrize("cell", QUICK, ids=str)
def test_invariance_quick(cell):
    check(cell, NUM_PAIRS // 4)


@pytest.mark.parametrize("name", QUICK_FAULTS)
def test_fault_is_caught_quick(name, monkeypatch):
    check_fault(name, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_invariance(cell, count_as):
    count_as("kernel x prior x likelihood invariant")
    check(cell, NUM_PAIRS)


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught(name, monkeypatch, count_as):
    count_as("seeded faults caught")
    check_fault(name, monkeypatch)
