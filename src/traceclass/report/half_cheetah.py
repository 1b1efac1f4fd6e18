"""Tables and page of the half-cheetah experiment, from its stored files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from traceclass.experiments.cheetah import in_words
from traceclass.experiments.cheetah_learned import LARGEST_RHAT
from traceclass.experiments.half_cheetah import PAPER
from traceclass.report import half_cheetah_figures as figures
from traceclass.report.cheetah_pictures import (
    draw_photographs,
    draw_strip,
    largest,
    policy_in_words,
)
from traceclass.report.half_cheetah_figures import row_name
from traceclass.report.page import Figure, Section, Table
from traceclass.report.words import ALTERNATIVES, marked, number, with_error

_LEVEL = 0.05
_DRIVES = {"mean": "mean", "sample": "one draw an episode", "vote": "majority"}
_PER_CENT = 100.0
_STARRED = (
    f"* The chains did not agree on some of the data sets (R-hat of {LARGEST_RHAT} or more): the "
    "figures of the row count these too, and are not yet those of the posterior."
)


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    return [
        Section(
            "Does it take the expert's action? (Table 2)",
            [_accuracy_table(results)],
            _accuracy_figures(directory, results, trace, arrays),
            (*_mixture_notes(results, trace, arrays), *_accuracy_notes(results)),
        ),
        Section(
            "Trace-class networks beside the others",
            [_paired_table(results)],
            [],
            (
                _comparison(results),
                "Right actions by the mean, in per cent points, with the standard error over data "
                "sets and the p-value of Student's paired test, two-sided, which is not corrected "
                "for there being several rows.",
            ),
        ),
        _distance_section(directory, results, arrays),
        Section(
            "What the demonstrations cover",
            [_coverage_table(results), _share_table(results, arrays)],
            [],
            (
                "Coverage by other ways to collect as many demonstrations, in coordinates scaled "
                "to [-1, 1]^17: the directions in which they spread, the median distance of "
                "states the expert meets elsewhere to the nearest demonstrated one, the same as "
                "share of that between two such states, and actions seen. Then: how often each "
                "action is the expert's on the test states, and its six torques.",
            ),
        ),
        Section("The chains", [_chain_table(results)], [], _chain_notes(results)),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """What fits a terminal: accuracy by draws and by means, metres by means, and R-hat."""
    rows = [
        (
            row_name(name, prior, results).replace(" network", "").replace(" series", ""),
            _per_cent(prior["samples"]),
            _per_cent(prior["mean"]),
            _figure(prior["mean_distance"]),
            _largest_rhat(prior),
        )
        for name, prior in results["priors"].items()
    ]
    rows += [
        (ALTERNATIVES[name], "-", _per_cent(clone["mean"]), _figure(clone["distance"]), "-")
        for name, clone in results["clones"].items()
    ]
    references = results["references"]
    chance = f"{_PER_CENT * references['chance']:.1f}"
    rows.append(("commonest action", "-", _per_cent(references["commonest"]), "-", "-"))
    rows.append(("chance", chance, chance, "-", "-"))
    rows += [
        (policy_in_words(name), "-", "-", _figure(ride["distance"]), "-")
        for name, ride in references["rides"].items()
    ]
    return Table(("right actions", "samples %", "mean %", "metres", "R-hat"), rows)


def headline(results: dict[str, Any]) -> str:
    """What came out for the widest trace-class network, in a sentence for the terminal."""
    cells = results["cells"]
    converged = sum(cell["is_converged"] for cell in cells)
    star = "" if converged == len(cells) else " (*: not on every data set)"
    return (
        f"{_comparison(results)} {converged} of {len(cells)} posteriors have R-hat below "
        f"{LARGEST_RHAT}{star}; {results['seconds']['total']:.0f} s in all"
    )


def warnings(results: dict[str, Any]) -> list[str]:
    """Priors whose chains did not agree."""
    count = results["num_data_sets"]
    return [
        f"{in_words(name)}: the chains did not agree on {count - prior['num_converged']} of "
        f"{count} data sets (R-hat up to {_largest_rhat(prior)}, wanted below {LARGEST_RHAT})."
        for name, prior in results["priors"].items()
        if prior["num_converged"] < count
    ]


def _accuracy_figures(
    directory: Path, results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> list[Figure]:
    drawn = [
        Figure(
            figures.draw_accuracy(directory / "accuracy.png", results),
            "Right actions on the test states, by the draws of each posterior and by its mean, "
            "with two standard errors over data sets; beside them the paper's figures, the share "
            "of the commonest action and chance.",
        )
    ]
    if not figures.are_centred(results, trace, arrays):
        (directory / "values.png").unlink(missing_ok=True)
        return drawn
    values = Figure(
        figures.draw_values(directory / "values.png", results, trace, arrays),
        "Value of each action's successor minus that of the expert's action at the first test "
        "state of the first data set (eq. normalise_v; Fig. prior_compare, bottom). Boxes below "
        "zero say that the posterior prefers the expert's action, darker ones that it prefers "
        "another in most draws; whiskers hold 95 %. Panels have scales of their own; *: the "
        "chains did not agree.",
    )
    return [*drawn, values]


def _mixture_notes(
    results: dict[str, Any], trace: xr.DataTree, arrays: xr.Dataset
) -> tuple[str, ...]:
    if figures.are_centred(results, trace, arrays):
        return ()
    return (
        "Warning: the stored draws are not centred at the expert's actions of these data, so "
        "chains and data are of different runs, as after --resume --force with another expert. "
        "The figures on this page mix the two and mean nothing; run it anew. The boxplot of "
        "values is left out.",
    )


def _accuracy_notes(results: dict[str, Any]) -> tuple[str, ...]:
    errors = "± is the standard error over data sets."
    if results["num_data_sets"] == 1:
        errors = "There is one data set, so no standard error."
    explained = (
        "Samples: how often a draw's best action is the expert's; mean: the best by the mean of "
        "the draws; majority: by the vote of the draws; balanced: by the mean, averaged over "
        "actions instead of states; log-score: mean log-probability of the expert's action, -inf "
        "if one was deemed impossible. The paper has one data set and 100 test states."
    )
    starred = (_STARRED,) if warnings(results) else ()
    return (*starred, errors, explained)


def _accuracy_table(results: dict[str, Any]) -> Table:
    rows = [_prior_row(name, prior, results) for name, prior in results["priors"].items()]
    rows += [
        _reference_row(
            ALTERNATIVES[name],
            mean=_per_cent(clone["mean"]),
            balanced=_per_cent(clone["balanced"]),
            log_score=_figure(clone["log_score"], digits="z.2f"),
        )
        for name, clone in results["clones"].items()
    ]
    references = results["references"]
    rows.append(_reference_row("commonest action", mean=_per_cent(references["commonest"])))
    chance = f"{_PER_CENT * references['chance']:.1f}"
    rows.append(
        _reference_row(
            "chance",
            samples=chance,
            mean=chance,
            balanced=chance,
            log_score=f"{math.log(references['chance']):.2f}",
        )
    )
    heads = (
        *("prior", "coordinates", "samples %", "paper", "mean %", "paper", "majority %"),
        *("balanced %", "log-score", "largest R-hat", "converged"),
    )
    return Table(heads, rows)


def _prior_row(name: str, prior: dict[str, Any], results: dict[str, Any]) -> tuple[str, ...]:
    paper_samples, paper_mean = (f"{x:.1f}" for x in PAPER[name]) if name in PAPER else "--"
    return (
        row_name(name, prior, results),
        f"{prior['num_coordinates']:,}",
        _per_cent(prior["samples"]),
        paper_samples,
        _per_cent(prior["mean"]),
        paper_mean,
        _per_cent(prior["vote"]),
        _per_cent(prior["balanced"]),
        _figure(prior["log_score"], digits="z.2f"),
        _largest_rhat(prior),
        f"{prior['num_converged']} of {results['num_data_sets']}",
    )


def _reference_row(
    name: str, *, samples: str = "-", mean: str, balanced: str = "-", log_score: str = "-"
) -> tuple[str, ...]:
    return (name, "-", samples, "-", mean, "-", "-", balanced, log_score, "-", "-")


def _paired_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            row_name(pair["prior"], results["priors"][pair["prior"]], results),
            _yardstick(pair["beside"], results),
            f"{_PER_CENT * pair['difference']:+.1f}",
            "-" if pair["error"] is None else f"{_PER_CENT * pair['error']:.1f}",
            "-" if pair["p_value"] is None else _p_value(pair["p_value"]),
        )
        for pair in results["paired"]
    ]
    return Table(("prior", "minus", "difference", "error", "paired test"), rows)


def _comparison(results: dict[str, Any]) -> str:
    """The widest trace-class network against the largest series and the commonest action."""
    ours = largest(list(results["priors"]), "tcnn")
    if ours is None:
        return "There is no trace-class network among the priors, so nothing to compare."
    others = (largest(list(results["priors"]), "kl"), "commonest action")
    pairs = {p["beside"]: p for p in results["paired"] if p["prior"] == ours}
    parts = [_verdict(pairs[other], results) for other in others if other in pairs]
    name = row_name(ours, results["priors"][ours], results)
    return f"Right actions by the mean: {name} is {', and '.join(parts)}."


def _verdict(pair: dict[str, Any], results: dict[str, Any]) -> str:
    """In which direction, by how much, and whether that is more than chance at 5 %."""
    gap, p_value = _PER_CENT * pair["difference"], pair["p_value"]
    other = _yardstick(pair["beside"], results)
    other = f"the {other}" if other == "commonest action" else other
    error = None if pair["error"] is None else _PER_CENT * pair["error"]
    by = f"by {with_error(abs(gap), error)} points"
    direction = "better" if gap > 0 else "worse"
    if gap == 0:
        return f"as good as {other} (no difference)"
    if p_value is None:
        why = "one data set" if results["num_data_sets"] == 1 else "the same on every data set"
        return f"{direction} than {other} {by} (no test: {why})"
    if p_value >= _LEVEL:
        said = f"not significantly {direction} than {other}"
        return f"{said} ({by}, {_p_value(p_value)})"
    return f"significantly {direction} than {other} ({by}, {_p_value(p_value)})"


def _distance_section(directory: Path, results: dict[str, Any], arrays: xr.Dataset) -> Section:
    drawn = [
        Figure(
            figures.draw_distances(directory / "distance.png", results, arrays),
            "Metres covered by step: the median over the episodes of all data sets, and a band "
            "that holds half of them (Fig. results, right); *: the chains did not agree.",
        ),
        Figure(
            draw_strip(directory / "episodes.png", arrays),
            "One episode of each policy from the same start, drawn from the stored states: torso "
            "and head grey, the hind leg blue, the front leg orange; strokes are metres.",
        ),
    ]
    photographed = draw_photographs(directory / "mujoco.png", arrays)
    notes = ["Share: of the metres that the discretised expert covers from the same starts."]
    if photographed is None:
        notes.append("MuJoCo's own pictures are left out: it cannot draw on this machine.")
    else:
        drawn.append(Figure(photographed, "The same pictures as MuJoCo draws them."))
    return Section("How far does it run?", [_distance_table(results)], drawn, notes)


def _distance_table(results: dict[str, Any]) -> Table:
    rides = results["references"]["rides"]
    rows = [
        (
            row_name(name, prior, results),
            words,
            *_ridden(prior[f"{drive}_distance"], prior[f"{drive}_falls"], rides),
        )
        for name, prior in results["priors"].items()
        for drive, words in _DRIVES.items()
    ]
    rows += [
        (ALTERNATIVES[name], "likeliest", *_ridden(row["distance"], row["falls"], rides))
        for name, row in results["clones"].items()
    ]
    rows += [
        (policy_in_words(name), "-", *_ridden(row["distance"], row["falls"], rides))
        for name, row in rides.items()
    ]
    return Table(("policy", "action by", "metres", "falls %", "share of the expert's %"), rows)


def _ridden(
    distance: dict[str, Any], falls: dict[str, Any], rides: dict[str, Any]
) -> tuple[str, str, str]:
    experts = rides["discretised expert"]["distance"]["mean"]
    share = "-" if not experts else f"{_PER_CENT * distance['mean'] / experts:.0f}"
    return _figure(distance, digits="z.2f"), _per_cent(falls), share


def _coverage_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            name,
            f"{row['dimensions']:.1f}",
            f"{row['gap']:.2f}",
            f"{row['relative_gap']:.2f}",
            f"{row['num_actions']}",
            f"{row['even_actions']:.1f}",
        )
        for name, row in results["coverage"].items()
    ]
    heads = ("demonstrations", "directions", "gap", "relative gap", "actions", "as many even ones")
    return Table(heads, rows)


def _share_table(results: dict[str, Any], arrays: xr.Dataset) -> Table:
    """How often each action is the expert's, over data sets, and what it does."""
    shares = _PER_CENT * np.asarray(results["shares"])
    count = len(shares)
    errors = shares.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else [None] * len(shares[0])
    rows = [
        (
            f"{action}",
            with_error(float(share), None if error is None else float(error)),
            ", ".join(f"{torque:+.2f}" for torque in torques),
        )
        for action, (share, error, torques) in enumerate(
            zip(shares.mean(axis=0), errors, arrays["actions"].values, strict=True), start=1
        )
    ]
    return Table(("action", "the expert's in %", "torques"), rows)


def _chain_table(results: dict[str, Any]) -> Table:
    rows = [
        (
            in_words(cell["prior"]),
            f"{cell['seed']}",
            with_error(cell["acceptance_rate"], cell["acceptance_error"], ".3f"),
            number(cell["tuning"].get("step_size"), ".3g"),
            f"{cell['draws']:,}",
            number(cell["ess"], ".0f"),
            marked(number(cell["rhat"], ".3f"), cell),
            f"{cell['seconds']:.0f}",
        )
        for cell in results["cells"]
    ]
    heads = ("prior", "data set", "acceptance", "step size", "draws", "ESS", "R-hat", "seconds")
    return Table(heads, rows)


def _chain_notes(results: dict[str, Any]) -> tuple[str, ...]:
    found = [f"Warning: {warning}" for warning in warnings(results)]
    return (*found, "R-hat and ESS are the worst of everything recorded; in brackets: too large.")


def _yardstick(name: str, results: dict[str, Any]) -> str:
    if name in results["priors"]:
        return row_name(name, results["priors"][name], results)
    return ALTERNATIVES.get(name, name)


def _largest_rhat(prior: dict[str, Any]) -> str:
    """Over data sets; one that is not finite is stored as null."""
    values = prior["rhat"]
    return "inf" if any(not _is_finite(x) for x in values) else f"{max(values):.3f}"


def _per_cent(figure: dict[str, Any]) -> str:
    return _figure(figure, _PER_CENT)


def _figure(figure: dict[str, Any], scale: float = 1.0, digits: str = "z.1f") -> str:
    """Mean and error over data sets. Only log-scores are not finite, by -inf, stored as null.

    The `z` in the format writes 0.0 for what is rounded to -0.0.
    """
    value, error = figure["mean"], figure["error"]
    if not _is_finite(value):
        return "-inf"
    return with_error(scale * value, scale * error if _is_finite(error) else None, digits)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _p_value(value: float) -> str:
    if value < 0.001:
        return "p < 0.001"
    text = f"{value:.3f}"
    # On which side of the level it lies is not to be rounded away.
    return f"p = {value:.5f}" if text == f"{_LEVEL:.3f}" else f"p = {text}"
