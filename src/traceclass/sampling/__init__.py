"""Warm-up, chunked multi-chain runs, traces and diagnostics."""

from traceclass.sampling.devices import use_cpu_devices as use_cpu_devices
from traceclass.sampling.run import Run as Run
from traceclass.sampling.sample import sample as sample
