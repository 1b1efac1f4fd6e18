"""Train an expert: search, keep the best on disk, and say how good it is from starts not used."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import traceclass
from traceclass.control import half_cheetah
from traceclass.control.extras import import_mujoco
from traceclass.control.linear_expert import LinearExpert
from traceclass.control.random_search import Search, begin, iterations, trial, tried
from traceclass.errors import UserValueError
from traceclass.report.figures import BLUE, GREY, ORANGE, figure
from traceclass.sampling.progress import duration, make_progress
from traceclass.training_files import (
    FIGURE,
    Training,
    held,
    read_checkpoint,
    summing,
    write_checkpoint,
    write_curve,
    write_expert,
)

ENVIRONMENTS = ("half-cheetah",)
METHOD = "augmented random search, continuous and discretised expert together"
NUM_FINAL = 50
# Sets the starts of the final trial apart from all that the search has seen.
_FINAL = 0xF17A1
_COLOURS = {"discretised": BLUE, "continuous": ORANGE}


class Progress(NamedTuple):
    """How far a search is, shown in the same way as the progress of chains."""

    steps_done: int
    steps_total: int
    best_score: float
    seconds_left: float | None
    phase: str = "search"

    def words(self) -> list[str]:
        """Iteration, best score, time left."""
        is_tried = np.isfinite(self.best_score)
        score = f"best score {self.best_score:.2f}" if is_tried else "no trial yet"
        left = [] if self.seconds_left is None else [f"{duration(self.seconds_left)} left"]
        return [f"iteration {self.steps_done} of {self.steps_total}", score, *left]

    def __str__(self) -> str:
        return f"{self.phase} {self.steps_done / self.steps_total:4.0%}  {', '.join(self.words())}"


def search_of(directory: Path, changes: Mapping[str, int], *, resume: bool) -> Search:
    """The default settings, or those of the training to be resumed, with the user's changes."""
    stored = read_checkpoint(directory).search if resume else Search()
    return dataclasses.replace(stored, **changes)


def train_expert(
    directory: Path,
    search: Search,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> LinearExpert:
    """The best expert of a search, with its files in `directory` (see `training_files`).

    There is a checkpoint at every trial. `resume` goes on from it to the bits of a search that was
    never stopped, also to more iterations; `overwrite` replaces a training.
    """
    import_mujoco()
    if resume and overwrite:
        raise UserValueError(
            "--resume goes on with a training and --overwrite replaces it: choose one."
        )
    with held(directory, resume=resume, overwrite=overwrite):
        training = _resumed(directory, search) if resume else Training(search, begin(search))
        return _finish(directory, _searched(directory, training, progress))


def summary(expert: LinearExpert) -> Iterator[str]:
    """How the final trial went, in lines for a terminal."""
    final = expert.provenance["final_trial"]
    yield f"{final['num_starts']} starts not used in the search, {final['num_steps']} steps each:"
    for name in _COLOURS:
        distance, falls = final[f"{name}_distance"], final[f"{name}_falls"]
        yield f"{name} expert: {distance:.2f} m on average, {falls:.0%} falls"
    yield (
        f"{expert.num_actions} actions: the rarest in {final['least_share']:.1%} of steps, the "
        f"most frequent in {final['largest_share']:.1%}"
    )


def _resumed(directory: Path, search: Search) -> Training:
    """The stored training, if it is of the same search or of one with fewer iterations."""
    stored = read_checkpoint(directory)
    there, here = dataclasses.asdict(stored.search), dataclasses.asdict(search)
    for name, value in here.items():
        is_more = name == "num_iterations" and value > there[name]
        if value != there[name] and not is_more:
            raise UserValueError(
                f"{directory} was trained with {name}={there[name]}, this is {name}={value}; leave "
                "it out, or choose another --out."
            )
    return stored._replace(search=search)


def _searched(directory: Path, training: Training, progress: bool) -> Training:
    """Go on to the last iteration."""
    shown, began, first = make_progress(progress), time.monotonic(), training.state.iteration
    try:
        _write(directory, training)
        for state, figures in iterations(training.search, training.state):
            training = training.after(state, figures)
            if figures:
                _write(directory, training)
            pace = (time.monotonic() - began) / (state.iteration - first)
            total = training.search.num_iterations
            left = pace * (total - state.iteration) or None
            shown.show(Progress(state.iteration, total, float(state.best_score), left))
        _write(directory, training)
    finally:
        shown.close()
    return training


def _write(directory: Path, training: Training) -> None:
    """The checkpoint first: what else there is can be made from it again."""
    with summing(directory):
        write_checkpoint(directory, training)
        write_curve(directory, training.trials)
        if training.trials:
            write_expert(directory, _best(training))


def _finish(directory: Path, training: Training) -> LinearExpert:
    """Write the best expert with its final trial, and the curve.

    An end between two trials is tried as well, but not put in the checkpoint: a search that goes
    on from here would not have been tried here.
    """
    search = training.search
    if training.state.iteration % search.trial_every:
        training = training.after(*tried(search, training.state))
    starts = half_cheetah.initial_states(np.random.default_rng([search.seed, _FINAL]), NUM_FINAL)
    final: dict[str, Any] = {"num_starts": NUM_FINAL, "num_steps": search.trial_steps}
    final |= trial(training.state.best, starts, search.trial_steps)
    expert = _best(training, final_trial=final)
    with summing(directory):
        write_expert(directory, expert)
        write_curve(directory, training.trials)
        _draw(directory / FIGURE, training)
    return expert


def _best(training: Training, **known: Any) -> LinearExpert:
    """The best expert so far, and where it comes from: nothing of this machine."""
    import sklearn

    mujoco, _ = import_mujoco()
    provenance = {
        "environment": ENVIRONMENTS[0],
        "method": METHOD,
        "settings": dataclasses.asdict(training.search),
        "best_trial": training.best_trial,
        **known,
        "versions": {
            "traceclass": traceclass.__version__,
            "mujoco": mujoco.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }
    return dataclasses.replace(training.state.best, provenance=provenance)


def _draw(path: Path, training: Training) -> None:
    """Distances and falls of both experts against the iteration."""
    trials, best = training.trials, training.best_trial
    at = [row["iteration"] for row in trials]
    marker = "o" if len(trials) == 1 else None
    with figure(path, 6.0, 4.2) as canvas:
        way, falls = canvas.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for name, colour in _COLOURS.items():
            label = f"{name} expert"
            way.plot(at, [row[f"{name}_distance"] for row in trials], colour, label=label,
                     marker=marker)  # fmt: skip
            falls.plot(at, [100 * row[f"{name}_falls"] for row in trials], colour, marker=marker)
        for axes in (way, falls):
            axes.axvline(best["iteration"] if best else 0, color=GREY, lw=0.8, ls=":")
        starts, steps = training.search.num_trials, training.search.trial_steps
        way.set(ylabel="distance [m]", title=f"trials from {starts} starts, {steps} steps each")
        falls.set(ylabel="falls [%]", xlabel="iteration (dotted: the best)")
        falls.set_ylim(0, max(10.0, falls.get_ylim()[1]))
        way.legend()
