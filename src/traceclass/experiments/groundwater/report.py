"""Fields and heads of each prior, what held-out heads say, and how the kernels compare."""

from __future__ import annotations

from functools import partial

from traceclass.experiments.aquifer import PRIORS, SHORT
from traceclass.experiments.groundwater.figures import draw_fields, draw_held_out, draw_predictive
from traceclass.experiments.groundwater.run import Results
from traceclass.experiments.groundwater.settings import COVERAGE, NUM_PREDICTIVE
from traceclass.report import chains
from traceclass.report.chains import KERNELS, RHAT
from traceclass.report.page import Figure, Section, Stored, figures
from traceclass.report.tables import Column, Row, Table, table
from traceclass.sampling.diagnostics import STRICT

_NAMES = (
    Column("prior", lambda cell: SHORT[cell["prior"]]),
    Column("kernel", lambda cell: KERNELS[cell["kernel"]]),
)
# The authors' run with the cosine series. They do not say which quantity their 386 steps per
# effective sample are for.
_AUTHORS = ("KL", "pCN, the authors' run", "0.231", "-", "121", "386 (quantity not said)")

warnings = chains.warnings_of_cells(lambda cell: ", ".join(name.text(cell) for name in _NAMES))


def sections(stored: Stored) -> list[Section]:
    """Log-permeability, heads at the wells, held-out heads, and the kernels."""
    results = stored.results
    predictive = Figure(
        "predictive.png",
        f"Boxes of {NUM_PREDICTIVE} draws of the posterior predictive distribution at each well, "
        "minus the observed head (Fig. posterior_predictive). Whiskers hold 95 %. At the first and "
        "last three wells the head is given by the boundary.",
        partial(draw_predictive, stored=stored),
    )
    held_out = Figure(
        "held_out.png",
        f"{COVERAGE:.0%} intervals of the head at held-out points, minus the true head, in the "
        "order of the points' distance to the nearest well.",
        partial(draw_held_out, stored=stored),
    )
    prior = Column("prior", lambda cell: PRIORS[cell["prior"]])
    log_likelihood = Column("log-likelihood", "log_likelihood", ".2f")
    ran = chains.chain_table(results["cells"], prior, _NAMES[1], more=[log_likelihood])
    return [
        Section("Log-permeability", [], figures(stored, fields=draw_fields)),
        Section("Heads at the wells", [], [predictive]),
        Section("Heads that were held out", [main_table(results)], [held_out]),
        Section("The kernels", [_kernel_table(results), ran]),
    ]


def main_table(results: Results) -> Table:
    """Scores and coverage on held-out heads, one row per prior."""
    cells = {(cell["prior"], cell["kernel"]): cell for cell in results["cells"]}
    rows = [{**cells[name, prior["kernel"]], **prior} for name, prior in results["priors"].items()]
    held = f"{COVERAGE:.0%} holds"
    columns = (
        _NAMES[0],
        Column("size", "num_coordinates", ","),
        _NAMES[1],
        Column("log-score", "log_score", ".2f", marked=True),
        Column(f"{held} head", "coverage", ".0%", marked=True),
        Column(f"{held} data", "predictive_coverage", ".0%", marked=True),
        Column("error", "head_error", ".4f", marked=True),
        RHAT,
    )
    return table(rows, columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    return (
        f"held-out heads: mean log-density, shares of {COVERAGE:.0%} intervals that hold the true "
        f"head and a new observation, error of the mean; {chains.num_converged(results['cells'])} "
        f"runs converged (R-hat below {STRICT.largest})"
    )


def _kernel_table(results: Results) -> Table:
    """Speed, beside plain pCN on the same prior where it ran, and the authors' run."""
    plain = {cell["prior"]: cell for cell in results["cells"] if cell["kernel"] == "pcn"}

    def ratio(name: str, cell: Row) -> str:
        base = plain.get(cell["prior"], {}).get(name)
        return f"x {cell[name] / base:.3g}" if base and cell[name] is not None else "-"

    acceptance, step_size = chains.CHAINS[:2]
    columns = (
        *_NAMES,
        acceptance,
        step_size._replace(format=".4g"),
        Column("steps per second", "steps_per_second", ",.0f"),
        Column("steps per ESS, median head", "steps_per_median_head_ess", ",.0f", marked=True),
        Column(
            "steps per ESS, log-likelihood", "steps_per_log_likelihood_ess", ",.0f", marked=True
        ),
        Column("ESS/s of pCN, slowest head", partial(ratio, "head_ess_per_second")),
        Column("ESS/s of pCN, log-likelihood", partial(ratio, "log_likelihood_ess_per_second")),
    )
    titles, rows = table(results["cells"], columns)
    return Table(titles, [*rows, (*_AUTHORS, *"-" * (len(titles) - len(_AUTHORS)))])
