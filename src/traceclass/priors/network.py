"""Priors on fully connected networks: trace-class (eq. prior_def) and independent weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import zeta

from traceclass.errors import UserValueError
from traceclass.module import Module
from traceclass.priors.activations import Activation, activation_named
from traceclass.priors.base import ITS_OWN, Hyperparameters, Prior
from traceclass.priors.inputs import Inputs
from traceclass.representation import in_words
from traceclass.validation import (
    per_layer,
    require_callable,
    require_count,
    require_memory,
    require_number,
    shape_of,
    shortened,
)


class Layer(NamedTuple):
    """Weights (N_l, N_{l-1}) and biases (N_l,) of one layer, in the paper's units."""

    weights: Float[Array, "out in"]
    biases: Float[Array, " out"]


class LayerScale(NamedTuple):
    """Standard deviations of a layer: weights rows[i] * columns[j], biases biases[i]."""

    rows: Float[Array, " out"]
    columns: Float[Array, " in"]
    biases: Float[Array, " out"]


class NetworkAtPoints(Module):
    """z -> the network's values at fixed points; see `NetworkPrior.at`."""

    features: Float[Array, "features points"]
    scales: tuple[LayerScale, ...]
    activation: Activation = eqx.field(static=True)

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " points"]:
        r"""Forward pass (eq. def:NNfunctions), one column a point.

        f^(1) = b^(1) + W^(1) x,    f^(l) = b^(l) + W^(l) zeta(f^(l-1)),    v = f^(n+1)
        """
        # Columns, not rows: W @ h keeps the long axis (points) contiguous, which is two to three
        # times faster on a CPU for a batch of narrow networks.
        hidden = self.features
        for depth, (weights, biases) in enumerate(_layers(z, self.scales)):
            if depth > 0:
                hidden = self.activation(hidden)
            hidden = weights @ hidden + biases[:, None]
        return hidden[0]


class NetworkPrior(Prior):
    """What both network priors share; use `TraceClassNetwork` or `IidNetwork`."""

    hyperparameter_names: ClassVar[tuple[str, ...]] = ("weight_variance", "bias_variance")

    num_inputs: int = eqx.field(static=True)
    num_features: int = eqx.field(static=True)
    widths: tuple[int, ...] = eqx.field(static=True)
    alpha: float = eqx.field(static=True)
    weight_variance: tuple[float, ...] = eqx.field(static=True)
    bias_variance: tuple[float, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)
    inputs: Inputs | None

    def __init__(
        self,
        *,
        num_inputs: int,
        widths: Sequence[int],
        alpha: float,
        weight_variance: float | Sequence[float],
        bias_variance: float | Sequence[float],
        activation: str | Activation,
        inputs: Inputs | None,
    ):
        self.num_inputs, self.num_features, self.widths = _sizes(num_inputs, widths, inputs)
        self.alpha = float(alpha)
        require_memory(self.num_coordinates, f"a network of widths {self.widths}")
        self.weight_variance = per_layer(weight_variance, len(self.widths) + 1, "weight_variance")
        self.bias_variance = per_layer(bias_variance, len(self.widths) + 1, "bias_variance")
        self.activation = activation_named(activation)
        self.inputs = inputs

    @property
    def floats_per_value(self) -> int:
        # Two neighbouring layers before and after the activation.
        return 4 * max(self.num_features, *self.widths)

    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Weights (N_l, N_{l-1}) and biases (N_l,) of each layer in turn."""
        sizes = self._layer_sizes()
        return tuple(shape for into, out in sizes for shape in ((out, into), (out,)))

    def refine(self, *, widths: Sequence[int]) -> Self:
        """The same prior with wider layers (as many of them), all else unchanged."""
        _, _, wider = _sizes(self.num_inputs, widths, self.inputs)
        if len(wider) != len(self.widths) or any(
            new < old for new, old in zip(wider, self.widths, strict=True)
        ):
            raise UserValueError(
                f"refine needs one width a hidden layer, none below the present {self.widths}; got "
                f"{wider}. A prior is refined by adding nodes; use restrict to take them away."
            )
        arguments: dict[str, Any] = self._arguments() | {"widths": wider}
        return type(self)(**arguments)

    def _words(self) -> dict[str, str]:
        given = self._arguments().items()
        return {name: in_words(value) for name, value in given if value is not None}

    def settings(self) -> tuple[object, ...]:
        named = self._arguments() | {"widths": len(self.widths)}
        return tuple(named.values())

    def total_variance(self) -> float:
        """The trace of C at infinite width: the sum of all variances (infinite for alpha <= 1)."""
        return self.tail_variance(0) + self.bias_variance[-1]

    def tail_variance(self, width: int | Sequence[int]) -> float:
        r"""The part of the trace of C beyond `width` nodes per hidden layer (a number, or several).

        With H = sum_{i <= N} i^-alpha, t = zeta(alpha, N + 1) (Hurwitz) and S = H + t, the
        layers leave out (s_w^2 d + s_b^2) t_1, then s_w^2 (S S - H_l H_{l-1}) + s_b^2 t_l, and
        s_w^2 t_n at the output. So `tail_variance(n) / total_variance()` is the share lost at
        width n.
        """
        depth = len(self.widths)
        given = list(width) if isinstance(width, (Sequence, np.ndarray)) else [width] * depth
        if len(given) != depth:
            raise UserValueError(f"tail_variance needs one width, or {depth}, got {len(given)}.")
        widths = [require_count(n, "width", "It is a number of nodes.", 0) for n in given]
        if self.alpha <= 1:
            return math.inf
        tails = [float(zeta(self.alpha, n + 1)) for n in widths]
        total = float(zeta(self.alpha))
        s2_w, s2_b = self.weight_variance, self.bias_variance
        left_out = (s2_w[0] * self.num_features + s2_b[0]) * tails[0] + s2_w[-1] * tails[-1]
        for layer, (before, here) in enumerate(itertools.pairwise(tails), start=1):
            # S S - H_l H_{l-1} without the cancellation
            left_out += s2_w[layer] * (here * total + (total - here) * before)
            left_out += s2_b[layer] * here
        return left_out

    def _arguments(self) -> dict[str, Any]:
        """What the class was made from."""
        return {
            "num_inputs": self.num_inputs,
            "widths": self.widths,
            "weight_variance": self.weight_variance,
            "bias_variance": self.bias_variance,
            "activation": self.activation,
            "inputs": self.inputs,
        }

    def parameters(
        self, z: Float[Array, " z"], hyperparameters: Hyperparameters = ITS_OWN
    ) -> tuple[Layer, ...]:
        """Weights and biases of every layer: theta = C^(1/2) z."""
        return tuple(_layers(jnp.asarray(z, dtype=float), self._scales(hyperparameters)))

    def from_parameters(self, theta: Sequence[Layer]) -> Float[Array, " z"]:
        """The position z whose parameters are `theta`: z = C^(-1/2) theta."""
        sizes = self._layer_sizes()
        got = [(np.shape(w), np.shape(b)) for w, b in theta]
        if got != [((out, into), (out,)) for into, out in sizes]:
            raise UserValueError(
                f"theta must hold one (weights, biases) pair a layer, of shapes "
                f"{[((out, into), (out,)) for into, out in sizes]}; got {got}."
            )
        pieces = []
        for (weights, biases), scale in zip(theta, self._scales(), strict=True):
            pieces.append((weights / (scale.rows[:, None] * scale.columns)).ravel())
            pieces.append(biases / scale.biases)
        return jnp.concatenate(pieces)

    def at(self, points: ArrayLike) -> NetworkAtPoints:
        """z -> values at `points`; scaling of the inputs and of the weights is done once, here."""
        checked = self.checked_points(points)
        features = checked if self.inputs is None else self.inputs(checked)
        return NetworkAtPoints(features.T, self._scales(), self.activation)

    def rescaled(
        self, values_of: NetworkAtPoints, hyperparameters: Hyperparameters
    ) -> NetworkAtPoints:
        """`values_of` at these hyperparameters; a variance is one number, or one per layer."""
        return eqx.tree_at(lambda at: at.scales, values_of, self._scales(hyperparameters))

    def _layer_sizes(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise((self.num_features, *self.widths, 1)))

    def _scales(self, hyperparameters: Hyperparameters = ITS_OWN) -> tuple[LayerScale, ...]:
        r"""Square roots of eq. prior_def; i and j count from one.

        Var W^(1)_ij = s_w^2 / i^alpha,   Var W^(l)_ij = s_w^2 / (i j)^alpha for l >= 2,
        Var B^(l)_i = s_b^2 / i^alpha. The inputs j of the first layer are not ordered, so the
        prior treats them alike. The prior's own numbers are taken to double precision first.
        """
        alpha = hyperparameters.get("alpha", self.alpha)
        own = {"weight_variance": self.weight_variance, "bias_variance": self.bias_variance}
        deviations = [
            _deviation_a_layer(hyperparameters.get(name, variances), len(variances))
            for name, variances in own.items()
        ]
        scales = []
        for depth, ((into, out), s_w, s_b) in enumerate(
            zip(self._layer_sizes(), *deviations, strict=True)
        ):
            decay_out = np.arange(1, out + 1, dtype=np.float64) ** (-alpha / 2)
            decay_in = np.arange(1, into + 1, dtype=np.float64) ** (-alpha / 2)
            columns = np.ones(into) if depth == 0 else decay_in
            scales.append(
                LayerScale(
                    jnp.asarray(s_w * decay_out, dtype=float),
                    jnp.asarray(columns, dtype=float),
                    jnp.asarray(s_b * decay_out, dtype=float),
                )
            )
        return tuple(scales)


class TraceClassNetwork(NetworkPrior):
    r"""The trace-class neural-network prior (eq. prior_def), truncated at `widths`.

        W^(1)_ij ~ N(0, s_w^2 / i^alpha),  W^(l)_ij ~ N(0, s_w^2 / (i j)^alpha),
        B^(l)_i ~ N(0, s_b^2 / i^alpha),   alpha > 1

    Variances fall along each layer so that their sum stays finite at infinite width; a larger
    `widths` refines the same prior. `weight_variance` (s_w^2) and `bias_variance` (s_b^2) are one
    number or one per layer, the output layer included. `inputs` maps points (n, d) to the features
    the first layer reads, e.g. `scale_to_box(low, high)`.

    It is not the prior with variances 1/width (a Gaussian-process limit), nor `IidNetwork`.
    Reference: Sell & Singh, JRSS-B 2023, section 3.

    >>> import jax, traceclass as tc
    >>> prior = tc.TraceClassNetwork(num_inputs=2, widths=(10, 10, 10), alpha=1.5)
    >>> prior.num_coordinates
    261
    >>> z = prior.sample(jax.random.key(0))
    >>> prior.evaluate(z, jax.numpy.zeros((5, 2))).shape
    (5,)
    """

    hyperparameter_names: ClassVar[tuple[str, ...]] = ("alpha", "weight_variance", "bias_variance")

    def __init__(
        self,
        *,
        num_inputs: int,
        widths: Sequence[int],
        alpha: float = 1.5,
        weight_variance: float | Sequence[float] = 1.0,
        bias_variance: float | Sequence[float] = 1.0,
        activation: str | Activation = "tanh",
        inputs: Inputs | None = None,
    ):
        if not 1 < require_number(alpha, "alpha") < math.inf:
            raise UserValueError(
                f"TraceClassNetwork needs alpha > 1, got {shortened(alpha)}. At or below 1 the "
                "variances are not summable, so the prior is not trace-class. Use e.g. alpha=1.5, "
                "or IidNetwork."
            )
        super().__init__(
            num_inputs=num_inputs,
            widths=widths,
            alpha=alpha,
            weight_variance=weight_variance,
            bias_variance=bias_variance,
            activation=activation,
            inputs=inputs,
        )

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"alpha": self.alpha}


class IidNetwork(NetworkPrior):
    """The standard Bayesian network: eq. prior_def with alpha = 0, one variance per layer.

    Its variances are not summable, so it has no infinite-width limit in parameter space; it is
    the control against which `TraceClassNetwork` is compared. Arguments as there.
    """

    def __init__(
        self,
        *,
        num_inputs: int,
        widths: Sequence[int],
        weight_variance: float | Sequence[float] = 1.0,
        bias_variance: float | Sequence[float] = 1.0,
        activation: str | Activation = "tanh",
        inputs: Inputs | None = None,
    ):
        super().__init__(
            num_inputs=num_inputs,
            widths=widths,
            alpha=0.0,
            weight_variance=weight_variance,
            bias_variance=bias_variance,
            activation=activation,
            inputs=inputs,
        )


def _deviation_a_layer(variances: Any, num_layers: int) -> list[Any]:
    """Square roots of one variance per layer: floats of a prior's own, otherwise in JAX."""
    if isinstance(variances, tuple):
        return [math.sqrt(variance) for variance in variances]
    return list(jnp.sqrt(jnp.broadcast_to(jnp.asarray(variances, dtype=float), num_layers)))


def _layers(z: Float[Array, " z"], scales: tuple[LayerScale, ...]) -> Iterator[Layer]:
    """Cut z into layers - weights row by row, then biases - and scale it to parameters."""
    start = 0
    for rows, columns, sd_biases in scales:
        out, into = rows.size, columns.size
        weights = z[start : start + out * into].reshape(out, into)
        start += out * into
        biases = z[start : start + out]
        start += out
        yield Layer(weights * rows[:, None] * columns, biases * sd_biases)


def _sizes(
    num_inputs: int, widths: Sequence[int], inputs: Inputs | None
) -> tuple[int, int, tuple[int, ...]]:
    """Checked (num_inputs, number of features after `inputs`, widths)."""
    num_inputs = require_count(num_inputs, "num_inputs", "A function needs an argument.")
    if np.ndim(widths) != 1 or len(widths) == 0:
        raise UserValueError(
            f"widths must list at least one hidden layer, got {widths!r}. Use e.g. widths=(10, 10)."
        )
    why = "A hidden layer needs nodes."
    checked = tuple(require_count(w, f"widths[{i}]", why) for i, w in enumerate(widths))
    if inputs is None:
        return num_inputs, num_inputs, checked
    require_callable(inputs, "inputs", "points (n, d)")
    probe = jax.ShapeDtypeStruct((3, num_inputs), jnp.zeros(()).dtype)
    shape = shape_of(inputs, probe, name="inputs").shape
    if len(shape) != 2 or shape[0] != 3:
        raise UserValueError(
            f"inputs must map points (n, {num_inputs}) to features (n, k); it maps (3, "
            f"{num_inputs}) to {shape}."
        )
    return num_inputs, shape[1], checked
