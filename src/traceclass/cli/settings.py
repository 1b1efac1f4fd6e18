"""What a user asks of an experiment on the command line: preset, settings, and when to stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_origin

import pydantic

from traceclass.errors import UserValueError
from traceclass.experiments import EXPERIMENTS
from traceclass.experiments.experiment import Config, Experiment
from traceclass.run_directory.claim import described, is_as_written
from traceclass.sampling.until import Until
from traceclass.validation import shortened


def experiment_of(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise UserValueError(f"unknown experiment {shortened(name)}; there is {known}.")
    return EXPERIMENTS[name]


def configuration(
    experiment: Experiment,
    preset: str | None,
    seed: str | None,
    settings: list[str],
    resumed: Path | None,
    *,
    force: bool,
) -> tuple[str, Config]:
    """The preset with the user's changes; of a run to be resumed its own, changed as it may be."""
    stored = None if resumed is None else described(resumed)
    if stored is None:
        preset = "quick" if preset is None else preset
        return preset, _changed(experiment, preset, None, seed, settings)
    if not is_as_written(stored) and not force:
        raise UserValueError(
            f"the config.json of {resumed} is not as it was written: it was edited or damaged. "
            "Begin the run again, or use --force."
        )
    if stored["experiment"] != experiment.name:
        raise UserValueError(
            f"{resumed} holds a run of {stored['experiment']}, this is {experiment.name}; choose "
            "another --out."
        )
    config = _changed(experiment, str(stored["preset"]), stored["settings"], seed, settings)
    wanted = config.model_dump()
    if preset is not None and preset != stored["preset"]:
        raise UserValueError(
            f"{resumed} holds a run of preset {stored['preset']}, this is {preset}."
        )
    for key, value in json.loads(config.model_dump_json()).items():
        there = stored["settings"].get(key)
        # More draws are what a finished run may be resumed for.
        if there != value and key != "num_samples" and not force:
            raise UserValueError(
                f"{resumed} was run with {key}={there}, this is {key}={wanted[key]}; leave it out, "
                "or choose another --out."
            )
    return str(stored["preset"]), config


def _changed(
    experiment: Experiment,
    preset: str,
    stored: dict[str, Any] | None,
    seed: str | None,
    settings: list[str],
) -> Config:
    """The preset, or stored settings, with the user's changes, validated as a whole."""
    if preset not in experiment.presets:
        known = ", ".join(experiment.presets)
        raise UserValueError(
            f"unknown preset {shortened(preset)} of {experiment.name}; there is {known}."
        )
    chosen = experiment.presets[preset]
    changes: dict[str, Any] = {} if seed is None else {"seed": _parsed(seed)}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserValueError(f"--set takes KEY=VALUE, got {shortened(text)}.")
        if key not in type(chosen).model_fields:
            known = ", ".join(type(chosen).model_fields)
            raise UserValueError(
                f"unknown setting {shortened(key)} of {experiment.name}; there is {known}."
            )
        changes[key] = _parsed(value)
        if get_origin(type(chosen).model_fields[key].annotation) is tuple:
            changes[key] = _listed(changes[key])
    try:
        # As JSON: there a list may stand for a tuple, while "2" or true is still not a number.
        begun = chosen.model_dump() if stored is None else stored
        return type(chosen).model_validate_json(json.dumps(begun | changes))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        # What cannot be read as a whole, such as lists in lists in lists, has no place.
        key = str(first["loc"][0]) if first["loc"] else next(reversed(changes), "")
        value = changes.get(key, (stored or {}).get(key))
        raise UserValueError(f"setting {key}={shortened(value)}: {first['msg']}.") from error


def _parsed(text: str) -> Any:
    """A setting's value: JSON if it is JSON, numbers between commas, or else the text itself."""
    for candidate in (text, f"[{text}]" if "," in text else text):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):  # also a number of thousands of digits
            continue
    return text


def _listed(value: Any) -> Any:
    """A setting of several values: words between commas, or one value alone."""
    if isinstance(value, str):
        return value.split(",")
    return value if isinstance(value, list) else [value]


def until_of(
    experiment: Experiment, texts: list[str], max_samples: int | None, max_time: float | None
) -> Until | None:
    """--until ess=400 --until rhat=1.01, and what bounds it."""
    if not texts:
        if max_samples is not None or max_time is not None:
            raise UserValueError("--max-samples and --max-time bound --until, which is missing.")
        return None
    if not experiment.has_chains:
        raise UserValueError(f"{experiment.name} has no chains; leave out --until.")
    if not experiment.takes_until:
        raise UserValueError(
            f"{experiment.name} takes no --until: its chains begin where others end. Set the "
            "number of its steps instead."
        )
    wanted: dict[str, Any] = {}
    for text in texts:
        key, _, value = text.partition("=")
        number = _parsed(value)
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
        if key not in ("ess", "rhat") or not is_number:
            raise UserValueError(f"--until takes ess=NUMBER or rhat=NUMBER, got {shortened(text)}.")
        wanted[key] = float(number)
    if max_samples is not None:
        wanted["max_samples"] = max_samples
    return Until(**wanted, max_time=max_time)
