"""`traceclass list`."""

from __future__ import annotations

import json

import typer


def listing() -> None:
    """Name the experiments, their presets and their settings."""
    from traceclass.experiments import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        typer.echo(f"{experiment.name}: {experiment.summary}")
        for preset, config in experiment.presets.items():
            settings = ", ".join(
                f"{name}={json.dumps(value)}" for name, value in config.model_dump().items()
            )
            typer.echo(f"  {preset}: {settings}")
