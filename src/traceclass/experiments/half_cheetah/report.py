"""Tables and page of `half-cheetah`."""

from __future__ import annotations

import math
from typing import Any

import xarray as xr

from traceclass.experiments.cheetah import in_words
from traceclass.experiments.half_cheetah import figures as drawing
from traceclass.experiments.half_cheetah import pictures
from traceclass.experiments.half_cheetah.figures import row_name
from traceclass.experiments.half_cheetah.pictures import largest, policy_in_words
from traceclass.experiments.half_cheetah.run import Results
from traceclass.experiments.half_cheetah.settings import PAPER
from traceclass.report.chains import chain_table, num_converged
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import ALTERNATIVES, Column, Row, Table, table, with_error, written
from traceclass.sampling.diagnostics import USUAL
from traceclass.scores import mean_over

_SIGNIFICANT = 0.05
_DRIVES = {"mean": "mean", "sample": "one draw per episode", "vote": "majority"}
_STARRED = (
    f"* The chains did not agree on some of the data sets (R-hat of {USUAL.largest} or more): the "
    "numbers of the row include these too, and are not yet those of the posterior."
)
_MIXED = (
    "Warning: the stored draws are not centred at the expert's actions of these data, so chains "
    "and data are of different runs, as after --resume --force with another expert. The numbers on "
    "this page mix the two and mean nothing; run it again. The boxplot of values is left out."
)
_ACCURACY = (
    "Samples: how often a draw's best action is the expert's; mean: the best by the mean of the "
    "draws; majority: by the vote of the draws; balanced: by the mean, averaged over actions "
    "instead of states; log-score: mean log-probability of the expert's action, -inf if one was "
    "deemed impossible. The paper has one data set and 100 test states."
)
_PAIRED = (
    "Right actions by the mean, in percentage points, with the standard error over data sets and "
    "the p-value of Student's paired test, two-sided, which is not corrected for there being "
    "several rows."
)
_SHARE = "Share: of the metres that the discretised expert covers from the same starts."
_CHAINS = "R-hat and ESS are the worst of everything recorded; in brackets: too large."
_COVERAGE = (
    "Coverage by other ways to collect as many demonstrations, in coordinates scaled to "
    "[-1, 1]^17: the directions in which they spread, the median distance of states the expert "
    "meets elsewhere to the nearest demonstrated one, the same as a share of the distance between "
    "two such states, and actions seen. Then: how often each action is the expert's on the test "
    "states, and its six torques."
)


def sections(stored: Stored) -> list[Section]:
    """Accuracy, comparisons, distances, coverage and chains."""
    results = stored.results
    wrong = warnings(results)
    notes = [_STARRED] if wrong else []
    notes.append("± is the standard error over data sets.")
    if results["num_data_sets"] == 1:
        notes[-1] = "There is one data set, so no standard error."
    accuracy, rides = {"accuracy": drawing.draw_accuracy}, {"distance": drawing.draw_distances}
    rides |= {"episodes": pictures.draw_strip, "mujoco": pictures.draw_photographs}
    if drawing.are_centred(stored):
        accuracy["values"] = drawing.draw_values
    else:
        notes.insert(0, _MIXED)
    prior = Column("prior", lambda cell: in_words(cell["prior"]))
    chains = chain_table(results["cells"], prior, Column("data set", "seed"))
    covered = [_coverage_table(results), _share_table(results, stored.arrays)]
    compared = [_comparison(results), _PAIRED]
    return [
        Section(
            "Does it take the expert's action? (Table 2)",
            [_accuracy_table(results)],
            figures(stored, **accuracy),
            [*notes, _ACCURACY],
        ),
        Section("Trace-class networks beside the others", [_paired_table(results)], notes=compared),
        Section(
            "How far does it run?", [_distance_table(results)], figures(stored, **rides), [_SHARE]
        ),
        Section("What the demonstrations cover", covered, notes=[_COVERAGE]),
        Section("The chains", [chains], notes=[*(f"Warning: {each}" for each in wrong), _CHAINS]),
    ]


def main_table(results: Results) -> Table:
    """What fits a terminal: accuracy by draws and by means, metres by means, and R-hat."""
    rows = _scored_rows(results)
    for row in rows[: len(results["priors"])]:
        row["name"] = row["name"].replace(" network", "").replace(" series", "")
        row["distance"] = row["mean_distance"]
    rides = results["references"]["rides"]
    rows += [{"name": policy_in_words(n), "distance": rides[n]["distance"]} for n in rides]
    columns = (
        Column("right actions", "name"),
        _per_cent("samples %", "samples"),
        _per_cent("mean %", "mean"),
        Column("metres", "distance", "z.1f"),
        Column("R-hat", "rhat", _largest_rhat),
    )
    return table(rows, columns)


def headline(results: Results) -> str:
    """What came out for the widest trace-class network, in a sentence for the terminal."""
    star = "" if all(c["is_converged"] for c in results["cells"]) else " (*: not on every data set)"
    return (
        f"{_comparison(results)} {num_converged(results['cells'])} posteriors have R-hat below "
        f"{USUAL.largest}{star}"
    )


def warnings(results: Results) -> list[str]:
    """Priors whose chains did not agree."""
    count = results["num_data_sets"]
    return [
        f"{in_words(name)}: the chains did not agree on {count - prior['num_converged']} of "
        f"{count} data sets (R-hat up to {_largest_rhat(prior['rhat'])}, wanted below "
        f"{USUAL.largest})."
        for name, prior in results["priors"].items()
        if prior["num_converged"] < count
    ]


def _scored_rows(results: Results) -> list[dict[str, Any]]:
    """Priors, clones, the commonest action and chance, each with its name in words."""
    rows: list[dict[str, Any]] = [
        {"name": row_name(name, results), "paper": PAPER.get(name, (None, None)), **prior}
        for name, prior in results["priors"].items()
    ]
    rows += [{"name": ALTERNATIVES[name], **row} for name, row in results["clones"].items()]
    rows.append({"name": "commonest action", "mean": results["references"]["commonest"]})
    share = {"mean": results["references"]["chance"], "error": None}
    log_score = {"mean": math.log(share["mean"]), "error": None}
    chance = dict.fromkeys(("samples", "mean", "balanced"), share)
    return [*rows, {"name": "chance", **chance, "log_score": log_score}]


def _accuracy_table(results: Results) -> Table:
    count = results["num_data_sets"]

    def paper(number: int) -> Column:
        return Column("paper", lambda row: row.get("paper", (None, None))[number], ".1f")

    columns = (
        Column("prior", "name"),
        Column("coordinates", "num_coordinates", ","),
        _per_cent("samples %", "samples"),
        paper(0),
        _per_cent("mean %", "mean"),
        paper(1),
        _per_cent("majority %", "vote"),
        _per_cent("balanced %", "balanced"),
        Column("log-score", "log_score", _log_score),
        Column("largest R-hat", "rhat", _largest_rhat),
        Column("converged", "num_converged", lambda n: "-" if n is None else f"{n} of {count}"),
    )
    return table(_scored_rows(results), columns)


def _paired_table(results: Results) -> Table:
    columns = (
        Column("prior", lambda pair: row_name(pair["prior"], results)),
        Column("minus", lambda pair: row_name(pair["beside"], results)),
        Column("difference", "difference", "+.1f", scale=100),
        Column("error", "error", ".1f", scale=100),
        Column("paired test", "p_value", _p_value),
    )
    return table(results["paired"], columns)


def _comparison(results: Results) -> str:
    """The widest trace-class network against the largest series and the commonest action."""
    ours = largest(list(results["priors"]), "tcnn")
    if ours is None:
        return "There is no trace-class network among the priors, so nothing to compare."
    others = (largest(list(results["priors"]), "kl"), "commonest action")
    pairs = {p["beside"]: p for p in results["paired"] if p["prior"] == ours}
    parts = [_verdict(pairs[other], results) for other in others if other in pairs]
    return f"Right actions by the mean: {row_name(ours, results)} is {', and '.join(parts)}."


def _verdict(pair: Row, results: Results) -> str:
    """In which direction, by how much, and whether that is more than chance at 5 %."""
    gap, p_value = 100 * pair["difference"], pair["p_value"]
    other = row_name(pair["beside"], results)
    other = f"the {other}" if other == "commonest action" else other
    error = None if pair["error"] is None else 100 * pair["error"]
    by = f"by {with_error(abs(gap), error)} points"
    direction = "better" if gap > 0 else "worse"
    if gap == 0:
        return f"as good as {other} (no difference)"
    if p_value is None:
        why = "one data set" if results["num_data_sets"] == 1 else "the same on every data set"
        return f"{direction} than {other} {by} (no test: {why})"
    significantly = "significantly" if p_value < _SIGNIFICANT else "not significantly"
    return f"{significantly} {direction} than {other} ({by}, {_p_value(p_value)})"


def _distance_table(results: Results) -> Table:
    rides = results["references"]["rides"]
    rows = []
    for name, prior in results["priors"].items():
        for drive, words in _DRIVES.items():
            driven = {key: prior[f"{drive}_{key}"] for key in ("distance", "falls")}
            rows.append({"policy": row_name(name, results), "by": words, **driven})
    clones = results["clones"].items()
    rows += [{"policy": ALTERNATIVES[name], "by": "likeliest", **row} for name, row in clones]
    rows += [{"policy": policy_in_words(name), **row} for name, row in rides.items()]
    experts = rides["discretised expert"]["distance"]["mean"]

    def share(row: Row) -> float | None:
        return 100 * row["distance"]["mean"] / experts if experts else None

    columns = (
        Column("policy", "policy"),
        Column("action by", "by"),
        Column("metres", "distance", "z.2f"),
        _per_cent("falls %", "falls"),
        Column("share of the expert's %", share, ".0f"),
    )
    return table(rows, columns)


def _coverage_table(results: Results) -> Table:
    columns = (
        Column("demonstrations", "name"),
        Column("directions", "dimensions", ".1f"),
        Column("gap", "gap", ".2f"),
        Column("relative gap", "relative_gap", ".2f"),
        Column("actions", "num_actions"),
        Column("as many even ones", "even_actions", ".1f"),
    )
    return table([{"name": name, **row} for name, row in results["coverage"].items()], columns)


def _share_table(results: Results, arrays: xr.Dataset) -> Table:
    """How often each action is the expert's, over data sets, and what it does."""
    shares, torques = zip(*results["shares"], strict=True), arrays["actions"].values
    rows = [
        {"action": action, "share": mean_over(each), "torques": six}
        for action, (each, six) in enumerate(zip(shares, torques, strict=True), 1)
    ]
    columns = (
        Column("action", "action"),
        _per_cent("the expert's in %", "share"),
        Column("torques", lambda row: ", ".join(f"{torque:+.2f}" for torque in row["torques"])),
    )
    return table(rows, columns)


def _largest_rhat(values: list[float | None] | None) -> str:
    """The largest over data sets; one that is not finite is stored as null."""
    rhats = [math.inf if value is None else value for value in values or ()]
    return f"{max(rhats):.3f}" if rhats else "-"


def _per_cent(title: str, key: str) -> Column:
    """A share in per cent. The `z` in the format writes 0.0 for what is rounded to -0.0."""
    return Column(title, key, "z.1f", scale=100)


def _log_score(value: Row | None) -> str:
    """Log-scores alone are not finite, by -inf, stored as null."""
    return "-inf" if value is not None and value["mean"] is None else written(value, "z.2f")


def _p_value(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 0.001:
        return "p < 0.001"
    text = f"{value:.3f}"
    # On which side of the limit it lies is not to be rounded away.
    return f"p = {value:.5f}" if text == f"{_SIGNIFICANT:.3f}" else f"p = {text}"
