"""Small models from which both the function and the data can be drawn.

A `Joint` draws y given z and gives the posterior of y, with y traced: thousands of data sets run
in one compiled program. The likelihoods are those of the package; only the data are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import traceclass as tc
from traceclass.module import Module

NUM_POINTS = 24
_rng = np.random.default_rng(0)
POINTS = _rng.uniform(size=(NUM_POINTS, 2))


class Joint(NamedTuple):
    """A prior, and (key, z) -> the posterior of data drawn given z."""

    prior: tc.Prior
    posterior_of_data: Callable


def priors() -> dict[str, tc.Prior]:
    return {
        "tcNN": tc.TraceClassNetwork(
            num_inputs=2, widths=(4, 3), alpha=1.5, weight_variance=4.0, bias_variance=2.0
        ),
        "iid": tc.IidNetwork(num_inputs=2, widths=(4, 3), weight_variance=1.0, bias_variance=1.0),
        "Fourier": tc.FourierSeries(num_inputs=2, max_frequency=2, alpha=2.0),
    }


def hyper_priors() -> dict[str, tc.Prior]:
    """The trace-class network with numbers of its own inferred, and with heavier tails."""
    network = priors()["tcNN"]
    alpha = tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5)
    variance = tc.LogNormal(median=4.0, sigma=0.4)
    noise = tc.LogNormal(median=0.7, sigma=0.5)
    return {
        "hyper tcNN": tc.Hyper(network, alpha=alpha, weight_variance=variance),
        "student tcNN": tc.Hyper(network, tails="student", df=4.0),
        "noise": tc.Hyper(network, alpha=alpha, weight_variance=variance, noise=noise),
    }


def regression(prior: tc.Prior, noise: float = 1.0) -> Joint:
    """y_t = v(x_t) + noise."""
    likelihood = tc.GaussianRegression(POINTS, np.zeros(NUM_POINTS), noise=noise)
    posterior = tc.Posterior(prior, likelihood)

    def of_data(key, z):
        inferred = prior.noise(z)
        deviation = noise if inferred is None else inferred
        y = posterior.values_of(z) + deviation * jax.random.normal(key, (NUM_POINTS,))
        return eqx.tree_at(lambda p: p.likelihood.observations, posterior, y)

    return Joint(prior, of_data)


class Reordered(Module):
    """z -> values at the same points, in another order."""

    values_of: Callable
    order: jax.Array

    def __call__(self, z):
        return self.values_of(z)[self.order]


def action_choice(prior: tc.Prior) -> Joint:
    """a_t = argmax_j [v(x_tj) + noise], three actions."""
    num_actions = 3
    successors = POINTS.reshape(-1, num_actions, 2)
    times = np.arange(len(successors))
    likelihood = tc.ActionChoice(successors, 0 * times, noise=0.1)
    posterior = tc.Posterior(prior, likelihood)
    values_of = prior.at(POINTS)

    def of_data(key, z):
        values = values_of(z).reshape(-1, num_actions)
        noise = likelihood.noise * jax.random.normal(key, values.shape)
        actions = jnp.argmax(values + noise, axis=1)
        # The chosen action first, then the others in their order; action by action.
        is_other = jnp.arange(num_actions) != actions[:, None]
        ranks = jnp.argsort(is_other, axis=1, stable=True)
        order = (times[:, None] * num_actions + ranks).T.ravel()
        return eqx.tree_at(
            lambda p: (p.values_of, p.likelihood.actions),
            posterior,
            (Reordered(values_of, order), actions.astype(jnp.int32)),
        )

    return Joint(prior, of_data)


class LinearMap(Module):
    """y = G v + noise: heads of a string under the load v, G = the inverse of -d^2/dx^2."""

    points: jax.Array
    observations: jax.Array
    green: jax.Array
    noise: float = eqx.field(static=True)

    def log_prob(self, values):
        residuals = (self.observations - self.green @ values) / self.noise
        return -0.5 * jnp.sum(residuals**2)


def linear_map(prior: tc.Prior, noise: float = 0.6) -> Joint:
    """y = G v + noise."""
    x = (np.arange(NUM_POINTS) + 1) / (NUM_POINTS + 1)
    green = (np.minimum.outer(x, x) - np.outer(x, x)) * 8 / NUM_POINTS
    likelihood = LinearMap(
        jnp.asarray(np.stack([x, 0.3 + 0.4 * x], axis=1)),
        jnp.zeros(NUM_POINTS),
        jnp.asarray(green, dtype=float),
        noise,
    )
    posterior = tc.Posterior(prior, likelihood)

    def of_data(key, z):
        errors = noise * jax.random.normal(key, (NUM_POINTS,))
        y = likelihood.green @ posterior.values_of(z) + errors
        return eqx.tree_at(lambda p: p.likelihood.observations, posterior, y)

    return Joint(prior, of_data)


def half_space(prior: tc.FourierSeries) -> Joint:
    """Regression that is only defined where v(x_0) > 0, and NaN elsewhere."""
    joint = regression(prior)
    values_of = prior.at(POINTS)

    class Prior(NamedTuple):
        """The prior, turned over where v(x_0) < 0: its law given v(x_0) > 0."""

        num_coordinates: int

        def sample(self, key):
            z = prior.sample(key)
            return z * jnp.sign(values_of(z)[0])

    class OrNaN(Module):
        values_of: Callable

        def __call__(self, z):
            values = self.values_of(z)
            return jnp.where(values[0] > 0, values, jnp.nan)

    def of_data(key, z):
        posterior = joint.posterior_of_data(key, z)
        return eqx.tree_at(lambda p: p.values_of, posterior, OrNaN(posterior.values_of))

    return Joint(Prior(prior.num_coordinates), of_data)


def groundwater(prior: tc.Prior, noise: float = 0.02) -> Joint:
    """Heads of flow through exp(v), 5 x 5 nodes, at some of them and between."""
    points = POINTS[:9]
    likelihood = tc.GroundwaterFlow(np.zeros(len(points)), points=points, noise=noise, cells=4)
    posterior = tc.Posterior(prior, likelihood)

    def of_data(key, z):
        y = likelihood.predict(posterior.values_of(z))
        y = y + noise * jax.random.normal(key, y.shape)
        return eqx.tree_at(lambda p: p.likelihood.observations, posterior, y)

    return Joint(prior, of_data)


LIKELIHOODS = {
    "regression": regression,
    "action choice": action_choice,
    "linear map": linear_map,
    "groundwater": groundwater,
}
