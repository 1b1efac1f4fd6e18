"""Warm-up, chunked multi-chain runs, the run store, traces and diagnostics."""

from traceclass.sampling.devices import use_cpu_devices
from traceclass.sampling.files import StoreError
from traceclass.sampling.interrupt import Interrupted
from traceclass.sampling.run import Run
from traceclass.sampling.sampler import sample
from traceclass.sampling.store import open_run
from traceclass.sampling.until import Until

__all__ = [
    "Interrupted",
    "Run",
    "StoreError",
    "Until",
    "open_run",
    "sample",
    "use_cpu_devices",
]
