"""What a kernel is to `tc.sample`: a factory of BlackJAX algorithms that knows how it is tuned."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.reference import Reference, with_reference
from traceclass.kernels.states import Target
from traceclass.validation import no_type_check, shortened

# (posterior, step_size) -> blackjax.base.SamplingAlgorithm, a pair of functions init and step
KernelFactory = Callable[..., Any]
# What warm-up finds for one move: its step size, its number of kicks if it has them, and the
# reference that it moves by if that is adapted.
Tuning = dict[str, Any]
# The value of the option `reference` that asks for one to be found in warm-up.
ADAPT = "adapt"


class StepSizeRule(NamedTuple):
    """The acceptance rate to aim at, a step size to begin with, and the largest that makes sense.

    Without a target the step size must be given. `largest_by_reference` is where adaptation ends
    for a kernel that moves by a reference, if not at `largest`.
    """

    target: float | None
    first: float
    largest: float
    largest_by_reference: float | None = None


class Ladder(NamedTuple):
    """The temperatures of a kernel that runs another one at several of them.

    `kernel` runs at each inverse temperature of `first_schedule`, which falls from 1 to 0; warm-up
    moves those between, unless `is_fixed`.
    """

    kernel: Kernel
    first_schedule: tuple[float, ...]
    is_fixed: bool


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel factory, `kernel(posterior, step_size, **options) -> SamplingAlgorithm`.

    Besides building the algorithm it knows what `tc.sample` needs to run it unattended: how to
    tune its step size (`rule`; None for a kernel without one, which ignores what it is given),
    how many steps make a draw (`thin`), and for trajectories how many kicks to begin with
    (`kicks`, a function of the step size). `keeps_any_state` says that it moves whatever state
    it is given, gradient included, instead of asking for one of its own.

    `using` fixes options: `tc.hmc.using(num_kicks=20)`. All that do not look into the prior have
    `reference`, a Gaussian measure to move by in its place (see `tc.laplace`), or "adapt": then
    `tc.sample` looks for one in warm-up. Kernels of the same parts, and of the same
    reference object, are equal, so that runs with them share a compiled program. Any plain function
    (posterior, step_size) is a kernel too, if its step size is given.
    """

    build: KernelFactory
    rule: StepSizeRule | None = None
    thin: int = 10
    kicks: Callable[[Any], Any] | None = None
    keeps_any_state: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self):
        for attribute in ("__doc__", "__name__", "__module__"):
            value = getattr(self.build, attribute, None)
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "__wrapped__", self.build)

    @property
    def name(self) -> str:
        return self.build.__name__

    @property
    def moves(self) -> tuple[Kernel, ...]:
        """The elementary moves of which a step is made: this one alone."""
        return (self,)

    @property
    def reference(self) -> Any:
        """The Gaussian measure that it moves by, a `Reference`; None for the prior.

        None also where it is to be found in warm-up: it is then a part of what is tuned.
        """
        given = dict(self.options).get("reference")
        return None if given == ADAPT else given

    @property
    def adapts_reference(self) -> bool:
        """Whether the measure that it moves by is found in warm-up."""
        return dict(self.options).get("reference") == ADAPT

    @property
    def may_adapt_reference(self) -> bool:
        """Whether warm-up may look for a reference where it is needed, although none was asked for.

        So it is with trajectories, which know a short way by a reference, unless the user chose
        what they are moved by or how many kicks they have.
        """
        return (
            self.tunes_kicks
            and "reference" in self._own_options
            and "reference" not in dict(self.options)
        )

    @property
    def tuned_by(self) -> StepSizeRule | None:
        """The rule that adaptation follows."""
        is_by_prior = self.reference is None and not self.adapts_reference
        return self.rule if is_by_prior else self.rule_by_reference

    @property
    def rule_by_reference(self) -> StepSizeRule | None:
        """The rule that adaptation follows if the kernel moves by a reference."""
        rule = self.rule
        if rule is None or rule.largest_by_reference is None:
            return rule
        return rule._replace(largest=rule.largest_by_reference)

    @property
    def is_composable(self) -> bool:
        """Whether `cycle`, `mixture`, `tempered` and BlackJAX's SMC can have it as a part."""
        return True

    @property
    def anneals(self) -> bool:
        """Whether warm-up may temper the posterior after a hopeless start."""
        return True

    @property
    def ladder(self) -> Ladder | None:
        """The temperatures that warm-up has to place; None for a kernel without any."""
        return None

    @property
    def why_warmup(self) -> str | None:
        """Why it needs a warm-up even where its step sizes are given; None if it does not."""
        return None

    @property
    def numbers_per_draw(self) -> int:
        """How many numbers of four bytes `kept_of` keeps beside a draw."""
        return 0

    def kept_of(self, state: Any) -> dict[str, Array]:
        """What is kept of a state beside position and log-likelihood, by names with a slash."""
        del state
        return {}

    def settings(self) -> dict[str, Any]:
        """Plain values, by name, that belong to what a run is besides the program it computes."""
        return {}

    @property
    def _own_options(self) -> list[str]:
        return list(inspect.signature(self.build).parameters)[2:]

    @property
    def _reference_option(self) -> tuple[str, ...]:
        """Moves that look into the prior cannot have another measure in its place."""
        return () if self.keeps_any_state else ("reference",)

    @property
    def first_step_size(self) -> Any:
        """What adaptation begins from, as `tuning` takes it: one per move with a step size."""
        first = tuple(move.rule.first for move in self.moves if move.rule is not None)
        return first[0] if len(first) == 1 else first or None

    @property
    def tunes_kicks(self) -> bool:
        """Whether its number of kicks is found in warm-up: it has them, and none are fixed."""
        return self.kicks is not None and "num_kicks" not in dict(self.options)

    @no_type_check
    def __call__(
        self, posterior: Target | None = None, step_size: Any = None, **options: Any
    ) -> Any:
        if posterior is None or not hasattr(posterior, "log_likelihood"):
            raise UserTypeError(
                f"{self.name} is made for a posterior, got {shortened(posterior)}. Give it to "
                f"tc.sample by itself: tc.sample(posterior, tc.{self.name}). Options are fixed by "
                "using(...)."
            )
        kernel = self.using(**options)
        kernel.require_reference()
        return kernel.assemble(posterior, self.tuning(step_size))

    def require_reference(self) -> None:
        """Refuse to be run outside of `tc.sample` if a reference is still to be found."""
        if any(move.adapts_reference for move in self.moves):
            raise UserTypeError(
                f'{self.name} with reference="{ADAPT}" needs the warm-up of tc.sample, which finds '
                "the reference. Elsewhere give it one, e.g. tc.laplace(posterior), or none."
            )

    def using(self, **options: Any) -> Kernel:
        """The same kernel with these options fixed."""
        known = dict.fromkeys([*self._own_options, *self._reference_option])
        for name in options:
            if name not in known:
                has = ", ".join(known) or "none"
                raise UserTypeError(f"{self.name} has no option {name!r}; its options: {has}.")
        if options.get("reference") is not None:
            _check_reference(options["reference"])
        if options.get("reference") == ADAPT and self.rule is None:
            raise UserTypeError(
                f"{self.name} has nothing that warm-up tunes, and finds no reference; give it one, "
                "e.g. tc.laplace(posterior)."
            )
        fixed = dict(self.options) | options
        return dataclasses.replace(self, options=tuple(sorted(fixed.items())))

    def assemble(self, posterior: Target, tuning: Sequence[Tuning]) -> Any:
        """The algorithm, with what is tuned given for each of `moves`."""
        tuned = {"step_size": None} | tuning[0] | dict(self.options)
        tuned.pop("reference", None)
        reference = tuning[0].get("reference", self.reference)
        if reference is None:
            return self.build(posterior, **tuned)
        if "reference" in self._own_options:  # it has a shorter way than by coordinates
            return self.build(posterior, **tuned, reference=reference)
        return with_reference(lambda target: self.build(target, **tuned), posterior, reference)

    def tuning(self, step_size: Any) -> tuple[Tuning, ...]:
        """What a step size says about each of `moves`."""
        if self.rule is None:
            return ({},)
        self.check_step_size(step_size)
        if self.kicks is None or not self.tunes_kicks:
            return ({"step_size": step_size},)
        return ({"step_size": step_size, "num_kicks": self.kicks(step_size)},)

    def check_step_size(self, step_size: Any) -> None:
        """Refuse a step size outside (0, largest]; a traced one cannot be looked at."""
        if self.rule is None or isinstance(step_size, Tracer):
            return
        is_number = isinstance(step_size, (int, float)) or hasattr(step_size, "dtype")
        is_number = is_number and np.ndim(step_size) == 0
        if not (is_number and 0 < float(step_size) <= self.rule.largest):
            raise UserValueError(
                f"{self.name} needs a step size in (0, {self.rule.largest:g}], got "
                f'{step_size!r}. Use e.g. {self.rule.first:g}, or step_size="adapt" for all moves.'
            )


def _check_reference(reference: Any) -> None:
    if isinstance(reference, str) and reference == ADAPT:
        return
    if not isinstance(reference, Reference):
        is_word = isinstance(reference, str)
        raise UserTypeError(
            f"reference must be a tc.Reference, as tc.laplace(posterior) makes it, or "
            f'"{ADAPT}", to be found in warm-up; got '
            f"{shortened(reference) if is_word else type(reference).__name__}."
        )


def kernel(
    rule: StepSizeRule | None = None,
    *,
    thin: int = 10,
    kicks: Callable[[Any], Any] | None = None,
    keeps_any_state: bool = False,
) -> Callable[[KernelFactory], Kernel]:
    """Decorator that makes a `Kernel` of a function (posterior, step_size, **options)."""
    return lambda build: Kernel(build, rule, thin, kicks, keeps_any_state)


def as_kernel(factory: Any) -> Kernel:
    """`factory` itself if it is a `Kernel`; a plain (posterior, step_size) function as one."""
    if isinstance(factory, Kernel):
        return factory
    if isinstance(factory, functools.partial) and isinstance(factory.func, Kernel):
        if factory.args:
            raise UserTypeError(
                f"a kernel's posterior is given by tc.sample; pass {factory.func.name} by itself."
            )
        return factory.func.using(**factory.keywords)
    if not callable(factory) or not isinstance(factory, Hashable):
        raise UserTypeError(
            f"a kernel is tc.hmc, tc.pcn, ..., or a function (posterior, step_size) that returns a "
            f"BlackJAX algorithm; got {type(factory).__name__}. For BlackJAX's own write e.g. "
            "lambda posterior, step_size: blackjax.nuts(posterior.logdensity, step_size, metric)."
        )
    return _Foreign(factory, StepSizeRule(None, 0.1, math.inf))


class _Foreign(Kernel):
    """A user's function as a kernel: called with two arguments, whatever they are named."""

    @property
    def name(self) -> str:
        return getattr(self.build, "__name__", "kernel")

    @property
    def _reference_option(self) -> tuple[str, ...]:
        return ()

    def assemble(self, posterior: Target, tuning: Sequence[Tuning]) -> Any:
        return self.build(posterior, tuning[0]["step_size"])
