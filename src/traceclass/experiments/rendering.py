"""Figures and page of a stored run, drawn from its files by the report of its experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traceclass.experiments import EXPERIMENTS, Experiment
from traceclass.report.page import altered_in_words, draw, html_page
from traceclass.report.tables import Table
from traceclass.run_directory.checksums import renew_sums
from traceclass.run_directory.claim import DirectoryError
from traceclass.run_directory.contents import RESULTS, Stored, doubted, read_run, require_keys
from traceclass.sampling.files import write_file


def render(path: Path, *, force: bool = False) -> dict[str, Exception]:
    """Draw figures/ and report.html of a run directory again; the figures that failed, by name.

    Files that are not as they were written are used by force only, and named on the page.
    """
    stored, experiment = _read(path, force=force)
    directory = path / "figures"
    if directory.is_symlink():
        raise DirectoryError(f"{directory} is a link; figures are not written through it.")
    if directory.exists() and not directory.is_dir():
        raise DirectoryError(f"{directory} is not a directory; move it out of the way.")
    failed, sections = {}, []
    with doubted(stored):
        made = experiment.report.sections(stored)
    for section in made:
        drawn = {figure.name: draw(figure, directory) for figure in section.figures}
        failed |= {name: error for name, (_, error) in drawn.items() if error is not None}
        sections.append(section._replace(figures=[each for each, _ in drawn.values()]))
    for error in failed.values():
        with doubted(stored, re_raise=False):
            raise error
    page = html_page(stored, _headline(experiment, stored.results), sections)
    write_file(path / "report.html", [page.encode()])
    renew_sums(path, ["report.html", *(f"figures/{file.name}" for file in directory.glob("*.png"))])
    return failed


def terminal_summary(path: Path, *, force: bool = False) -> tuple[Table, str, list[str]]:
    """The main table of a stored run, a sentence on it, and the warnings of its chains."""
    stored, experiment = _read(path, force=force, with_arrays=False)
    report, results = experiment.report, stored.results
    warnings = [*altered_in_words(stored), *report.warnings(results)]
    if not stored.is_summed:
        warnings.append(f"{path} was written by an earlier version, whose files have no checksums.")
    return report.main_table(results), _headline(experiment, results), warnings


def _headline(experiment: Experiment, results: Any) -> str:
    """The run in one sentence, and how long its chains took."""
    said = [experiment.report.headline(results)]
    if experiment.has_chains:
        said.append(f"{results['seconds']['total']:.0f} s in all")
    return "; ".join(filter(None, said))


def _read(path: Path, *, force: bool, with_arrays: bool = True) -> tuple[Stored, Experiment]:
    stored = read_run(path, force=force, with_arrays=with_arrays)
    name = str(stored.config["experiment"])
    if name not in EXPERIMENTS:
        raise DirectoryError(f"{path} holds a run of {name!r}, which has no report here.")
    experiment = EXPERIMENTS[name]
    wanted = experiment.program.Results.__required_keys__
    require_keys(path / RESULTS, stored.results, sorted(wanted))
    return stored, experiment
