"""Figures, tables and the HTML page, from a stored run only."""

from traceclass.report.render import render as render
from traceclass.report.render import terminal_summary as terminal_summary
