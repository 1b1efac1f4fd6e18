"""What the run store costs: memory against the number of draws, and time spent committing.

Mountain car with three layers of 100 (20,601 coordinates), 100,000 draws of four pCN chains, value
differences recorded, positions not kept.

    python -m benchmarks.store [--draws 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import traceclass as tc
from benchmarks.samplers import mountain_car
from traceclass.sampling.store import Store


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=100_000)
    arguments = parser.parse_args()
    tc.use_cpu_devices()
    problem = mountain_car(100)
    real, seen, spent = Store.commit, [], 0.0

    def commit(self, *given):
        nonlocal spent
        began = time.perf_counter()
        real(self, *given)
        spent += time.perf_counter() - began
        seen.append((self.contents.num_draws, resident()))

    Store.commit = commit  # pyright: ignore[reportAttributeAccessIssue]
    with tempfile.TemporaryDirectory() as folder:
        run = tc.sample(
            problem.posterior,
            tc.pcn,
            step_size=0.1,
            num_warmup=0,
            num_samples=arguments.draws,
            thin=1,
            record={"values": problem.functional},
            store_positions=False,
            store=Path(folder) / "run",
            progress=False,
        )
        size = sum(p.stat().st_size for p in (Path(folder) / "run").iterdir())
    early = next(memory for draws, memory in seen if draws >= 1000)
    result = {
        "draws": run.num_samples,
        "chunks": len(seen),
        "memory_at_1000_draws": early,
        "largest_memory_after": max(memory for draws, memory in seen if draws >= 1000),
        "share_of_time_committing": spent / run.sampling_seconds,
        "bytes_on_disk": size,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
