"""Which model the data speak for: evidence, held-out data, cross-validation.

It reads runs through the few attributes that it needs of them, so it does not import `sampling`; a
`Run` imports it.
"""

from traceclass.model_choice.comparison import Comparison, compare
from traceclass.model_choice.evidence import Evidence
from traceclass.model_choice.smc import SMCEvidence, smc_evidence
from traceclass.model_choice.tempering import Tempering

__all__ = ["Comparison", "Evidence", "SMCEvidence", "Tempering", "compare", "smc_evidence"]
