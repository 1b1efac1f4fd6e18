"""One self-contained HTML page: tables, figures and settings of a run.

A figure that cannot be drawn is named on the page, with all the others around it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jinja2

from traceclass.errors import UserError
from traceclass.report.tables import Table
from traceclass.run_directory.contents import Stored


class LeftOut(Exception):  # noqa: N818 (it is not an error)
    """A figure that has nothing to show here; the message says why, and stands on the page."""


class Figure(NamedTuple):
    """A PNG file to be drawn, the sentence under it, and the function that draws it."""

    name: str
    caption: str
    draw: Callable[[Path], None]


def figures(stored: Stored, **draws: Callable[..., None]) -> list[Figure]:
    """Figures by the names of their files: functions (path, stored) with captions as docstrings.

    A name in braces stands for that number of the results, as in `str.format`.
    """
    drawn = []
    for name, draw in draws.items():
        caption = " ".join((draw.__doc__ or "").format_map(stored.results).split())
        drawn.append(Figure(f"{name}.png", caption, partial(draw, stored=stored)))
    return drawn


class Drawn(NamedTuple):
    """A figure on the page: its picture as a data address, or the reason why it is missing."""

    caption: str
    source: str | None
    missing: str | None = None


class Section(NamedTuple):
    """A heading with its tables and figures, and sentences between the two."""

    title: str
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()


class Report(Protocol):
    """What an experiment says about its stored results: a module `report` with these functions."""

    def sections(self, stored: Stored) -> list[Section]:
        """The page, section by section."""
        ...

    def main_table(self, results: Any) -> Table:
        """The table that is also shown in a terminal."""
        ...

    def headline(self, results: Any) -> str:
        """The run in one sentence."""
        ...

    def warnings(self, results: Any) -> list[str]:
        """What is wrong with single table cells."""
        ...


def draw(figure: Figure, directory: Path) -> tuple[Drawn, Exception | None]:
    """The figure, drawn into `directory`, and the error if it could not be drawn."""
    path = directory / figure.name
    try:
        figure.draw(path)
    except UserError:  # such as a full disk
        raise
    except Exception as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, LeftOut):
            return Drawn(figure.caption, None, str(error)), None
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Drawn(figure.caption, None, f"{figure.name} could not be drawn ({said})."), error
    picture = base64.b64encode(path.read_bytes()).decode("ascii")
    return Drawn(figure.caption, f"data:image/png;base64,{picture}"), None


def altered_in_words(stored: Stored) -> list[str]:
    """One sentence if files of the run are not as they were written."""
    if not stored.altered:
        return []
    files = ", ".join(stored.altered)
    return [f"{files}: not as written, but edited or damaged; nothing here can be relied on."]


def html_page(stored: Stored, headline: str, sections: Sequence[Section]) -> str:
    """The page as text; the figures of its sections are drawn already."""
    config, seed = stored.config, stored.config["settings"]["seed"]
    template = resources.files("traceclass.report").joinpath("page.html.j2")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=f"{config['experiment']}, preset {config['preset']}, seed {seed}",
        headline=headline,
        sections=sections,
        alarms=altered_in_words(stored),
        config=config,
        versions=stored.versions,
    )
