"""Figures and page of a stored run, drawn from its files and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

from traceclass.experiments.claim import DirectoryError
from traceclass.experiments.directory import StoredRun, read_run
from traceclass.report import (
    approximation,
    cheetah_curves,
    groundwater,
    half_cheetah,
    learning_curve,
    mesh_refinement,
    model_choice,
    mountain_car,
    prior_comparison,
    prior_draws,
    theory,
    width_sweep,
)
from traceclass.report.page import Table, html_page
from traceclass.sampling.files import write_file

# Each of these modules has sections(), main_table() and headline(), and may have warnings().
_REPORTS: Mapping[str, ModuleType] = MappingProxyType(
    {
        "approximation": approximation,
        "groundwater": groundwater,
        "half-cheetah-curves": cheetah_curves,
        "half-cheetah": half_cheetah,
        "learning-curve": learning_curve,
        "mesh-refinement": mesh_refinement,
        "model-choice": model_choice,
        "mountain-car": mountain_car,
        "prior-comparison": prior_comparison,
        "prior-draws": prior_draws,
        "theory": theory,
        "width-sweep": width_sweep,
    }
)


def render(path: Path) -> None:
    """Draw figures/ and report.html of the run directory `path` anew."""
    stored = read_run(path)
    if (path / "figures").is_symlink():
        raise DirectoryError(f"{path / 'figures'} is a link; figures are not written through it.")
    try:
        _draw(path, stored)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise DirectoryError(
            f"{path} cannot be reported: its files are not those of a finished run "
            f"({type(error).__name__}: {reason})."
        ) from error


def _draw(path: Path, stored: StoredRun) -> None:
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
    write_file(path / "report.html", [page.encode()])


def terminal_summary(path: Path) -> tuple[Table, str, list[str]]:
    """The main table of a stored run, a sentence on it, and the warnings of its chains."""
    stored = read_run(path)
    report = _report_of(stored)
    warn = getattr(report, "warnings", None)
    warnings = [] if warn is None else warn(stored.results)
    return report.main_table(stored.results), report.headline(stored.results), warnings


def _report_of(stored: StoredRun) -> ModuleType:
    name = str(stored.config["experiment"])
    if name not in _REPORTS:
        raise DirectoryError(f"{stored.path} holds a run of {name!r}, which has no report here.")
    return _REPORTS[name]
