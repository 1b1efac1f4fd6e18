"""A prior and a likelihood joined: what a kernel needs to know of the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.errors import UserValueError
from traceclass.likelihoods.base import PointLikelihood, at_noise
from traceclass.module import Module
from traceclass.priors.base import Prior
from traceclass.representation import as_table, in_words, one_line
from traceclass.validation import require_shape


class Posterior(Module):
    r"""The measure with density exp(l(z)) / Z with respect to the prior N(0, I) of z.

        l(z) = log p(data | v(x_1; z), ..., v(x_n; z)),   x_i the likelihood's points

    A prior that infers the noise level of the data (`Hyper`) gives it to the likelihood too.
    Kernels that are exact for the prior need only `log_likelihood`; others (BlackJAX's) take
    `logdensity`, the density with respect to Lebesgue measure. `tempered(t)` is the measure with
    t l(z) in place of l(z), between the prior (t = 0) and the posterior (t = 1).
    """

    prior: Prior
    likelihood: Any
    values_of: Callable[[Array], Array]
    inverse_temperature: Float[Array, ""] | None

    def __init__(self, prior: Prior, likelihood: PointLikelihood):
        self.prior = prior
        self.likelihood = likelihood
        self.values_of = prior.at(likelihood.points)
        self.inverse_temperature = None
        position = jax.ShapeDtypeStruct((prior.num_coordinates,), jnp.zeros(()).dtype)
        shape = jax.eval_shape(lambda z: self.log_prob(self.values_of(z), z), position).shape
        if shape != ():
            raise UserValueError(
                f"log_prob must return one number, got an array of shape {shape}. Sum over the "
                "observations."
            )

    def _words(self) -> dict[str, str]:
        num_points = len(self.likelihood.points)
        words = {
            "prior": repr(self.prior),
            "likelihood": f"{type(self.likelihood).__name__} at {num_points} points",
        }
        if self.inverse_temperature is not None:
            words["inverse_temperature"] = in_words(self.inverse_temperature)
        return words

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._words())

    def _repr_html_(self) -> str:
        return as_table(type(self).__name__, self._words())

    def log_likelihood(self, z: Float[Array, " z"]) -> Float[Array, ""]:
        """l(z), or t l(z) of a tempered posterior."""
        require_shape(z, (self.prior.num_coordinates,), "a position")
        log_likelihood, t = self.log_prob(self.values_of(z), z), self.inverse_temperature
        return log_likelihood if t is None else t * log_likelihood

    def log_prob(self, values: Array, z: Float[Array, " z"]) -> Array:
        """The likelihood of values at its points, at the noise level of z; never tempered."""
        return at_noise(self.likelihood.log_prob, values, self.prior.noise(z))

    def log_likelihood_each(self, z: Float[Array, " z"]) -> Array:
        """The log-probability of each observation, e.g. for cross-validation; never tempered."""
        require_shape(z, (self.prior.num_coordinates,), "a position")
        if not hasattr(self.likelihood, "log_prob_each"):
            raise UserValueError(
                f"{type(self.likelihood).__name__} has no log_prob_each(values), the "
                "log-probability of each observation. Give it one, or use log_likelihood."
            )
        return at_noise(self.likelihood.log_prob_each, self.values_of(z), self.prior.noise(z))

    def tempered(self, inverse_temperature: Any) -> Posterior:
        """The posterior with its log-likelihood multiplied by `inverse_temperature`."""
        present = 1.0 if self.inverse_temperature is None else self.inverse_temperature
        return eqx.tree_at(
            lambda posterior: posterior.inverse_temperature,
            self,
            jnp.asarray(present * inverse_temperature, dtype=float),
            is_leaf=lambda leaf: leaf is None,
        )

    def log_likelihood_and_gradient(
        self, z: Float[Array, " z"]
    ) -> tuple[Float[Array, ""], Float[Array, " z"]]:
        """l(z) and its gradient in whitened coordinates, C^(1/2) Dl in the paper's letters."""
        return jax.value_and_grad(self.log_likelihood)(z)

    def logdensity(self, z: Float[Array, " z"]) -> Float[Array, ""]:
        """l(z) - |z|^2 / 2, for kernels that know nothing of the prior."""
        return self.log_likelihood(z) - 0.5 * jnp.vdot(z, z)
