"""Table 1 and its continuation, from the stored cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xarray as xr

from traceclass.experiments.width_sweep import PAPER, row_of
from traceclass.report.figures import BLUE, GREEN, GREY, ORANGE, figure
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import with_error

ROWS = {
    "tcnn_pcn": "tcNN pCN",
    "tcnn_pcnl": "tcNN pCNL",
    "tcnn_hmc": "tcNN HMC",
    "tcnn_node_swap": "tcNN Node-Swap",
    "bnn_fixed_pcn": "BNN 1/3 pCN",
    "bnn_scaled_pcn": "BNN 10/3N pCN",
}
_COLOURS = {
    "tcnn_pcn": BLUE,
    "tcnn_pcnl": GREEN,
    "tcnn_hmc": GREEN,
    "tcnn_node_swap": GREY,
    "bnn_fixed_pcn": ORANGE,
    "bnn_scaled_pcn": ORANGE,
}
_DASHED = ("tcnn_hmc", "bnn_scaled_pcn")


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace, arrays
    cells = results["cells"]
    return [
        Section(
            "Acceptance rates in per cent: trace-class (tcNN) and standard (BNN) networks",
            [main_table(results)],
            [
                Figure(
                    _draw(directory / "acceptance.png", cells),
                    "Acceptance against width at fixed step sizes, with two standard errors; "
                    "hollow marks are the paper's. Errors are over chains, on one data set; chains "
                    "of a wider network begin at the ends of the narrower one's, so neighbours are "
                    "not independent. The paper's one BNN row stands beside two readings of its "
                    "variances: 10/(3N) a layer, as its text has it, and 1/3 at every width.",
                )
            ],
        ),
        Section("Every cell", [_cell_table(cells)], []),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """One line a width: ours, with the standard error over chains, and the paper's."""
    cells = {(cell["row"], cell["width"]): cell for cell in results["cells"]}
    widths = sorted({width for _, width in cells})
    rows = [row for row in ROWS if any(row == r for r, _ in cells)]
    heads, lines = ["width"], [[str(width)] for width in widths]
    for row in rows:
        heads.append(ROWS[row])
        for line, width in zip(lines, widths, strict=True):
            line.append(_text(cells.get((row, width))))
        # Both readings of the standard prior stand beside the one row the paper has.
        if row in PAPER and row != "bnn_fixed_pcn":
            heads.append("paper BNN" if row.startswith("bnn") else "paper")
            for line, width in zip(lines, widths, strict=True):
                line.append(format(PAPER[row][width], "g") if width in PAPER[row] else "-")
    return Table(heads, lines)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    ours = [c for c in row_of(results["cells"], "tcnn_pcn") if c["paper"] is not None]
    seconds = f"{results['seconds']['total']:.0f} s in all"
    if not ours:
        return seconds
    worst = max(ours, key=lambda cell: abs(cell["acceptance"] - cell["paper"]))
    return (
        "trace-class pCN: largest difference from the paper "
        f"{worst['acceptance'] - worst['paper']:+.1f} ± {worst['error']:.1f} points at width "
        f"{worst['width']}; in brackets: drifting; {seconds}"
    )


def _text(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "-"
    text = with_error(cell["acceptance"], cell["error"], ".1f")
    return f"[{text}]" if cell["is_drifting"] else text


def _cell_table(cells: list[dict[str, Any]]) -> Table:
    heads = (
        "row",
        "width",
        "parameters",
        "rate",
        "drift, first to second half",
        "step size",
        "steps",
        "R-hat of l",
        "seconds",
    )
    rows = [
        (
            ROWS[cell["row"]],
            str(cell["width"]),
            f"{cell['num_coordinates']:,}",
            with_error(cell["acceptance"], cell["error"], ".2f"),
            with_error(cell["drift"], cell["drift_error"], ".2f"),
            "-" if cell["step_size"] is None else f"{cell['step_size']:.3g}",
            f"{cell['steps']:,}",
            "-" if cell["rhat_log_likelihood"] is None else f"{cell['rhat_log_likelihood']:.2f}",
            f"{cell['seconds']:.0f}",
        )
        for row in ROWS
        for cell in row_of(cells, row)
    ]
    return Table(heads, rows)


def _draw(path: Path, cells: list[dict[str, Any]]) -> Path:
    with figure(path, 8.4, 4.2) as canvas:
        axes = canvas.subplots()
        for row, words in ROWS.items():
            own = row_of(cells, row)
            if not own:
                continue
            widths = [cell["width"] for cell in own]
            axes.errorbar(
                widths,
                [cell["acceptance"] for cell in own],
                yerr=[2 * cell["error"] for cell in own],
                color=_COLOURS[row],
                linestyle="--" if row in _DASHED else "-",
                marker="o",
                markersize=3,
                linewidth=1,
                label=words,
            )
            if row in PAPER and row != "bnn_scaled_pcn":
                known = [n for n in PAPER[row] if n in widths]
                axes.scatter(
                    known,
                    [PAPER[row][n] for n in known],
                    facecolor="none",
                    edgecolor=_COLOURS[row],
                    s=34,
                )
        axes.set(xscale="log", ylim=(0, 100), xlabel="width", ylabel="acceptance, %")
        ticks = sorted({cell["width"] for cell in cells})
        shown = [n for n in ticks if str(n)[0] in "125"]
        axes.set_xticks(shown, [str(n) for n in shown], minor=False)
        axes.minorticks_off()
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return path
