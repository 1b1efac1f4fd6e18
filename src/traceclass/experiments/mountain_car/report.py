"""Tables and page of `mountain-car`."""

from __future__ import annotations

import numpy as np

from traceclass.experiments.mountain_car import figures as drawing
from traceclass.experiments.mountain_car.figures import name_of
from traceclass.experiments.mountain_car.run import Results
from traceclass.report.chains import RHAT, chain_table, num_converged, warnings_of_cells
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Row, Table, errors_over, table
from traceclass.sampling.diagnostics import STRICT
from traceclass.scores import binomial_error

_LEGEND = Table(
    ("in the tables", ""),
    (
        ("tcNN, Fourier, BNN", "trace-class network, Fourier series, standard network"),
        ("noisy", "argmax of the posterior mean plus noise, the paper's policy"),
        ("argmax, Thompson", "argmax of the posterior mean; of one draw per episode"),
        ("steps", "median number of steps with which the argmax policy arrives"),
        ("good", f"data sets with R-hat below {STRICT.largest}; only these are averaged"),
        ("R-hat", "the largest of everything recorded, over all data sets"),
        ("cloning", "classifiers of states by scikit-learn, without the dynamics"),
        ("optimal", "the policy of value iteration"),
        ("brackets", "the chains did not converge"),
    ),
)
_DATA_SET = (Column("posterior", name_of), Column("data set", "data_set"))
_SCORES = (
    Column("held-out drives", name_of),
    Column("log-score", "log_score", ".3f"),
    Column("accuracy", "accuracy", ".3f"),
    Column("calibration error", "calibration_error", ".3f"),
)
_TRUTH = (
    Column("rank correlation with the true value", name_of),
    Column("visited states", "rank_correlation_visited", ".3f"),
    Column("whole box", "rank_correlation_box", ".3f"),
)

warnings = warnings_of_cells(lambda c: f"{c['prior']}-{c['kernel']}-{c['data_set']}")


def sections(stored: Stored) -> list[Section]:
    """Driving, probabilities, the true value, and the chains."""
    results = stored.results
    surfaces = {"value": drawing.draw_surfaces, "truth": drawing.draw_truth}
    draws = {"differences": drawing.draw_prior_differences, "log_likelihood": drawing.draw_traces}
    error = Column("error of the table of the mean", "interpolation_error", ".0e")
    return [
        Section(
            "Driving by the learned value function",
            [_LEGEND, main_table(results), _spread_table(results)],
            figures(stored, failures=drawing.draw_failures, steps=drawing.draw_steps),
        ),
        Section(
            "Can its probabilities be trusted? (one set of held-out drives for all rows)",
            [table([*results["rows"], *results["alternatives"]], _SCORES)],
            figures(stored, calibration=drawing.draw_calibration),
        ),
        Section(
            "Is it the true value function?",
            [table(results["rows"], _TRUTH)],
            figures(stored, **surfaces, policy=drawing.draw_policies),
        ),
        Section(
            "The chains",
            [chain_table(results["cells"], *_DATA_SET, more=[error])],
            figures(stored, **draws),
        ),
    ]


def main_table(results: Results) -> Table:
    """Failures of each policy, beside the paper's; cells that did not converge say so."""

    def failures(policy: str) -> Column:
        return Column("", f"failures.{policy}", ".1f")

    def noisy(row: Row) -> str:
        is_known = "name" in row or row["num_converged"]
        return failures("noisy_argmax").text(row) if is_known else "not converged"

    # Other drivers have one kind of failures.
    plain = [{**row, "failures": {"argmax": row["failures"]}} for row in results["alternatives"]]
    count = results["num_data_sets"]
    columns = (
        Column(f"failures of {results['num_episodes']}", name_of),
        Column("noisy", noisy),
        failures("argmax")._replace(title="argmax"),
        failures("thompson")._replace(title="Thompson"),
        Column("steps", "median_steps", ".0f"),
        Column("good", lambda row: None if "name" in row else f"{row['num_converged']} of {count}"),
        Column("R-hat", "rhat", ".3f"),
        Column("paper", "paper_failures"),
    )
    return table([*results["rows"], *plain], columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    return (
        f"{errors_over(results)}; {num_converged(results['cells'])} cells have R-hat < "
        f"{STRICT.largest} on everything recorded"
    )


def _spread_table(results: Results) -> Table:
    """Failures data set by data set, and how far single chains differ on one."""

    def noisy(cell: Row) -> str:
        failures = cell["policies"]["noisy_argmax"]["failures"]
        return f"{failures} ± {binomial_error(failures, results['num_episodes']):.1f}"

    def spread(chains: list[int]) -> str:
        return f"{np.mean(chains):.1f}, {np.std(chains, ddof=min(1, len(chains) - 1)):.1f}"

    columns = (
        *_DATA_SET,
        Column("noisy argmax ± binomial error", noisy, marked=True),
        Column("single chains: mean, sd", "chain_failures", spread, marked=True),
        Column("range", "chain_failures", lambda c: f"{min(c)} to {max(c)}", marked=True),
        Column("argmax", "policies.argmax.failures", marked=True),
        Column("Thompson", "policies.thompson.failures", marked=True),
        RHAT,
    )
    return table(results["cells"], columns)
