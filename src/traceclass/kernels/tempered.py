"""Non-reversible parallel tempering: replicas between the prior and the posterior, exchanged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from traceclass.arrays import as_doubles
from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.base import Kernel, KernelFactory, Ladder, Tuning, as_kernel
from traceclass.kernels.composition import Composition
from traceclass.kernels.metropolis import MetropolisInfo, sampling_algorithm
from traceclass.kernels.parts import CompositionInfo, Part, moves_of
from traceclass.kernels.replicas import TemperedState, swap, together
from traceclass.kernels.states import GradientState, State, standard_normal
from traceclass.validation import no_type_check, require_count

# How far a trajectory at the posterior turns, in radians, and the fewest and most kicks it is made
# of. A quarter turn, which suits a kernel by itself, is too long: functions far away are reached
# by way of the prior. Hotter trajectories have as many kicks, because all are computed together,
# and longer steps. benchmarks/README.md has the measurements.
_TURN, _FEWEST_KICKS, _MOST_KICKS = 0.4, 5, 40
_DEFAULT = 10
# The hottest inverse temperature above zero that adaptation begins with.
_FIRST_HOTTEST = 1e-3


@dataclasses.dataclass(frozen=True)
class Tempered(Kernel):
    """A kernel at several temperatures; see `tempered`.

    Its moves are those of the inner kernel at each temperature, the posterior's first, and then
    the exchanges of neighbours, from the posterior's down; the prior is drawn from and needs no
    move. What is tuned of an exchange is the hotter of its two inverse temperatures.
    """

    inner: Kernel | None = None
    num_temperatures: int = 2
    schedule: tuple[float, ...] | None = None
    steps_per_swap: int = 1

    @property
    def name(self) -> str:
        return "tempered"

    @property
    def kernel(self) -> Kernel:
        assert self.inner is not None
        return self.inner

    @property
    def moves(self) -> tuple[Kernel, ...]:
        gaps = self.num_temperatures - 1
        return (*self.kernel.moves * gaps, *(_SWAP,) * gaps)

    @property
    def is_composable(self) -> bool:
        return False

    @property
    def anneals(self) -> bool:
        return False

    @property
    def ladder(self) -> Ladder:
        return Ladder(self.kernel, self.first_schedule, is_fixed=self.schedule is not None)

    @property
    def why_warmup(self) -> str | None:
        if self.schedule is not None:
            return None
        return (
            "the schedule is found in warm-up. Use e.g. num_warmup=2000, or "
            "tc.tempered(..., schedule=(1, ..., 0))."
        )

    @property
    def numbers_per_draw(self) -> int:
        return 3 * self.num_temperatures

    def kept_of(self, state: TemperedState) -> dict[str, Array]:
        return state.recorded()

    def settings(self) -> dict[str, Any]:
        return {"schedule": "adapt" if self.schedule is None else list(self.schedule)}

    @property
    def _reference_option(self) -> tuple[str, ...]:
        """No reference of its own; the inner kernel may have one."""
        return ()

    @property
    def first_schedule(self) -> tuple[float, ...]:
        """Inverse temperatures from 1 to 0 to begin with: those given, or a geometric sequence."""
        if self.schedule is not None:
            return self.schedule
        return (*np.geomspace(1.0, _FIRST_HOTTEST, self.num_temperatures - 1).tolist(), 0.0)

    def using(self, **options: Any) -> Kernel:
        if not options:
            return self
        raise UserTypeError(
            f"tempered has no options to fix, got {', '.join(options)}; fix them in the kernel "
            "inside: tc.tempered(tc.hmc.using(num_kicks=20), ...)."
        )

    def tuning(self, step_size: Any) -> tuple[Tuning, ...]:
        """What a step size says about each of `moves`.

        It is one step size as the inner kernel takes it, for all temperatures, or one for each
        along the first axis: the posterior's first, and without the prior.
        """
        gaps = self.num_temperatures - 1
        num_sized = sum(move.rule is not None for move in self.kernel.moves)
        own_axes = 1 if num_sized > 1 else 0
        if num_sized == 0 or np.ndim(step_size) <= own_axes:
            each = [step_size] * gaps
        elif len(step_size) == gaps:
            each = list(step_size)
        else:
            raise UserValueError(
                f"tempered with {self.num_temperatures} temperatures needs one step size, or "
                f"{gaps}, one for each temperature but the prior's; got {len(step_size)}."
            )
        moves = [tuning for size in each for tuning in self.kernel.tuning(size)]
        for number, tuning in enumerate(moves):
            if "num_kicks" in tuning:
                coldest = moves[number % len(self.kernel.moves)]
                moves[number] = tuning | {"num_kicks": kicks_of(coldest["step_size"])}
        return (*moves, *({"inverse_temperature": t} for t in self.first_schedule[1:]))

    @property
    def first_step_size(self) -> Any:
        return self.kernel.first_step_size

    def check_step_size(self, step_size: Any) -> None:
        self.tuning(step_size)

    def assemble(self, posterior: Any, tuning: Sequence[Tuning]) -> Any:
        if not hasattr(posterior, "tempered"):
            raise UserTypeError(
                f"tempered needs a tc.Posterior, whose likelihood it can raise to a power; got "
                f"{type(posterior).__name__}."
            )
        gaps = self.num_temperatures - 1
        num_moves = len(self.kernel.moves)
        by_temperature = [tuple(tuning[k * num_moves : (k + 1) * num_moves]) for k in range(gaps)]
        hotter = [swap["inverse_temperature"] for swap in tuning[gaps * num_moves :]]
        return _algorithm(
            self.kernel,
            posterior,
            jax.tree.map(
                lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *by_temperature
            ),
            jnp.stack([jnp.asarray(t, dtype=float) for t in (1.0, *hotter)]),
            self.steps_per_swap,
        )


def _algorithm(
    kernel: Kernel,
    posterior: Any,
    tuning: Any,
    t: Float[Array, " temperatures"],
    steps_per_swap: int,
) -> Any:
    """The algorithm for inverse temperatures t_0 = 1 > ... > t_K = 0.

    `tuning` has a leading axis over all of them but the last.
    """
    at_posterior = jax.tree.map(lambda leaf: leaf[0], tuning)
    # What a reference adds to a log-likelihood takes digits from it, so states are made without.
    has_reference = any(move.reference is not None for move in kernel.moves)
    raw = _without_reference(kernel).assemble(posterior, at_posterior)

    def begun(position: Array, key: Any = None) -> Any:
        """A replica at a position."""
        state = raw.init(position, key)
        return state if _is_ours(state) else State(position, posterior.log_likelihood(position))

    def init(position: Float[Array, " z"], rng_key: Key[Array, ""] | None = None) -> TemperedState:
        return together(begun(position, rng_key), t.size)

    def explore(t: Array, tuning: Any, key: Array, replica: Any) -> tuple[Any, Any]:
        """Steps of the kernel at one temperature, and their counts."""
        algorithm = _at_power(kernel, t).assemble(posterior.tempered(t), tuning)
        part = Part(algorithm, kernel.keeps_any_state)
        key_steps, key_entry = jax.random.split(key)

        def step(number: Array, carry: Any) -> Any:
            state, counts = carry
            state, info = algorithm.step(jax.random.fold_in(key_steps, number), state)
            return state, jax.tree.map(lambda old, new: old + new, counts, moves_of(info))

        entered = part.entered(_times(t, replica), key_entry)
        shapes = jax.eval_shape(lambda s: moves_of(algorithm.step(key, s)[1]), entered)
        none = jax.tree.map(_zeros_to_count, shapes)
        end, counts = jax.lax.fori_loop(0, steps_per_swap, step, (entered, none))
        if _is_ours(end) and not has_reference:
            left = _times(1 / t, end)
            # Multiplying by t and dividing by it changes the last digit, so a log-likelihood that
            # did not change keeps the value it had.
            is_same = end.log_likelihood == entered.log_likelihood
            kept = jnp.where(is_same, replica.log_likelihood, left.log_likelihood)
            left = left._replace(log_likelihood=kept)
        else:
            left = begun(end.position, key_entry)
        moved = (counts[0].is_accepted > 0).any()
        return jax.tree.map(lambda new, old: jnp.where(moved, new, old), left, replica), counts

    def from_prior(key: Array, like: Array) -> Any:
        """An independent draw of the prior; where the likelihood fails it has l = -inf."""
        state = begun(standard_normal(key, like), key)
        log_likelihood = jnp.where(_is_finite(state), state.log_likelihood, -jnp.inf)
        return state._replace(log_likelihood=log_likelihood)

    def step(
        rng_key: Key[Array, ""], state: TemperedState
    ) -> tuple[TemperedState, CompositionInfo]:
        key_explore, key_prior, key_swap = jax.random.split(rng_key, 3)
        warm = jax.tree.map(lambda leaf: leaf[:-1], state.replicas)
        keys = jax.random.split(key_explore, t.size - 1)
        explored, (moves, tried) = jax.vmap(explore)(t[:-1], tuning, keys, warm)
        fresh = from_prior(key_prior, state.position)
        replicas = jax.tree.map(
            lambda some, one: jnp.concatenate([some, one[None]]), explored, fresh
        )
        state, swaps, swapped = swap(key_swap, t, state._replace(replicas=replicas))
        return state, _info(moves, tried, swaps, swapped)

    return sampling_algorithm(init, step)


_SWAP = Kernel(swap)


def _info(moves: MetropolisInfo, tried: Array, swaps: MetropolisInfo, swapped: Array) -> Any:
    """Counts of all moves in the order of `Tempered.moves`; the acceptance of the posterior's."""

    def joined(of_moves: Array, of_swaps: Array) -> Array:
        return jnp.concatenate([of_moves.ravel(), of_swaps.astype(of_moves.dtype)])

    rate = jnp.sum(moves.acceptance_rate[0]) / jnp.maximum(jnp.sum(tried[0]), 1)
    return CompositionInfo(
        rate,
        (moves.is_accepted[0] > 0).any(),
        (moves.is_nonfinite > 0).any(),
        jax.tree.map(joined, moves, swaps),
        joined(tried, swapped),
    )


def _with_references(kernel: Kernel, change: Callable[[Any], Any]) -> Kernel:
    """The kernel with the reference of every part changed; None for none."""
    if isinstance(kernel, Composition):
        parts = tuple(_with_references(part, change) for part in kernel.parts)
        return dataclasses.replace(kernel, parts=parts)
    if kernel.reference is None:
        return kernel
    options = dict(kernel.options) | {"reference": change(kernel.reference)}
    return dataclasses.replace(kernel, options=tuple(sorted(options.items())))


def _at_power(kernel: Kernel, t: Array) -> Kernel:
    """The kernel with its references as they would be for the likelihood to the power t."""
    return _with_references(kernel, lambda reference: reference.tempered(t))


def _without_reference(kernel: Kernel) -> Kernel:
    return _with_references(kernel, lambda _: None)


def _zeros_to_count(like: Any) -> Array:
    """Zeros to add to: truth values are counted."""
    is_float = jnp.issubdtype(like.dtype, jnp.floating)
    return jnp.zeros(like.shape, like.dtype if is_float else jnp.int32)


def _is_ours(state: Any) -> bool:
    return isinstance(state, (State, GradientState))


def _times(t: Any, state: Any) -> Any:
    """A state of l as one of t l."""
    scaled = state._replace(log_likelihood=t * state.log_likelihood)
    return scaled._replace(gradient=t * state.gradient) if hasattr(state, "gradient") else scaled


def _is_finite(state: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state)]).all()


@no_type_check
def tempered(
    kernel: KernelFactory,
    *,
    num_temperatures: int | None = None,
    schedule: Sequence[float | int] | None = None,
    steps_per_swap: int = 1,
) -> Tempered:
    r"""`kernel` at `num_temperatures` (10) powers of the likelihood, between prior and posterior.

        mu_t(dz) = exp(t l(z)) N(0, I)(dz) / Z_t,   1 = t_0 > t_1 > ... > t_K = 0

    One step is made of `steps_per_swap` steps of the kernel at each t > 0, with a step size of its
    own, an independent draw at t = 0, where mu_0 is the prior, and an exchange of neighbours
    (`swap`). All measures have densities with respect to the prior, so this is as well defined for
    functions as the kernel itself. Where the kernel cannot cross from one mode to another, replicas
    go around by way of the prior.

    In `tc.sample` a chain is such a group of replicas. Warm-up moves the powers until all
    neighbours are refused equally often; `schedule` fixes them instead, e.g. (1, 0.3, 0.1, 0).
    `run.tempering` has the schedule, the communication barrier (the sum of these refusals: use
    about twice as many temperatures) and the round trips; `run.evidence` has the evidence. Chains
    are spread over devices; the replicas of one chain are not.

    Parameters
    ----------
    kernel : Kernel or callable
        What moves the replicas. `tc.hmc` has trajectories of at most 40 kicks here, unless
        `tc.hmc.using(num_kicks=...)` says otherwise.
    num_temperatures : int, optional
        How many powers, the posterior's and the prior's included. None: 10, or those of `schedule`.
    schedule : sequence of floats, optional
        The powers, falling from 1 to 0. None: they are found in warm-up.
    steps_per_swap : int
        Steps of the kernel between two exchanges.

    >>> import traceclass as tc
    >>> tc.tempered(tc.pcn, num_temperatures=3).first_schedule
    (1.0, 0.001, 0.0)
    """
    inner = as_kernel(kernel)
    if not inner.is_composable:
        raise UserTypeError("tempered cannot be put inside tempered; ask for more temperatures.")
    if any(move.adapts_reference for move in inner.moves):
        raise UserTypeError(
            'tempered does not find references in warm-up: reference="adapt" would have to find '
            "one for each temperature. Give one, e.g. tc.laplace(posterior), or none."
        )
    if schedule is not None:
        schedule = _checked_schedule(schedule)
        if num_temperatures not in (None, len(schedule)):
            raise UserValueError(
                f"num_temperatures is {num_temperatures}, but schedule has {len(schedule)}; give "
                "one of them."
            )
        num_temperatures = len(schedule)
    why = "It goes from the posterior to the prior, which are two."
    return Tempered(
        build=tempered,
        thin=inner.thin,
        inner=inner,
        num_temperatures=require_count(
            _DEFAULT if num_temperatures is None else num_temperatures, "num_temperatures", why, 2
        ),
        schedule=schedule,
        steps_per_swap=require_count(steps_per_swap, "steps_per_swap", "Replicas have to move."),
    )


@no_type_check
def _checked_schedule(schedule: Sequence[float | int]) -> tuple[float, ...]:
    given = as_doubles(schedule, "schedule")
    is_falling = given.ndim == 1 and given.size >= 2 and bool((np.diff(given) < 0).all())
    if not (is_falling and given[0] == 1 and given[-1] == 0):
        raise UserValueError(
            f"schedule must fall from 1 (the posterior) to 0 (the prior), got {schedule}. Use e.g. "
            "(1, 0.3, 0.1, 0), or leave it out to have it found in warm-up."
        )
    return tuple(given.tolist())


def kicks_of(step_size: Any) -> Any:
    """Kicks of every trajectory, for a step size at the posterior."""
    if isinstance(step_size, Tracer):
        kicks = jnp.round(_TURN / step_size)
        return jnp.clip(kicks, _FEWEST_KICKS, _MOST_KICKS).astype(jnp.int32)
    return int(np.clip(round(_TURN / float(step_size)), _FEWEST_KICKS, _MOST_KICKS))


def largest_step_size(move: Kernel, num_kicks: int) -> float:
    """Where adaptation ends: a trajectory makes at most a quarter turn, which forgets the prior."""
    assert move.tuned_by is not None
    return move.tuned_by.largest / (num_kicks if move.kicks is not None else 1)
