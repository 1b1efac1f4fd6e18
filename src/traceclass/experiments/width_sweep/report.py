"""Table 1 and its continuation, from the stored cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from traceclass.experiments.width_sweep.run import Results
from traceclass.experiments.width_sweep.settings import PAPER
from traceclass.report.chains import no_warnings
from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure, line, ticks_at
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Row, Table, pair, table, with_error

warnings = no_warnings

# Each row of the table in words, with the colour and the dashes of its line.
_ROWS = {
    "tcnn_pcn": ("tcNN pCN", BLUE, "-"),
    "tcnn_pcnl": ("tcNN pCNL", GREEN, "-"),
    "tcnn_hmc": ("tcNN HMC", GREEN, "--"),
    "tcnn_node_swap": ("tcNN Node-Swap", GREY, "-"),
    "bnn_fixed_pcn": ("BNN 1/3 pCN", ORANGE, "-"),
    "bnn_scaled_pcn": ("BNN 10/3N pCN", ORANGE, "--"),
}


def row_of(cells: Sequence[Row], row: str) -> list[Row]:
    """The cells of a row, by width."""
    return sorted((cell for cell in cells if cell["row"] == row), key=lambda cell: cell["width"])


def sections(stored: Stored) -> list[Section]:
    """The table with its figure, and every cell."""
    title = "Acceptance rates in per cent: trace-class (tcNN) and standard (BNN) networks"
    drawn = figures(stored, acceptance=_draw)
    return [
        Section(title, [main_table(stored.results)], drawn),
        Section("Every cell", [_cell_table(stored.results)]),
    ]


def main_table(results: Results) -> Table:
    """One line per width: ours, with the standard error over chains, and the paper's."""
    cells = {(cell["row"], cell["width"]): cell for cell in results["cells"]}

    def ours(row: str, width: int) -> str:
        cell = cells.get((row, width))
        if cell is None:
            return "-"
        text = with_error(cell["acceptance"], cell["error"], ".1f")
        return f"[{text}]" if cell["is_drifting"] else text

    columns = [Column("width", str)]
    for row in [row for row in _ROWS if any(row == r for r, _ in cells)]:
        columns.append(Column(_ROWS[row][0], partial(ours, row)))
        # Both readings of the standard prior stand beside the one row the paper has.
        if row in PAPER and row != "bnn_fixed_pcn":
            title = "paper BNN" if row.startswith("bnn") else "paper"
            columns.append(Column(title, PAPER[row].get, "g"))
    return table(sorted({width for _, width in cells}), columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    ours = [c for c in row_of(results["cells"], "tcnn_pcn") if c["paper"] is not None]
    if not ours:
        return ""
    worst = max(ours, key=lambda cell: abs(cell["acceptance"] - cell["paper"]))
    return (
        "trace-class pCN: largest difference from the paper "
        f"{worst['acceptance'] - worst['paper']:+.1f} ± {worst['error']:.1f} points at width "
        f"{worst['width']}; in brackets: drifting"
    )


def _cell_table(results: Results) -> Table:
    columns = (
        Column("row", lambda cell: _ROWS[cell["row"]][0]),
        Column("width", "width"),
        Column("parameters", "num_coordinates", ","),
        Column("rate", pair("acceptance", "error"), ".2f"),
        Column("drift, first to second half", pair("drift", "drift_error"), ".2f"),
        Column("step size", "step_size", ".3g"),
        Column("steps", "steps", ","),
        Column("R-hat of the log-likelihood", "rhat_log_likelihood", ".2f"),
        Column("seconds", "seconds", ".0f"),
    )
    return table([cell for row in _ROWS for cell in row_of(results["cells"], row)], columns)


def _draw(path: Path, stored: Stored) -> None:
    """Acceptance against width at fixed step sizes, with two standard errors; hollow marks are the
    paper's. Errors are over chains, on one data set; chains of a wider network begin at the ends of
    the narrower one's, so neighbours are not independent. The paper's one BNN row stands beside two
    readings of its variances: 10/(3N) per layer, as its text has it, and 1/3 at every width.
    """
    cells = stored.results["cells"]
    with figure(path, 8.4, 4.2) as canvas:
        axes = canvas.subplots()
        for row, (words, colour, dashes) in _ROWS.items():
            own = row_of(cells, row)
            points = [(cell["width"], cell["acceptance"], 2 * cell["error"]) for cell in own]
            if own:
                line(axes, points, color=colour, linestyle=dashes, label=words)
            if row != "bnn_scaled_pcn":
                known = [(c["width"], c["paper"]) for c in own if c["paper"] is not None]
                hollow: Any = {"facecolor": "none", "edgecolor": colour, "s": 34}
                axes.scatter([n for n, _ in known], [rate for _, rate in known], **hollow)
        axes.set(ylim=(0, 100), xlabel="width", ylabel="acceptance, %")
        ticks_at(axes, [n for n in sorted({c["width"] for c in cells}) if str(n)[0] in "125"])
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
