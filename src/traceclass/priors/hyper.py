"""A prior whose own numbers, and the noise of the data, are inferred along with the function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from traceclass.errors import UserTypeError, UserValueError
from traceclass.module import Module
from traceclass.priors.base import Hyperparameters, Prior
from traceclass.priors.hyperpriors import Hyperprior, OwnHyperprior
from traceclass.priors.inputs import Inputs
from traceclass.priors.tails import Tails, tails_named
from traceclass.validation import require_shape

Law = Hyperprior | Callable[[Array], Array]
# A hyperparameter has one law, or one law or number per layer.
Entry = Hyperprior | tuple[Hyperprior | float, ...]

NOISE = "noise"
_PER_LAYER = ("weight_variance", "bias_variance")
_SUMMABLE = ("alpha", "exponent")


class HyperAtPoints(Module):
    """(h, z) -> the inner prior's values at fixed points, at the hyperparameters of h."""

    hyper: Hyper
    values_of: Callable[[Array], Array]

    def __call__(self, position: Float[Array, " position"]) -> Float[Array, " points"]:
        hyperparameters, z = self.hyper.parts(position)
        if not hyperparameters:
            return self.values_of(z)
        return self.hyper.prior.rescaled(self.values_of, hyperparameters)(z)


class Hyper(Prior):
    r"""A prior with hyperparameters of its own, and tails heavier than Gaussian if asked for.

        h ~ N(0, I),   z ~ N(0, I),   theta = C(eta)^(1/2) T(z),   eta_k = g_k(h_k)

    A position is (h, z), the h of each hyperparameter first, in the order of the arguments; g_k is
    its hyperprior: `LogNormal`, `ShiftedLogNormal`, `Uniform`, or any function of a standard
    normal number to a positive one. h and z are independent and standard normal, so every kernel
    runs on it as on any prior; it is not the centred form, in which theta depends on eta.

    Networks have `alpha` (`TraceClassNetwork` only), `weight_variance` and `bias_variance` (one
    law for all layers, or a sequence of one law or number per layer); `FourierSeries` has `alpha`,
    `CosineSeries` has `exponent`, and all series have `variance`, which multiplies all variances.
    What is not given stays as it is in `prior`. `noise` is the noise level of the likelihood.
    `tails` is "student" (with `df` > 2) or "laplace": T is the quantile of that law at Phi(z),
    scaled to variance one.

    >>> import jax, traceclass as tc
    >>> network = tc.TraceClassNetwork(num_inputs=1, widths=(10, 10))
    >>> prior = tc.Hyper(
    ...     network,
    ...     alpha=tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.5),
    ...     noise=tc.LogNormal(median=0.1, sigma=1.0),
    ... )
    >>> position = prior.sample(jax.random.key(0))
    >>> print(*prior.hyperparameters(position))
    alpha noise
    """

    prior: Any
    names: tuple[str, ...] = eqx.field(static=True)
    hyperpriors: tuple[Entry, ...]
    tails: Tails | None

    def __init__(
        self,
        prior: Prior,
        *,
        alpha: Law | None = None,
        exponent: Law | None = None,
        weight_variance: Law | Sequence[Law | float] | None = None,
        bias_variance: Law | Sequence[Law | float] | None = None,
        variance: Law | None = None,
        noise: Law | None = None,
        tails: str | None = None,
        df: float | None = None,
    ):
        if not isinstance(prior, Prior) or isinstance(prior, Hyper):
            raise UserTypeError(
                f"Hyper needs a prior with numbers of its own, got {type(prior).__name__}. Give "
                "all hyperpriors in one Hyper."
            )
        laws = {
            "alpha": alpha,
            "exponent": exponent,
            "weight_variance": weight_variance,
            "bias_variance": bias_variance,
            "variance": variance,
            NOISE: noise,
        }
        given = {name: law for name, law in laws.items() if law is not None}
        self.prior = prior
        self.tails = tails_named(tails, df)
        if not given and self.tails is None:
            raise UserValueError(
                f"Hyper was given nothing to infer. {type(prior).__name__} has {_known(prior)}; "
                'or give tails="student" or "laplace".'
            )
        self.names = tuple(given)
        self.hyperpriors = tuple(_entry(prior, name, law) for name, law in given.items())

    @property
    def num_hyperparameters(self) -> int:
        """The length of h: one number per law, so one per layer where each has its own."""
        return sum(len(_laws(entry)) for entry in self.hyperpriors)

    @property
    def names_by_coordinate(self) -> tuple[str, ...]:
        """The hyperparameter that each coordinate of h belongs to."""
        pairs = zip(self.names, self.hyperpriors, strict=True)
        return tuple(name for name, entry in pairs for _ in _laws(entry))

    def hyperparameters(self, position: Float[Array, " position"]) -> dict[str, Array]:
        """By name, the value of each; those with one law or number per layer have shape (layers,).

        To keep them in a run: `record={"alpha": lambda z: prior.hyperparameters(z)["alpha"]}`.
        """
        require_shape(position, (self.num_coordinates,), "a position")
        h = iter([position[i] for i in range(self.num_hyperparameters)])
        pairs = zip(self.names, self.hyperpriors, strict=True)
        return {name: _value(entry, h) for name, entry in pairs}

    def position(
        self, hyperparameters: Mapping[str, Any], z: Float[Array, " z"]
    ) -> Float[Array, " position"]:
        """The position at which the hyperparameters have these values, and the inner prior's z."""
        if set(hyperparameters) != set(self.names):
            raise UserValueError(
                f"position needs a value for each of {', '.join(self.names) or 'no names'}, got "
                f"{', '.join(hyperparameters) or 'none'}."
            )
        require_shape(z, (self.prior.num_coordinates,), "z")
        h = [
            coordinate
            for name, entry in zip(self.names, self.hyperpriors, strict=True)
            for coordinate in _coordinates(name, entry, hyperparameters[name])
        ]
        return jnp.concatenate([jnp.asarray(h, dtype=float), jnp.asarray(z, dtype=float)])

    def parts(self, position: Float[Array, " position"]) -> tuple[Hyperparameters, Array]:
        """The hyperparameters of the inner prior, and its coordinates with their tails, T(z)."""
        found = self.hyperparameters(position)
        found.pop(NOISE, None)
        z = position[self.num_hyperparameters :]
        return found, z if self.tails is None else self.tails(z)

    def noise(self, position: Float[Array, " position"]) -> Float[Array, ""] | None:
        """The noise level at a position; None if it is not inferred."""
        return self.hyperparameters(position).get(NOISE)

    def parameters(self, position: Float[Array, " position"]) -> Any:
        """The inner prior's parameters theta = C(eta)^(1/2) T(z)."""
        hyperparameters, z = self.parts(position)
        return self.prior.parameters(z, hyperparameters)

    def at(self, points: ArrayLike) -> HyperAtPoints:
        """(h, z) -> values at `points`; all that no hyperparameter changes is done once, here."""
        return HyperAtPoints(self, self.prior.at(points))

    def refine(self, **sizes: Any) -> Hyper:
        """The same hyperpriors over the refined inner prior."""
        return eqx.tree_at(lambda hyper: hyper.prior, self, self.prior.refine(**sizes))

    @property
    def num_inputs(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.prior.num_inputs

    @property
    def inputs(self) -> Inputs | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.prior.inputs

    @property
    def on_unit_cube(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.prior.on_unit_cube

    @property
    def num_coordinates(self) -> int:
        return self.num_hyperparameters + self.prior.num_coordinates

    @property
    def floats_per_value(self) -> int:
        return self.prior.floats_per_value

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """(number of hyperparameters,), then the inner prior's; without the first if it is 0."""
        count = self.num_hyperparameters
        return (((count,),) if count else ()) + self.prior.blocks()

    def settings(self) -> tuple[object, ...]:
        return (self.names, self.hyperpriors, self.tails, self.prior.settings())

    def checked_points(self, points: ArrayLike) -> Float[Array, "points dim"]:
        return self.prior.checked_points(points)

    def _is_refined_by(self, finer: Prior) -> bool:
        same = isinstance(finer, Hyper) and self.prior._is_refined_by(finer.prior)
        return same and super()._is_refined_by(finer)


def _laws(entry: Entry) -> list[Hyperprior]:
    entries = entry if isinstance(entry, tuple) else (entry,)
    return [law for law in entries if isinstance(law, Hyperprior)]


def _value(entry: Entry, h: Iterator[Array]) -> Array:
    """The hyperparameter, from the next coordinates of h."""
    if not isinstance(entry, tuple):
        return entry(next(h))
    return jnp.stack(
        [
            law(next(h)) if isinstance(law, Hyperprior) else jnp.asarray(law, dtype=float)
            for law in entry
        ]
    )


def _coordinates(name: str, entry: Entry, value: Any) -> list[Array]:
    """The coordinates h of a value, or of one value per layer."""
    entries = entry if isinstance(entry, tuple) else (entry,)
    require_shape(value, (len(entries),) if isinstance(entry, tuple) else (), name)
    values = value if isinstance(entry, tuple) else [value]
    return [
        law.coordinate(number)
        for law, number in zip(entries, values, strict=True)
        if isinstance(law, Hyperprior)
    ]


def _known(prior: Prior) -> str:
    return ", ".join((*prior.hyperparameter_names, NOISE))


def _entry(prior: Prior, name: str, given: Any) -> Entry:
    """A hyperparameter as `Hyper` keeps it, checked against what the prior has and allows."""
    if name not in (*prior.hyperparameter_names, NOISE):
        raise UserValueError(
            f"{type(prior).__name__} has no {name} to infer. It has {_known(prior)}, and tails."
        )
    if isinstance(given, Sequence) and name in _PER_LAYER:
        return _a_layer_each(prior, name, given)
    if not callable(given):
        raise UserTypeError(
            f"{name} needs a hyperprior, e.g. LogNormal(median=..., sigma=...), got {given!r}. To "
            f"fix it, leave it out here and set it in the "
            f"{'likelihood' if name == NOISE else 'prior'} itself."
        )
    return _law(prior, name, given)


def _a_layer_each(prior: Any, name: str, given: Sequence[Any]) -> Entry:
    num_layers = len(getattr(prior, name))
    if len(given) != num_layers:
        raise UserValueError(
            f"{name} needs one hyperprior, or one hyperprior or number for each of the "
            f"{num_layers} layers (hidden layers and output), got {len(given)}."
        )
    entries = tuple(
        _law(prior, f"{name}[{i}]", law) if callable(law) else _number(law, f"{name}[{i}]")
        for i, law in enumerate(given)
    )
    if not any(isinstance(entry, Hyperprior) for entry in entries):
        raise UserTypeError(
            f"{name} holds numbers only, {list(given)}, so there is nothing to infer. To fix them, "
            "leave it out here and set them in the prior itself."
        )
    return entries


def _number(value: Any, name: str) -> float:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (is_number and 0 < float(value) < np.inf):
        raise UserValueError(f"{name} must be a hyperprior or a positive number, got {value!r}.")
    return float(value)


def _law(prior: Prior, name: str, given: Any) -> Hyperprior:
    """The law of a hyperparameter, if all its values are allowed."""
    law = given if isinstance(given, Hyperprior) else OwnHyperprior(given)
    low = law.support[0]
    # A law of ours comes near the ends of its support and never there; a function may.
    is_too_low = low <= 1 if isinstance(law, OwnHyperprior) else low < 1
    if name in _SUMMABLE and is_too_low:
        raise UserValueError(
            f"{type(prior).__name__} needs {name} > 1, got a hyperprior with values down to "
            f"{low:g}. At or below 1 the variances are not summable, so the prior is not "
            "trace-class. Use ShiftedLogNormal(low=1, median=1.5, sigma=0.5), or Uniform from 1."
        )
    if low < 0:
        raise UserValueError(
            f"{name} must be positive, got a hyperprior with values down to {low:g}. Use "
            "LogNormal(median=..., sigma=...), or Uniform from 0."
        )
    return law
