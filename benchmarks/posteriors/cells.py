"""What is compared, and the file of cells: one cell is one kernel on one posterior.

Nothing heavy is imported here: cells are measured in processes of their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# What a cell has found, or why it has found nothing; plain JSON.
Cell = dict[str, Any]

POSTERIORS = {
    "mountain-car-10": "mountain car, network 3 x 10",
    "mountain-car-100": "mountain car, network 3 x 100",
    "half-cheetah": "half cheetah, network 3 x 10",
    "groundwater-series": "groundwater, cosine series",
    "groundwater-network": "groundwater, network",
    "approximation": "approximation of a field, network",
    "diabetes": "diabetes, everything inferred",
    "linear-gaussian": "linear-Gaussian, 625 terms",
    "two-modes": "two separate modes",
}
# The half cheetah of the paper's authors, and rows of numbers that the user gives.
AUTHORS_CHEETAH = "half-cheetah-authors"
OWN_DATA = "data-"

OURS = {
    "hmc": "`tc.hmc`",
    "hmc-adapt": '`tc.hmc.using(reference="adapt")`',
    "hmc-swap": "`tc.cycle(tc.hmc, tc.node_swap)`",
    "tempered": "`tc.tempered(tc.hmc)`",
    "pcn": "`tc.pcn`",
}
BLACKJAX = {
    "nuts": "NUTS, diagonal metric",
    "nuts-low-rank": "NUTS, low-rank metric",
    "mclmc": "adjusted MCLMC",
    "laps": "LAPS",
}
KERNELS = OURS | BLACKJAX
# Posteriors of functions that have no nodes to swap.
_WITHOUT_NODES = ("groundwater-series", "linear-gaussian", "two-modes")


def applies(kernel: str, posterior: str) -> bool:
    """Whether the kernel can do, or is needed, on the posterior."""
    if kernel == "tempered":
        return posterior == "two-modes"
    return kernel != "hmc-swap" or posterior not in _WITHOUT_NODES


def title_of(posterior: str) -> str:
    """The posterior in words."""
    if posterior == AUTHORS_CHEETAH:
        return f"{POSTERIORS['half-cheetah']}, the authors' data"
    if posterior.startswith(OWN_DATA):
        return f"{posterior.removeprefix(OWN_DATA)}, everything inferred"
    return POSTERIORS[posterior]


def read(file: Path) -> list[Cell]:
    """The cells that were stored so far."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def write(file: Path, cells: Iterable[Cell]) -> None:
    """All cells, in the place of what was there: whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(json.dumps(list(cells), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(partial, file)


def is_done(cells: Iterable[Cell], posterior: str, kernel: str) -> bool:
    """Whether this cell is among those that were stored."""
    return any(c["posterior"] == posterior and c["kernel"] == kernel for c in cells)
