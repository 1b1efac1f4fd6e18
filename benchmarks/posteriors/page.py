"""The page of the documentation: one table and one figure, from the file of cells alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.posteriors.cells import (
    BLACKJAX,
    KERNELS,
    POSTERIORS,
    Cell,
    applies,
    is_done,
    title_of,
)

# Above this R-hat the chains of a cell do not agree, and its effective sample size means little.
LARGEST_RHAT = 1.2
# Okabe & Ito's palette, told apart by readers with any colour vision; ours are filled circles and
# such, BlackJAX's are crosses and such.
LOOKS = {
    "hmc": ("o", "#0072B2"),
    "hmc-adapt": ("D", "#009E73"),
    "hmc-swap": ("^", "#56B4E9"),
    "tempered": ("s", "#CC79A7"),
    "pcn": ("v", "#6b6b6b"),
    "nuts": ("x", "#D55E00"),
    "nuts-low-rank": ("+", "#D55E00"),
    "mclmc": ("1", "black"),
    "laps": ("2", "#E69F00"),
}
_INCHES_PER_ROW = 0.42
_TEMPLATE = Path(__file__).with_name("page.md")


def has_failed(cell: Cell) -> bool:
    """Whether there is a reason in place of figures."""
    return "failed" in cell


def is_trusted(cell: Cell) -> bool:
    """Whether its chains agree well enough for an effective sample size to mean something."""
    worst = cell["rhat"]["worst"]
    return worst is not None and worst <= LARGEST_RHAT


def ess_per_second(cell: Cell) -> float:
    """The smallest over predictions, in the time of sampling alone."""
    return cell["ess"]["smallest"] / cell["seconds"]


def best_of_blackjax(cells: Sequence[Cell]) -> Cell | None:
    """The fastest of BlackJAX's kernels on one posterior, of those whose chains agree if any do."""
    theirs = [c for c in cells if c["kernel"] in BLACKJAX and not has_failed(c)]
    agreeing = [c for c in theirs if is_trusted(c)]
    return max(agreeing or theirs, key=ess_per_second, default=None)


def ratio(cell: Cell, best: Cell | None) -> float | None:
    """Effective samples per second, in those of BlackJAX's best kernel."""
    if best is None or has_failed(cell) or ess_per_second(best) == 0:
        return None
    return ess_per_second(cell) / ess_per_second(best)


def by_posterior(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells of each posterior, posteriors and kernels in the order of `cells`."""
    order = [*POSTERIORS, *(c["posterior"] for c in cells)]
    found = {name: [c for c in cells if c["posterior"] == name] for name in order}
    kernels = list(KERNELS)
    return {
        name: sorted(own, key=lambda c: kernels.index(c["kernel"]))
        for name, own in found.items()
        if own
    }


class Column(NamedTuple):
    """A column of the table: its title, and its text for a cell and the best of BlackJAX's."""

    title: str
    text: Callable[[Cell, Cell | None], str]


def _sampled(cell: Cell, name: str) -> str:
    """ESS per second of sampling, in brackets where the chains do not agree."""
    text = f"{cell['ess'][name] / cell['seconds']:.3g}"
    return text if is_trusted(cell) else f"[{text}]"


def _rhat(cell: Cell, name: str) -> str:
    value = cell["rhat"][name]
    return "not finite" if value is None else f"{value:.2f}"


def _with_warm_up(cell: Cell) -> str:
    text = f"{cell['ess']['smallest'] / (cell['seconds'] + cell['warmup_seconds']):.3g}"
    return text if is_trusted(cell) else f"[{text}]"


def _per_thousand(cell: Cell) -> str:
    text = f"{1_000 * cell['ess']['smallest'] / cell['evaluations']:.3g}"
    text = text if is_trusted(cell) else f"[{text}]"
    return text if cell["uses_gradients"] else f"{text} (log-likelihoods)"


def _log_likelihood(cell: Cell) -> str:
    mean, error = (cell["log_likelihood"][name] for name in ("mean", "error"))
    return f"{mean:.1f}" if error is None else f"{mean:.1f} ± {error:.1f}"


def _ratio(cell: Cell, best: Cell | None) -> str:
    value = ratio(cell, best)
    return "-" if value is None else f"{value:.2g}"


COLUMNS = (
    Column("R-hat, worst", lambda c, _: _rhat(c, "worst")),
    Column("R-hat, median", lambda c, _: _rhat(c, "median")),
    Column("smallest ESS per second", lambda c, _: _sampled(c, "smallest")),
    Column("over BlackJAX's best", _ratio),
    Column("median ESS per second", lambda c, _: _sampled(c, "median")),
    Column("smallest ESS per second with warm-up", lambda c, _: _with_warm_up(c)),
    Column("smallest ESS per 1,000 gradients", lambda c, _: _per_thousand(c)),
    Column("acceptance", lambda c, _: f"{c['acceptance']:.2f}"),
    Column("warm-up, s", lambda c, _: f"{c['warmup_seconds']:.0f}"),
    Column("sampling, s", lambda c, _: f"{c['seconds']:.0f}"),
    Column("mean log-likelihood", lambda c, _: _log_likelihood(c)),
)


def table(cells: Sequence[Cell]) -> str:
    """One line per cell, in Markdown; a failed cell says why in the place of its figures."""
    titles = ["posterior", "kernel", *(column.title for column in COLUMNS)]
    lines = [_line(titles), "|---" * len(titles) + "|"]
    for posterior, own in by_posterior(cells).items():
        best = best_of_blackjax(own)
        for number, cell in enumerate(own):
            first = title_of(posterior) if number == 0 else ""
            lines.append(_line([first, KERNELS[cell["kernel"]], *_texts(cell, best)]))
    return "\n".join(lines)


def _texts(cell: Cell, best: Cell | None) -> list[str]:
    if has_failed(cell):
        reason = cell["failed"].replace("|", "/")
        return [f"failed: {reason}", *[""] * (len(COLUMNS) - 1)]
    return [column.text(cell, best) for column in COLUMNS]


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def draw(cells: Sequence[Cell], file: Path) -> None:
    """For each posterior the ratio of each kernel to BlackJAX's best, on a logarithmic axis."""
    import matplotlib
    from matplotlib.figure import Figure

    groups = by_posterior(cells)
    # The same cells give the same file, byte for byte.
    with matplotlib.rc_context({"svg.hashsalt": "posteriors", "font.size": 9}):
        height = 1.9 + _INCHES_PER_ROW * len(groups)
        canvas = Figure(figsize=(8, height), layout="constrained")
        axes = canvas.subplots()
        axes.axvline(1, color="black", linewidth=0.8)
        for row, own in enumerate(groups.values()):
            best = best_of_blackjax(own)
            for cell in own:
                _mark(axes, cell, ratio(cell, best), row)
        for row in range(len(groups)):
            axes.axhline(row, color="#dddddd", linewidth=0.6, zorder=0)
        axes.set_yticks(range(len(groups)), [title_of(name) for name in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.set_xlabel("smallest effective sample size per second, in those of BlackJAX's best")
        axes.spines[["top", "right"]].set_visible(False)
        _legend(canvas, cells)
        file.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=150)


def _mark(axes: Any, cell: Cell, value: float | None, row: int) -> None:
    """One marker, faint where the chains do not agree; nothing where there is no ratio."""
    if not value:
        return
    marker, colour = LOOKS[cell["kernel"]]
    alpha = 1.0 if is_trusted(cell) else 0.3
    axes.plot([value], [row], marker, color=colour, alpha=alpha, markersize=7, markeredgewidth=1.6)


def _legend(canvas: Any, cells: Sequence[Cell]) -> None:
    from matplotlib.lines import Line2D

    present = [name for name in KERNELS if any(c["kernel"] == name for c in cells)]
    handles = [
        Line2D([], [], linestyle="", marker=LOOKS[name][0], color=LOOKS[name][1],
               markeredgewidth=1.6, label=KERNELS[name].replace("`", ""))
        for name in present
    ]  # fmt: skip
    canvas.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def versions(cells: Sequence[Cell]) -> str:
    """What the cells were made with."""
    said = {
        f"traceclass {c['traceclass']}, BlackJAX {c['blackjax']}, JAX {c['jax']}, "
        f"{c['devices']} devices ({c['machine']})"
        for c in cells
        if not has_failed(c)
    }
    return "; ".join(sorted(said)) or "nothing that ended well"


def not_run(cells: Sequence[Cell]) -> str:
    """A paragraph that names the cells which are not there yet; empty if all are."""
    missing = {
        title_of(posterior): [
            name
            for kernel, name in KERNELS.items()
            if applies(kernel, posterior) and not is_done(cells, posterior, kernel)
        ]
        for posterior in POSTERIORS
    }
    each = [f"{title} ({', '.join(names)})" for title, names in missing.items() if names]
    return f"Not run yet: {'; '.join(each)}.\n" if each else ""


def write(cells: Sequence[Cell], file: Path) -> None:
    """The page, and beside it the figure of the same name."""
    figure = file.with_suffix(".svg")
    draw(cells, figure)
    words = _TEMPLATE.read_text(encoding="utf-8").format(
        table=table(cells),
        figure=figure.name,
        missing=not_run(cells),
        versions=versions(cells),
        largest=LARGEST_RHAT,
    )
    file.write_text(words, encoding="utf-8")
