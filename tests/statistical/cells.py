"""The grid of the invariance tests: every kernel on every prior and likelihood it works with."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from joint import LIKELIHOODS, Joint, hyper_priors, priors

import traceclass as tc
from traceclass.kernels.base import Kernel


class Setting(NamedTuple):
    """A kernel as it is tested, with step sizes that are rejected often enough to matter.

    `for_series` is the step size on the series prior, whose posteriors are close to Gaussian and
    take longer steps; None where the kernel needs a network. `has_reference` gives it a Gaussian
    to move by that is near no posterior, `is_scaled` one with a scale for each coordinate: kernels
    are exact with any. `needs_hyper` is of a kernel that moves hyperparameters.
    """

    kernel: Kernel
    step_size: Any
    for_series: Any
    num_steps: int
    has_reference: bool = False
    is_scaled: bool = False
    needs_hyper: bool = False


NO_STEP = ()
SETTINGS = {
    "pcn": Setting(tc.pcn, 0.1, 0.15, 40),
    "pcnl": Setting(tc.pcnl, 0.003, 0.03, 30),
    "hmc": Setting(tc.hmc.using(num_kicks=8), 0.05, 0.2, 4),
    "random_walk": Setting(tc.random_walk, 0.08, 0.12, 40),
    "mala": Setting(tc.mala, 0.08, 0.2, 30),
    "elliptical_slice": Setting(tc.elliptical_slice, NO_STEP, NO_STEP, 6),
    "node_swap": Setting(tc.node_swap.using(law="power"), NO_STEP, None, 4),
    "block_node_swap": Setting(tc.block_node_swap.using(block=2), NO_STEP, None, 4),
    "cycle(pcnl, node_swap)": Setting(tc.cycle(tc.pcnl, tc.node_swap), 0.003, None, 20),
    "cycle(hmc, block_node_swap)": Setting(
        tc.cycle(tc.hmc.using(num_kicks=8), tc.block_node_swap.using(block=1)), 0.05, None, 3
    ),
    "cycle(pcn, mala)": Setting(tc.cycle(tc.pcn, tc.mala), (0.1, 0.08), (0.15, 0.2), 15),
    "mixture(pcnl, elliptical_slice)": Setting(
        tc.mixture(tc.pcnl, tc.elliptical_slice, weights=(2.0, 1.0)), 0.003, 0.03, 8
    ),
    "pcn, reference": Setting(tc.pcn, 0.1, 0.15, 40, has_reference=True),
    "pcnl, reference": Setting(tc.pcnl, 0.003, 0.03, 30, has_reference=True),
    "hmc, reference": Setting(tc.hmc.using(num_kicks=8), 0.05, 0.2, 4, has_reference=True),
    "elliptical_slice, reference": Setting(
        tc.elliptical_slice, NO_STEP, NO_STEP, 6, has_reference=True
    ),
    "pcn, scaled reference": Setting(tc.pcn, 0.1, 0.15, 40, has_reference=True, is_scaled=True),
    "hmc, scaled reference": Setting(
        tc.hmc.using(num_kicks=8), 0.05, 0.2, 4, has_reference=True, is_scaled=True
    ),
    "centred": Setting(tc.centred, NO_STEP, None, 2, needs_hyper=True),
    "centred, block": Setting(tc.centred.using(block=2), NO_STEP, None, 2, needs_hyper=True),
    "cycle(hmc, centred)": Setting(
        tc.cycle(tc.hmc.using(num_kicks=8), tc.centred), 0.05, None, 2, needs_hyper=True
    ),
}


def any_reference(num_coordinates: int, rank: int = 5, *, is_scaled: bool = False) -> tc.Reference:
    """A Gaussian off the prior in its mean and in five directions, two of them wider.

    With a scale, every coordinate has a factor of its own besides, between a half and two.
    """
    rng = np.random.default_rng(7)
    vectors, _ = np.linalg.qr(rng.normal(size=(num_coordinates, rank)))
    return tc.Reference(
        jnp.asarray(0.3 * rng.normal(size=num_coordinates), dtype=float),
        jnp.asarray(vectors, dtype=float),
        jnp.array([4.0, 1.0, 0.3, -0.3, -0.5]),
        jnp.asarray(2 ** rng.uniform(-1, 1, num_coordinates)) if is_scaled else None,
    )


class Cell(NamedTuple):
    """One test of the grid."""

    kernel: str
    prior: str
    likelihood: str

    @property
    def setting(self) -> Setting:
        return SETTINGS[self.kernel]

    @property
    def tested(self) -> Kernel:
        """The kernel, with its reference if it has one."""
        if not self.setting.has_reference:
            return self.setting.kernel
        reference = any_reference(
            priors()[self.prior].num_coordinates, is_scaled=self.setting.is_scaled
        )
        return self.setting.kernel.using(reference=reference)

    @property
    def step_size(self) -> Any:
        setting = self.setting
        return setting.for_series if self.prior == "Fourier" else setting.step_size

    def joint(self) -> Joint:
        prior = (priors() | hyper_priors())[self.prior]
        return LIKELIHOODS[self.likelihood](prior)

    def __str__(self) -> str:
        return " / ".join(self)


CELLS = [
    Cell(kernel, prior, likelihood)
    for kernel, setting in SETTINGS.items()
    for prior in priors()
    for likelihood in LIKELIHOODS
    if not setting.needs_hyper
    if prior != "Fourier" or setting.for_series is not None
    # A solve is dear, and what a kernel does with it is not new: the smooth prior alone.
    if likelihood != "groundwater" or prior == "Fourier"
] + [
    # What a kernel does with hyperparameters is not new either: one without slopes, one with.
    Cell(kernel, prior, likelihood)
    for kernel in ("pcn", "hmc")
    for prior in hyper_priors()
    for likelihood in ("regression", "action choice")
    # The choices are drawn at a noise that is fixed.
    if prior != "noise" or likelihood == "regression"
]
# Swaps look into the prior: where alpha is inferred, their ratio and the gradient follow it.
CELLS += [
    Cell(kernel, "hyper tcNN", "regression")
    for kernel in ("node_swap", "block_node_swap", "cycle(pcnl, node_swap)")
]
# What moves hyperparameters.
CELLS += [
    Cell(kernel, prior, likelihood)
    for kernel, setting in SETTINGS.items()
    if setting.needs_hyper
    for prior, likelihood in (
        ("hyper tcNN", "regression"),
        ("hyper tcNN", "action choice"),
        ("noise", "regression"),
    )
]
