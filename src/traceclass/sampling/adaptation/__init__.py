"""What warm-up finds: step sizes, lengths of trajectories, temperatures; and how it begins."""

from traceclass.sampling.adaptation.annealing import Annealing
from traceclass.sampling.adaptation.warmup import Adaptation, adaptation_of
from traceclass.sampling.adaptation.windows import MIN_WARMUP

__all__ = ["MIN_WARMUP", "Adaptation", "Annealing", "adaptation_of"]
