"""Warm-up, chunked multi-chain runs, the run store, traces and diagnostics."""

from traceclass.sampling.compare import Comparison as Comparison
from traceclass.sampling.compare import compare as compare
from traceclass.sampling.devices import use_cpu_devices as use_cpu_devices
from traceclass.sampling.evidence import Evidence as Evidence
from traceclass.sampling.files import StoreError as StoreError
from traceclass.sampling.interrupt import Interrupted as Interrupted
from traceclass.sampling.opening import open_run as open_run
from traceclass.sampling.run import Run as Run
from traceclass.sampling.sample import sample as sample
from traceclass.sampling.smc_evidence import SMCEvidence as SMCEvidence
from traceclass.sampling.smc_evidence import smc_evidence as smc_evidence
from traceclass.sampling.tempering import Tempering as Tempering
from traceclass.sampling.until import Until as Until
