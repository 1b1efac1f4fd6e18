"""What `cycle` and `mixture` share: several kernels as one, with states that stay consistent."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from traceclass.errors import UserTypeError, UserValueError
from traceclass.kernels.base import Kernel, KernelFactory, Tuning, as_kernel
from traceclass.kernels.parts import Part
from traceclass.kernels.states import Target
from traceclass.validation import no_type_check


@dataclasses.dataclass(frozen=True)
class Composition(Kernel):
    """Several kernels as one; `build(parts, **options)` says how. See `cycle` and `mixture`."""

    parts: tuple[Kernel, ...] = ()

    @property
    def name(self) -> str:
        return self.build.__name__.lstrip("_")

    @property
    def moves(self) -> tuple[Kernel, ...]:
        return tuple(move for part in self.parts for move in part.moves)

    @property
    def _reference_option(self) -> tuple[str, ...]:
        """No reference of its own; its parts may have references."""
        return ()

    def assemble(self, posterior: Target, tuning: Sequence[Tuning]) -> Any:
        built, done = [], 0
        for part in self.parts:
            own = tuning[done : done + len(part.moves)]
            built.append(Part(part.assemble(posterior, own), part.keeps_any_state))
            done += len(own)
        return self.build(tuple(built), **dict(self.options))

    def tuning(self, step_size: Any) -> tuple[Tuning, ...]:
        """What a step size says: one number, or a sequence of one per move that has a step size."""
        takers = [move.name for move in self.moves if move.rule is not None]
        given = list(step_size) if np.ndim(step_size) == 1 else [step_size]
        if takers and len(given) != len(takers):
            raise UserValueError(
                f"{self.name} of {len(takers)} kernels with a step size needs as many, in the "
                f"order {', '.join(takers)}; got {step_size}."
            )
        sizes = iter(given)
        tunings = []
        for move in self.moves:
            tunings.extend(move.tuning(next(sizes) if move.rule is not None else None))
        return tuple(tunings)

    def check_step_size(self, step_size: Any) -> None:
        self.tuning(step_size)


@no_type_check
def compose(build: Any, factories: Sequence[KernelFactory], **options: Any) -> Composition:
    """A composition of kernels, or an error that says what is wrong with them."""
    if not factories:
        raise UserValueError(f"{build.__name__.lstrip('_')} needs at least one kernel, got none.")
    parts = tuple(as_kernel(factory) for factory in factories)
    for part in parts:
        if not part.is_composable:
            name = build.__name__.lstrip("_")
            raise UserTypeError(
                f"{part.name} keeps replicas that {name} would lose; put it around: "
                f"tc.{part.name}(tc.{name}(...))."
            )
    return Composition(
        build,
        thin=min(part.thin for part in parts),
        keeps_any_state=all(part.keeps_any_state for part in parts),
        options=tuple(sorted(options.items())),
        parts=parts,
    )
