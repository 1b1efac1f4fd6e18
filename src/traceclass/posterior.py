"""A prior and a likelihood joined: what a kernel needs to know of the target."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from traceclass.errors import UserTypeError, UserValueError
from traceclass.likelihoods.base import PointLikelihood, at_noise
from traceclass.module import Module
from traceclass.priors.base import Prior
from traceclass.representation import (
    as_table,
    fields_of,
    in_words,
    lasting,
    one_line,
)
from traceclass.validation import no_type_check, require_shape, shape_of, shortened


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

    @no_type_check
    def __init__(self, prior: Prior, likelihood: PointLikelihood):
        _check_parts(prior, likelihood)
        self.prior = prior
        self.likelihood = likelihood
        self.values_of = prior.at(likelihood.points)
        self.inverse_temperature = None
        position = jax.ShapeDtypeStruct((prior.num_coordinates,), jnp.zeros(()).dtype)
        log_prob = shape_of(
            lambda z: self.log_prob(self.values_of(z), z), position, name="log_prob"
        )
        shape = getattr(log_prob, "shape", None)
        if shape != ():
            what = "several values" if shape is None else f"an array of shape {shape}"
            raise UserValueError(
                f"log_prob must return one number, got {what}. Sum over the observations."
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

    def described(self) -> dict[str, str]:
        """What prior and likelihood are made from, in words: plain text that a file can keep."""
        parts = {"prior": self.prior, "likelihood": self.likelihood}
        words = {part: type(value).__name__ for part, value in parts.items()}
        for part, value in parts.items():
            if isinstance(value, Prior):
                own = value.described()
            else:
                own = fields_of(value) if dataclasses.is_dataclass(value) else {}
            words |= {f"{name} of the {part}": lasting(text) for name, text in own.items()}
        return words

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


def _check_parts(prior: Any, likelihood: Any) -> None:
    """Refuse what is no prior or no likelihood; the two are easily swapped."""
    if not isinstance(prior, Prior):
        swapped = " Prior and likelihood are swapped." if isinstance(likelihood, Prior) else ""
        raise UserTypeError(f"prior must be a tc.Prior, got {shortened(prior)}.{swapped}")
    if not isinstance(likelihood, PointLikelihood):
        raise UserTypeError(
            "likelihood must have points and log_prob(values), as tc.GaussianRegression or "
            f"tc.Likelihood have; got {shortened(likelihood)}."
        )


def require_posterior(posterior: Any) -> None:
    """Refuse what is no posterior, before it fails somewhere inside."""
    if not isinstance(posterior, Posterior):
        raise UserTypeError(
            f"posterior must be a tc.Posterior(prior, likelihood), got {shortened(posterior)}."
        )
