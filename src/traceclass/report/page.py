"""One self-contained HTML page: tables, figures and settings of a run."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import jinja2


class Table(NamedTuple):
    """Column heads and rows of cells, all text."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


class Figure(NamedTuple):
    """A PNG file and the sentence under it."""

    path: Path
    caption: str

    @property
    def source(self) -> str:
        """The picture itself, as a data address, so that the page needs no other file."""
        return "data:image/png;base64," + base64.b64encode(self.path.read_bytes()).decode("ascii")


class Section(NamedTuple):
    """A heading with its tables and figures, and sentences between the two."""

    title: str
    tables: Sequence[Table]
    figures: Sequence[Figure]
    notes: Sequence[str] = ()


def html_page(
    title: str,
    headline: str,
    sections: Sequence[Section],
    config: dict[str, Any],
    versions: dict[str, Any],
) -> str:
    """The page as text."""
    template = resources.files("traceclass.report").joinpath("page.html.j2")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=title, headline=headline, sections=sections, config=config, versions=versions
    )
