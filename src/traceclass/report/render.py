"""Figures and page of a stored run, drawn from its files and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

from traceclass.experiments.directory import DirectoryError, StoredRun, read_run
from traceclass.report import mountain_car, prior_draws, theory
from traceclass.report.page import Table, html_page

# Each of these modules has sections(), main_table() and headline().
_REPORTS: Mapping[str, ModuleType] = MappingProxyType(
    {"mountain-car": mountain_car, "prior-draws": prior_draws, "theory": theory}
)


def render(path: Path) -> None:
    """Draw figures/ and report.html of the run directory `path` anew."""
    stored = read_run(path)
    report = _report_of(stored)
    sections = report.sections(path / "figures", stored.results, stored.trace, stored.arrays)
    title = f"{stored.config['experiment']}, preset {stored.config['preset']}"
    seed = stored.config["settings"]["seed"]
    page = html_page(
        f"{title}, seed {seed}",
        report.headline(stored.results),
        sections,
        stored.config,
        stored.versions,
    )
    (path / "report.html").write_text(page, encoding="utf-8")


def terminal_summary(path: Path) -> tuple[Table, str]:
    """The main table of a stored run and a sentence on its chains."""
    stored = read_run(path)
    report = _report_of(stored)
    return report.main_table(stored.results), report.headline(stored.results)


def _report_of(stored: StoredRun) -> ModuleType:
    name = str(stored.config.get("experiment"))
    if name not in _REPORTS:
        raise DirectoryError(f"{stored.path} holds a run of {name!r}, which has no report here.")
    return _REPORTS[name]
