"""Settings of `width-sweep`, and the paper's Table 1."""

from __future__ import annotations

import pydantic

from traceclass.experiments.experiment import Config, Experiment

_TENS = tuple(range(10, 101, 10))
# Table 1, in per cent; the two numbers of NodeSwap are from the appendix.
PAPER: dict[str, dict[int, float]] = {
    "tcnn_pcn": dict(
        zip(_TENS, (22.8, 24.0, 23.5, 22.1, 22.2, 23.1, 23.9, 23.4, 23.0, 23.9), strict=True)
    ),
    "bnn_fixed_pcn": dict(
        zip(_TENS, (21.2, 15.0, 10.9, 8.52, 6.81, 5.47, 4.25, 3.91, 2.97, 2.23), strict=True)
    ),
    "tcnn_node_swap": {10: 30.0, 100: 1.0},
}
# The text gives one BNN row; its variances are read in two ways.
PAPER["bnn_scaled_pcn"] = PAPER["bnn_fixed_pcn"]


class WidthSweepConfig(Config):
    """Settings of `width-sweep`; the defaults are the paper's, and wider."""

    widths: tuple[pydantic.PositiveInt, ...] = (*_TENS, 200, 500, 1000)
    bnn_widths: tuple[pydantic.PositiveInt, ...] = _TENS
    gradient_widths: tuple[pydantic.PositiveInt, ...] = (10, 30, 100, 200, 500)
    noise: float = 0.1
    num_demonstrations: int = pydantic.Field(default=50, ge=1, le=100_000)
    step_size: float = 0.1
    bnn_step_size: float = 1 / 7
    pcnl_step_size: float = 0.003
    hmc_step_size: float = 0.035
    # Many short chains rather than few long ones: their starts are draws of the posterior already.
    num_chains: int = pydantic.Field(default=32, ge=2, le=10_000)
    # A chain takes as many steps as move this many coordinates, within bounds.
    num_moved: pydantic.PositiveInt = 30_000_000
    min_steps: pydantic.PositiveInt = 60
    max_steps: pydantic.PositiveInt = 8_000
    # Cycles of HMC and pCNL, from the same starts; fewer at great widths.
    gradient_chains: int = pydantic.Field(default=16, ge=2, le=10_000)
    gradient_cycles: pydantic.PositiveInt = 200
    min_gradient_cycles: pydantic.PositiveInt = 20
    # Chains on standard priors begin at prior draws. With scaled variances they are of pCN alone;
    # with fixed ones a cycle is a step of pCN and a Hamiltonian move.
    bnn_chains: int = pydantic.Field(default=16, ge=2, le=10_000)
    bnn_steps: pydantic.PositiveInt = 2_000
    bnn_cycles: pydantic.PositiveInt = 200


EXPERIMENT = Experiment(
    name="width-sweep",
    summary="acceptance rates from width 10 to 1,000 beside Table 1, all kernels",
    quick=WidthSweepConfig(
        widths=(4, 8), bnn_widths=(8,), gradient_widths=(8,), num_chains=4, num_moved=100_000,
        max_steps=1_000, gradient_chains=4, bnn_chains=4, bnn_steps=500, bnn_cycles=50,
    ),
    takes_until=False,
)  # fmt: skip
