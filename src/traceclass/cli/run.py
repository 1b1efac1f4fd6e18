"""`traceclass run NAME`."""

from __future__ import annotations

import warnings
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from traceclass.cli.outcomes import stop, told_apart
from traceclass.cli.report import draw_and_summarise


def run(
    name: Annotated[str, typer.Argument(help="an experiment of `traceclass list`")],
    preset: Annotated[str | None, typer.Option(help="quick or paper [quick]")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="seed of data, chains and rollouts")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="run directory [runs/NAME-PRESET-SEED]")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a setting")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="replace a run in the same place")] = False,
    resume: Annotated[
        bool, typer.Option(help="go on with the run in the same place, or have more draws of it")
    ] = False,
    force: Annotated[
        bool, typer.Option(help="resume though versions or settings differ; it is put on record")
    ] = False,
    until: Annotated[
        list[str] | None,
        typer.Option(metavar="ess=N|rhat=X", help="go on beyond num_samples until this is reached"),
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option(metavar="N", help="at most N draws per chain with --until")
    ] = None,
    max_time: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="at most this long with --until")
    ] = None,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    """Run an experiment and write its run directory, with figures and report.html.

    Ctrl-C stops it after the chunk at hand; --resume then goes on to the same draws.
    """
    with told_apart():
        import traceclass
        from traceclass.cli import settings as asked
        from traceclass.errors import UserValueError
        from traceclass.experiments.cells import Chains
        from traceclass.run_directory.claim import described

        experiment = asked.experiment_of(name)
        if resume and overwrite:
            raise UserValueError(
                "--resume goes on with a run and --overwrite replaces it: choose one."
            )
        named = "quick" if preset is None else preset
        there = out or Path("runs") / f"{experiment.name}-{named}-{seed or 0}"
        if resume and described(there) is None:
            raise UserValueError(f"there is no run to go on with in {there}; leave out --resume.")
        preset, config = asked.configuration(
            experiment, preset, seed, settings or [], there if resume else None, force=force
        )
        path = out or Path("runs") / f"{experiment.name}-{preset}-{config.seed}"
        goal = asked.until_of(experiment, until or [], max_samples, max_time)
        traceclass.use_cpu_devices()
        chains = Chains(not quiet, None, resume, force, goal)
        try:
            _run(path, experiment, preset, config, chains, overwrite=overwrite)
        except KeyboardInterrupt as error:
            command = f"traceclass run {experiment.name} --out {quote(str(path))} --resume"
            stop(error, command, described(path) is not None)
    draw_and_summarise(path)


def _run(
    path: Path, experiment: Any, preset: str, config: Any, chains: Any, *, overwrite: bool
) -> None:
    """Run the experiment in a claimed directory and commit its results."""
    from traceclass.experiments.cells import run_experiment
    from traceclass.run_directory import contents
    from traceclass.run_directory.claim import claimed

    experiment.program.check(config)
    description = {"experiment": experiment.name, "preset": preset}
    description["settings"] = config.model_dump()
    with (
        claimed(path, overwrite=overwrite, resume=chains.resume),
        warnings.catch_warnings(),
    ):
        warnings.showwarning = _show_warning
        store = contents.begin(path, description, resume=chains.resume)
        result = run_experiment(
            experiment,
            config,
            chains._replace(store=store),
            lambda numbers: contents.keep(path, numbers),
        )
        contents.commit(path, *result)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"traceclass: {message}", err=True)
