"""Mistakes seeded into the package's own code, each of which the suite must catch.

A fault patches one function of the kernels, or changes what they are told of the model, and names
the cell of the grid that is to catch it. The cell's own settings, pairs and levels are used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import Cell
from joint import Joint, half_space, priors

import traceclass as tc
from traceclass.kernels.metropolis import MetropolisInfo
from traceclass.kernels.states import GradientState, State
from traceclass.module import Module


def module(name: str) -> ModuleType:
    """A kernel's module: the package's attribute of that name is the kernel."""
    return sys.modules[f"traceclass.kernels.{name}"]


class Fault(NamedTuple):
    """A mistake, where it shows, and how it is made."""

    cell: Cell
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    change: Callable[[Joint], Joint] = lambda joint: joint
    joint: Callable[[], Joint] | None = None

    def seeded_joint(self) -> Joint:
        return self.change(self.cell.joint() if self.joint is None else self.joint())


def with_posterior(change: Callable[[tc.Posterior], tc.Posterior]) -> Callable[[Joint], Joint]:
    """What the kernel is told of the posterior is not what the data were drawn from."""
    return lambda joint: Joint(joint.prior, lambda k, z: change(joint.posterior_of_data(k, z)))


def replace(
    name: str, attribute: str, make: Callable[[Any], Any]
) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace a function of a kernel's module by one made from it."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        original = getattr(module(name), attribute)
        monkeypatch.setattr(module(name), attribute, make(original))

    return patch


def replace_method(
    name: str, owner: str, method: str, make: Callable[[Any], Any]
) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace a method of a class in a kernel's module by one made from it."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        cls = getattr(module(name), owner)
        monkeypatch.setattr(cls, method, make(getattr(cls, method)))

    return patch


def pcn_position(new_position: Callable) -> Callable[[Any], Any]:
    """A pCN step whose proposal is made by `new_position(z, xi, beta)`."""
    states, metropolis = module("states"), module("metropolis")

    def make(_):
        def step(posterior, beta, key, state):
            key_noise, key_accept = jax.random.split(key)
            xi = states.standard_normal(key_noise, state.position)
            proposal = states.init(posterior, new_position(state.position, xi, beta))
            log_ratio = proposal.log_likelihood - state.log_likelihood
            return metropolis.accept_or_reject(key_accept, log_ratio, proposal, state)

        return step

    return make


def ratio_changed(change: Callable) -> Callable[[Any], Any]:
    """accept_or_reject with the log-ratio `change(ratio, proposal, state)`."""
    return lambda right: lambda key, ratio, new, old: right(key, change(ratio, new, old), new, old)


def keep_old(field: str) -> Callable[[Any], Any]:
    """accept_or_reject that forgets to move a cached field along."""

    def make(right):
        def accept(key, ratio, new, old):
            return right(key, ratio, new._replace(**{field: getattr(old, field)}), old)

        return accept

    return make


def rho_without(*, across: float = 1.0, square: float = 1.0) -> Callable[[Any], Any]:
    """pCNL's rho with its delta/4 terms multiplied."""

    def make(_):
        def rho(u, v, delta):
            g = u.gradient
            along = jnp.vdot(v.position - u.position, g) / 2
            terms = square * jnp.vdot(g, g) - across * jnp.vdot(u.position + v.position, g)
            return -u.log_likelihood - along + delta / 4 * terms

        return rho

    return make


def faulty_trajectory(*, square: float = 0.125, first: float = 1.0, drift: bool = False):
    """HMC's trajectory with wrong bookkeeping, or with the leapfrog's drift for the rotation."""

    def make(_):
        def trajectory(posterior, state, momentum, epsilon, num_kicks):
            def step(_, carry):
                (q, _, g), p, work = carry
                before = 0.5 * epsilon * jnp.vdot(p, g) + square * epsilon**2 * jnp.vdot(g, g)
                p = p + 0.5 * epsilon * g
                if drift:
                    q = q + epsilon * p
                else:
                    c, s = jnp.cos(epsilon), jnp.sin(epsilon)
                    q, p = c * q + s * p, c * p - s * q
                level, g = posterior.log_likelihood_and_gradient(q)
                after = 0.5 * epsilon * jnp.vdot(p, g) + square * epsilon**2 * jnp.vdot(g, g)
                p = p + 0.5 * epsilon * g
                return GradientState(q, level, g), p, work + first * before + after

            end, p, work = jax.lax.fori_loop(0, num_kicks, step, (state, momentum, 0.0))
            return end, p, work - (end.log_likelihood - state.log_likelihood)

        return trajectory

    return make


def jitter_by_momentum(right):
    """The step depends on where the momentum points, so the way back has another step."""

    def trajectory(posterior, state, momentum, epsilon, num_kicks):
        uphill = jnp.vdot(momentum, state.gradient) > 0
        return right(posterior, state, momentum, epsilon * jnp.where(uphill, 1.1, 0.9), num_kicks)

    return trajectory


def pair_shifted(*, nodes: int = 0, ratio: int = 0):
    """NodeTable.pair whose places, or whose ratio, belong to a neighbouring pair."""

    def make(right):
        def pair(table, layer, i):
            places = right(table, layer, i)
            second = places.second + nodes * table.stride[layer]
            return places._replace(second=second, ratio=right(table, layer, i + ratio).ratio)

        return pair

    return make


def bias_left_behind(right):
    """The weights change places and the biases stay."""

    def row(prior, layer, block):
        num_in = prior.blocks()[2 * layer][1]
        return tuple(np.delete(part, num_in) for part in right(prior, layer, block))

    return row


def gradient_left_behind(right):
    """A swap that moves the position and keeps the gradient."""

    def step(table, posterior, key, state):
        after, info = right(table, posterior, key, state)
        return after._replace(gradient=state.gradient), info

    return step


def gradient_not_made_anew(right):
    """A part that takes over the position and the likelihood, and invents the gradient."""

    def entered(part, state, key):
        entered = right(part, state, key)
        if type(entered) is type(state) or not isinstance(entered, GradientState):
            return entered
        return entered._replace(gradient=0 * entered.gradient)

    return entered


def symmetric_ratio(_):
    """MALA's ratio as if its proposal were symmetric."""

    def log_ratio(state, proposal, xi, s):
        del xi, s
        level = proposal.log_likelihood - state.log_likelihood
        return level - (jnp.sum(proposal.position**2) - jnp.sum(state.position**2)) / 2

    return log_ratio


def nan_accepted(right):
    """A comparison the wrong way round: NaN passes it."""

    def decide(key, log_ratio, proposal):
        is_accepted = ~(log_ratio < -jax.random.exponential(key, dtype=log_ratio.dtype))
        rate = jnp.exp(jnp.minimum(log_ratio, 0.0))
        return is_accepted, MetropolisInfo(rate, is_accepted, jnp.isnan(log_ratio))

    return decide


def variance_index_off_by_one(posterior: tc.Posterior) -> tc.Posterior:
    """Scales (i + 1)^(-alpha/2) in the second layer, where the prior has i^(-alpha/2)."""
    scales = posterior.values_of.scales
    wrong = scales[1]._replace(rows=scales[1].rows * jnp.array([2.0, 1.5, 4 / 3]) ** -0.75)
    return eqx.tree_at(lambda p: p.values_of.scales, posterior, (scales[0], wrong, *scales[2:]))


class AlphaDoubled(Module):
    """Values of a network whose alpha, inferred, enters the deviations without its half."""

    right: Any

    def __call__(self, position):
        hyper = self.right.hyper
        numbers, z = hyper.parts(position)
        wrong = {**numbers, "alpha": 2 * numbers["alpha"]}
        return hyper.prior.rescaled(self.right.values_of, wrong)(z)


def alpha_doubled(posterior: tc.Posterior) -> tc.Posterior:
    return eqx.tree_at(lambda p: p.values_of, posterior, AlphaDoubled(posterior.values_of))


class WithoutConstant(Module):
    """A regression whose -n log(noise) is left out, as if the noise were not inferred."""

    right: Any

    def log_prob(self, values, *, noise):
        return self.right.log_prob(values, noise=noise) + values.size * jnp.log(noise)


def without_constant(posterior: tc.Posterior) -> tc.Posterior:
    return eqx.tree_at(lambda p: p.likelihood, posterior, WithoutConstant(posterior.likelihood))


class WithoutTails(Module):
    """Values of the Gaussian prior where the tails are Student's."""

    right: Any

    def __call__(self, position):
        return self.right.values_of(position)


def without_tails(posterior: tc.Posterior) -> tc.Posterior:
    return eqx.tree_at(lambda p: p.values_of, posterior, WithoutTails(posterior.values_of))


def slice_too_low(right):
    """Elliptical slice sampling under a height that is drawn twice as low as it should be."""

    def step(posterior, key, state):
        lowered = State(state.position, state.log_likelihood - jnp.log(2.0))
        return right(posterior, key, lowered)

    return step


def drifted_position(z, xi, beta):
    """A mean that is added to the proposal although the prior has none."""
    return jnp.sqrt(1 - beta**2) * z + beta * xi + 0.01


def momentum_too_hot(right):
    return lambda key, like: 1.05 * right(key, like)


def eigenvalues_too_large(right: Any) -> Any:
    def phi(self, z):
        along = self.vectors.T @ (z - self.mean)
        return right(self, z) + 0.15 * jnp.sum(self.eigenvalues * along**2)

    return phi


def no_stiffness(reference):
    return 0.0 * reference.scale


def volume_left_out(_):
    return lambda self, position, log_r: jnp.sum(
        -0.5 * jnp.expm1(2 * log_r) * position[self.posterior.prior.num_hyperparameters :] ** 2
    )


def likelihood_left_out(right):
    return lambda posterior, block: right(posterior, block)._replace(holds_function=True)


PCN = Cell("pcn", "Fourier", "regression")
BY_REFERENCE = Cell("pcn, reference", "Fourier", "regression")
PCNL = Cell("pcnl", "Fourier", "regression")
HMC = Cell("hmc", "Fourier", "regression")
SWAP = Cell("node_swap", "tcNN", "regression")

FAULTS = {
    "pCN: likelihood tempered by 5 % in the ratio": Fault(
        PCN, replace("pcn", "accept_or_reject", ratio_changed(lambda r, _, __: 0.95 * r))
    ),
    "HMC: likelihood tempered by 5 % everywhere": Fault(
        HMC, change=with_posterior(lambda p: p.tempered(0.95))
    ),
    "action choice tempered by 5 %, pCNL": Fault(
        Cell("pcnl", "tcNN", "action choice"), change=with_posterior(lambda p: p.tempered(0.95))
    ),
    "linear map tempered by 5 %, elliptical slice": Fault(
        Cell("elliptical_slice", "Fourier", "linear map"),
        change=with_posterior(lambda p: p.tempered(0.95)),
    ),
    "pCN: no square root": Fault(
        PCN, replace("pcn", "_step", pcn_position(lambda z, xi, b: (1 - b**2) * z + b * xi))
    ),
    "pCN: prior counted twice": Fault(
        PCN,
        replace(
            "pcn",
            "accept_or_reject",
            ratio_changed(
                lambda r, new, old: r - (jnp.sum(new.position**2) - jnp.sum(old.position**2)) / 2
            ),
        ),
    ),
    "pCN: a prior mean counted twice": Fault(
        PCN, replace("pcn", "_step", pcn_position(drifted_position))
    ),
    "pCN: stale log-likelihood": Fault(
        PCN, replace("pcn", "accept_or_reject", keep_old("log_likelihood"))
    ),
    "pCNL: rho's arguments swapped": Fault(
        PCNL, replace("pcnl", "rho", lambda right: lambda u, v, delta: right(v, u, delta))
    ),
    "pCNL: <u + v, g> term missing": Fault(PCNL, replace("pcnl", "rho", rho_without(across=0.0))),
    "pCNL: |g|^2 term missing": Fault(PCNL, replace("pcnl", "rho", rho_without(square=0.0))),
    "pCNL: stale gradient": Fault(PCNL, replace("pcnl", "accept_or_reject", keep_old("gradient"))),
    "HMC: epsilon^2/8 term missing": Fault(
        HMC, replace("hmc", "trajectory", faulty_trajectory(square=0.0))
    ),
    "HMC: first half kicks not counted": Fault(
        HMC, replace("hmc", "trajectory", faulty_trajectory(first=0.0))
    ),
    "HMC: leapfrog drift for the rotation": Fault(
        HMC, replace("hmc", "trajectory", faulty_trajectory(drift=True))
    ),
    "HMC: jitter drawn after the momentum": Fault(
        HMC, replace("hmc", "trajectory", jitter_by_momentum)
    ),
    "HMC: momentum 5 % too large": Fault(HMC, replace("hmc", "standard_normal", momentum_too_hot)),
    "NodeSwap: ratio of the next pair (off by one)": Fault(
        SWAP, replace_method("nodes", "NodeTable", "pair", pair_shifted(ratio=1))
    ),
    "NodeSwap: second node off by one": Fault(
        SWAP, replace_method("nodes", "NodeTable", "pair", pair_shifted(nodes=1))
    ),
    "NodeSwap: biases left behind": Fault(SWAP, replace("nodes", "_row", bias_left_behind)),
    "NodeSwap: prior ratio upside down": Fault(
        SWAP, replace("node_swap", "log_prior_ratio", lambda right: lambda z, p: -right(z, p))
    ),
    "NodeSwap: stale gradient after a swap": Fault(
        Cell("cycle(pcnl, node_swap)", "tcNN", "regression"),
        replace("node_swap", "_step", gradient_left_behind),
    ),
    "block NodeSwap: likelihood ratio forgotten": Fault(
        Cell("block_node_swap", "tcNN", "regression"),
        replace(
            "block_node_swap",
            "accept_or_reject",
            ratio_changed(lambda r, new, old: r - new.log_likelihood + old.log_likelihood),
        ),
    ),
    "MALA: way back without its drift": Fault(
        Cell("mala", "tcNN", "regression"),
        replace("mala", "log_ratio", symmetric_ratio),
    ),
    "random walk: prior ratio missing": Fault(
        Cell("random_walk", "tcNN", "regression"),
        replace(
            "random_walk",
            "accept_or_reject",
            ratio_changed(lambda _, new, old: new.log_likelihood - old.log_likelihood),
        ),
    ),
    "elliptical slice: height drawn too low": Fault(
        Cell("elliptical_slice", "tcNN", "regression"),
        replace("elliptical_slice", "_step", slice_too_low),
    ),
    "cycle: gradient of the next part not made anew": Fault(
        Cell("cycle(pcn, mala)", "Fourier", "regression"),
        replace_method("parts", "Part", "entered", gradient_not_made_anew),
    ),
    "NaN accepted": Fault(
        PCN,
        replace("metropolis", "decide", nan_accepted),
        joint=lambda: half_space(priors()["Fourier"]),
    ),
    "reference: its mean left out of the ratio": Fault(
        BY_REFERENCE,
        replace_method(
            "reference",
            "Reference",
            "phi",
            lambda right: lambda self, z: right(self, z) + jnp.vdot(self.mean, z),
        ),
    ),
    "reference: eigenvalues 30 % too large in the ratio": Fault(
        BY_REFERENCE, replace_method("reference", "Reference", "phi", eigenvalues_too_large)
    ),
    "reference: its scale left out of the ratio": Fault(
        Cell("hmc, scaled reference", "Fourier", "regression"),
        replace_method("reference", "Reference", "stiffness", lambda _: property(no_stiffness)),
    ),
    "reference: proposals from the prior": Fault(
        BY_REFERENCE,
        replace_method(
            "reference", "Reference", "_power", lambda _: lambda *arguments: arguments[-1]
        ),
    ),
    "hyperparameters: alpha without its half": Fault(
        Cell("hmc", "hyper tcNN", "regression"), change=with_posterior(alpha_doubled)
    ),
    "hyperparameters: n log(noise) left out": Fault(
        Cell("hmc", "noise", "regression"), change=with_posterior(without_constant)
    ),
    "hyperparameters: tails left out": Fault(
        Cell("pcn", "student tcNN", "regression"), change=with_posterior(without_tails)
    ),
    "centred: volume factor left out": Fault(
        Cell("centred", "hyper tcNN", "regression"),
        replace_method("centred", "Centring", "log_prior_ratio", volume_left_out),
    ),
    "centred: likelihood ratio forgotten": Fault(
        Cell("centred, block", "hyper tcNN", "regression"),
        replace("centred", "_centring", likelihood_left_out),
    ),
    "centred: noise at the wrong temperature": Fault(
        Cell("centred", "noise", "regression"), change=with_posterior(lambda p: p.tempered(0.9))
    ),
    "variance index off by one": Fault(
        Cell("hmc", "tcNN", "regression"), change=with_posterior(variance_index_off_by_one)
    ),
}
