"""One long stored run, watched from outside: memory, descriptors, threads and time must stay flat.

    python -m benchmarks.soak [MINUTES]

The run is a process of its own that commits chunk after chunk until it is asked to stop. A sample
of what it holds is taken about 600 times; the first tenth, in which it starts, compiles and warms
up, is not counted. The second half of the rest may exceed the first by what `MARGINS` says, and no
more.
Processor time per chunk is compared, not wall-clock time, which depends on what else the machine
does. It needs /proc (Linux).
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import traceclass as tc

NUM_SAMPLES = 600
# By how much the second half may exceed the first: as a share, and in the unit of the figure. A
# committed chunk stays in a list, with its path: half a kilobyte each, within the first margin.
MARGINS = {
    "memory [MB]": (0.02, 0.0),
    # A chunk and its folder are open while they are written; a sample may or may not see it.
    "descriptors": (0.0, 2.0),
    "threads": (0.0, 0.0),
    "processor time per chunk [s]": (0.25, 0.0),
}


class Sample(NamedTuple):
    """What the process held, and how far it was, at one moment."""

    seconds: float
    memory: float
    descriptors: int
    threads: int
    processor: float
    chunks: int


def run(store: Path) -> None:
    """Kicks and swaps, recorded values, running moments: every part of a chunk, until a signal."""
    tc.use_cpu_devices(1)
    x = np.linspace(0, 1, 6)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(4,))
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, np.sin(4 * x[:, 0]), noise=0.3))
    ends = prior.at(x[[0, -1]])
    tc.sample(
        posterior,
        tc.cycle(tc.hmc, tc.node_swap),
        num_chains=2,
        num_warmup=400,
        num_samples=4 * 10**6,
        thin=1_000,
        record={"ends": ends},
        moments={"ends": ends},
        store_positions=False,
        chunk_size=10,
        store=store,
    )


def sampled(process: int, store: Path, began: float) -> Sample:
    """Look at a process by its number, from outside."""
    folder = Path(f"/proc/{process}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return Sample(
        seconds=time.monotonic() - began,
        memory=int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
        descriptors=len(os.listdir(folder / "fd")),
        threads=int(fields[17]),
        processor=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        chunks=len(list(store.glob("chunk-*.tc"))),
    )


def watched(minutes: float, folder: Path) -> list[Sample]:
    """Samples of a run that lasts so long; it must go on till the end, and stop when asked to."""
    store, pause = folder / "run", max(60 * minutes / NUM_SAMPLES, 0.5)
    with (folder / "words").open("w+") as words:
        command = [sys.executable, "-m", "benchmarks.soak", "--run", str(store)]
        process = subprocess.Popen(command, stderr=words)
        began, samples = time.monotonic(), []
        try:
            while time.monotonic() - began < 60 * minutes:
                time.sleep(pause)
                if process.poll() is not None:
                    break
                samples.append(sampled(process.pid, store, began))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()
        words.seek(0)
        said = words.read()
    if "resume goes on" not in said:
        raise SystemExit(f"the run did not last and stop as it should:\n{said[-2_000:]}")
    return [sample for sample in samples if sample.seconds > 6 * minutes]


def figures(samples: list[Sample]) -> dict[str, float]:
    """The largest of what a process holds, and the processor time per chunk over all samples."""
    chunks = samples[-1].chunks - samples[0].chunks
    spent = samples[-1].processor - samples[0].processor
    return {
        "memory [MB]": max(sample.memory for sample in samples),
        "descriptors": max(sample.descriptors for sample in samples),
        "threads": max(sample.threads for sample in samples),
        "processor time per chunk [s]": spent / max(chunks, 1),
    }


def table(samples: list[Sample], num_rows: int = 9) -> list[str]:
    """One line for each ninth of the time."""
    lines = [f"{'minutes':>10} {'chunks':>8} " + " ".join(f"{name:>28}" for name in MARGINS)]
    for part in np.array_split(np.arange(len(samples)), num_rows):
        rows = [samples[i] for i in part]
        cells = " ".join(f"{value:28.4g}" for value in figures(rows).values())
        lines.append(f"{rows[-1].seconds / 60:10.1f} {rows[-1].chunks:8d} {cells}")
    return lines


def grown(samples: list[Sample]) -> list[str]:
    """What the second half exceeds the first by more than the margin in, one line each."""
    middle = len(samples) // 2
    first, second = figures(samples[:middle]), figures(samples[middle:])
    lines = []
    for name, (share, least) in MARGINS.items():
        allowed = first[name] * (1 + share) + least
        if second[name] > allowed:
            lines.append(f"{name} grew: {first[name]:.4g}, then {second[name]:.4g}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run is not None:
        run(arguments.run)
        return
    with tempfile.TemporaryDirectory() as folder:
        samples = watched(arguments.minutes, Path(folder))
    print("\n".join(table(samples)))
    pauses = [b.seconds - a.seconds for a, b in itertools.pairwise(samples)]
    print(f"{len(samples)} samples, one per {statistics.median(pauses):.1f} s")
    wrong = grown(samples)
    print("\n".join(wrong) or "flat: nothing grew by more than its margin")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
