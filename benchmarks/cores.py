"""All cores without being asked: steps per second of `tc.sample` beside a device for each core.

    python -m benchmarks.cores [--rounds 15]

Three processes with the same chains: one that says nothing, one that makes a device for each core
first (`tc.use_cpu_devices()`), and one that keeps to one core (`tc.use_cpu_devices(1)`). They
compile, and then run in turns, one at a time. The result is the median ratio of their rates over
the rounds: what else the machine does hits all of them. Their draws must be the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

import traceclass as tc
from benchmarks.mountain_car import problems

UNASKED, DEVICES, ONE_CORE = "unasked", "devices", "one core"


class Case(NamedTuple):
    """Chains of one kernel on one network, for about a second on two quiet cores."""

    name: str
    kernel: str
    width: int
    settings: dict[str, Any]


def steps(kernel: str, width: int, num_samples: int, thin: int, num_chains: int = 8) -> Case:
    """Draws without a warm-up; the step size is what warm-up finds, about."""
    name = f"{kernel}, 3x{width}, {num_chains} chains"
    step_size = 0.03 if kernel == "hmc" else 0.1
    settings = {"num_warmup": 0, "num_samples": num_samples, "thin": thin}
    return Case(name, kernel, width, settings | {"step_size": step_size, "num_chains": num_chains})


def warm_up(kernel: str, width: int, num_warmup: int) -> Case:
    """Calls of the program for a few steps each, and what the host does between them."""
    settings = {"num_warmup": num_warmup, "num_samples": 1, "thin": 1, "num_chains": 8}
    return Case(f"{kernel}, 3x{width}, 8 chains, warm-up", kernel, width, settings)


CASES = (
    steps("pcn", 10, 100, 100),
    steps("pcn", 100, 100, 10),
    steps("pcn", 200, 10, 10),
    steps("hmc", 10, 100, 2),
    steps("hmc", 100, 15, 1),
    steps("hmc", 200, 3, 1),
    steps("pcn", 10, 100, 200, num_chains=3),
    steps("pcn", 100, 50, 10, num_chains=3),
    warm_up("pcn", 10, 4_000),
    warm_up("hmc", 10, 400),
)


def serve(case: Case, how: str) -> None:
    """Run the case each time a line comes in; answer by its rate and the checksum of its draws."""
    if how != UNASKED:
        tc.use_cpu_devices(1 if how == ONE_CORE else None)
    posterior, _ = problems(case.width)
    kernel = getattr(tc, case.kernel)

    def run() -> tc.Run:
        return tc.sample(posterior, kernel, store_positions=False, progress=False, **case.settings)

    run()  # compiled before it is timed
    print("ready", flush=True)
    for _ in sys.stdin:
        done = run()
        seconds = done.sampling_seconds + done.warmup_seconds
        rate = done.num_chains * (done.num_steps + done.num_warmup) / seconds
        print(json.dumps([rate, done.sha256()]), flush=True)


class Process:
    """A process of its own that runs one case when it is told to."""

    def __init__(self, number: int, how: str):
        command = [sys.executable, "-m", "benchmarks.cores", "--case", str(number), "--how", how]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def run(self) -> list[Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return json.loads(self.answer())

    def end(self) -> None:
        self.process.communicate()


def compare(number: int, rounds: int) -> None:
    """Print one case: how fast chains are unasked, and their ratios to those that were asked."""
    processes = {how: Process(number, how) for how in (UNASKED, DEVICES, ONE_CORE)}
    for process in processes.values():
        assert process.answer() == "ready"
    rates: dict[str, list[float]] = {how: [] for how in processes}
    checksums = set()
    for _ in range(rounds):
        for how, process in processes.items():
            rate, checksum = process.run()
            rates[how].append(rate)
            checksums.add(checksum)
    for process in processes.values():
        process.end()
    ratios = {how: _ratios(rates[UNASKED], rates[how]) for how in (DEVICES, ONE_CORE)}
    same = "the same draws" if len(checksums) == 1 else "DRAWS THAT DIFFER"
    print(
        f"{CASES[number].name}: {statistics.median(rates[UNASKED]):,.0f} steps per second; against "
        f"devices {ratios[DEVICES]}, against one core {ratios[ONE_CORE]}; {same}",
        flush=True,
    )


def _ratios(ours: list[float], theirs: list[float]) -> str:
    """The median ratio, and the middle half of all."""
    low, middle, high = statistics.quantiles(
        [a / b for a, b in zip(ours, theirs, strict=True)], n=4
    )
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--case", type=int, help="only this one, by its number from 0")
    parser.add_argument("--how", choices=(UNASKED, DEVICES, ONE_CORE), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.how is not None:
        return serve(CASES[given.case], given.how)
    for number in range(len(CASES)) if given.case is None else [given.case]:
        compare(number, given.rounds)


if __name__ == "__main__":
    main()
