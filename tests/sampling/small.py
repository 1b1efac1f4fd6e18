"""A small run that uses every part of the store; as a program, one that dies when it is told to.

    python small.py DIRECTORY|wide [CALL NUMBER]

goes on with the run in DIRECTORY and prints the checksum of its draws; with a CALL (write, fsync or
rename) it kills itself at the NUMBER-th of these, as `kill -9` would. The environment may set the
number of DRAWS, draws per CHUNK, DEVICES (0: none are asked for, and threads use all cores), and a
CLOCK that is set back an hour by every look at it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import traceclass as tc

NUM_WARMUP, NUM_SAMPLES = 400, 120


def posterior(shift: float = 0.0, noise: float = 0.3) -> tc.Posterior:
    x = np.linspace(0, 1, 6)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(4,))
    return tc.Posterior(prior, tc.GaussianRegression(x, np.sin(4 * x[:, 0]) + shift, noise=noise))


def sampled(
    store: Path | None = None, target: tc.Posterior | None = None, **changes: Any
) -> tc.Run:
    """Two moves, one of them with kicks; recorded values, running moments, thinned positions."""
    target = posterior() if target is None else target
    ends = target.prior.at(np.array([[0.0], [1.0]]))
    arguments: dict[str, Any] = {
        "num_chains": 2,
        "num_warmup": NUM_WARMUP,
        "num_samples": NUM_SAMPLES,
        "record": {"ends": ends},
        "moments": {"ends": ends},
        "store_positions": 3,
        "chunk_size": 40,
        "store": store,
        "progress": False,
    }
    kernel = changes.pop("kernel", tc.cycle(tc.hmc, tc.node_swap))
    return tc.sample(target, kernel, **(arguments | changes))


def wide() -> tc.Run:
    """Four chains whose values round differently when two or four of them are vmapped together."""
    x = np.linspace(0, 1, 12)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(8, 8))
    target = tc.Posterior(prior, tc.GaussianRegression(x, np.sin(4 * x[:, 0]), noise=0.2))
    settings = {"num_warmup": 0, "num_samples": 200, "thin": 5, "progress": False}
    ends = prior.at(x[:3])
    record = {"record": {"ends": ends}, "moments": {"ends": ends}}
    return tc.sample(target, tc.pcn, step_size=0.13, **record, **settings)


def stored(path: Path) -> tc.Run:
    """The run in `path`, gone on with; a refusal is one line and exit code 2, as in a terminal."""
    sizes = {"chunk_size": os.environ.get("CHUNK", 40), "num_samples": os.environ.get("DRAWS", 120)}
    try:
        return sampled(path, resume=True, **{name: int(size) for name, size in sizes.items()})
    except tc.UserError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


def die_at(call: str, number: int) -> None:
    """Have the process killed at the `number`-th `os.<call>` on a file of a store."""
    real, calls = getattr(os, call), 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    setattr(os, call, counted)


def set_clock_back() -> None:
    """Every look at the time of day finds it an hour earlier than the last, as nanoseconds too."""
    now = time.time()

    def earlier() -> float:
        nonlocal now
        now -= 3600
        return now

    time.time, time.time_ns = earlier, lambda: int(earlier() * 10**9)


def main() -> None:
    devices = int(os.environ.get("DEVICES", "2"))
    if devices:
        tc.use_cpu_devices(devices)
    if "CLOCK" in os.environ:
        set_clock_back()
    if len(sys.argv) > 2:
        die_at(sys.argv[2], int(sys.argv[3]))
    if sys.argv[1] == "wide":
        run = wide()
    else:
        run = stored(Path(sys.argv[1]))
    sys.stdout.write(run.sha256() + "\n")


if __name__ == "__main__":
    main()
