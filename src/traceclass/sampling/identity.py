"""What a run is: everything its draws depend on, so that a resumed run is known to be the same.

Functions cannot be stored, but what they compute can be compared: they are traced, and the
program (a jaxpr) and the arrays it holds are hashed apart. So a changed line of a user's
likelihood is seen, and so is one changed number of the data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.posterior import Posterior
from traceclass.sampling.chunk import traced
from traceclass.sampling.files import FORMAT, READABLE
from traceclass.sampling.settings import Settings

Identity = dict[str, Any]

_FORMAT = "library format"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Enough digits that two runs do not share them by chance, few enough to read.
_DIGITS = 16


def identity_of(posterior: Posterior, settings: Settings) -> Identity:
    """One plain value for each thing that the draws depend on, by a name a person understands."""
    kernel = settings.kernel
    # A tempered posterior is what the compiled program runs on, also at temperature one.
    target = posterior.tempered(1.0)
    dtype = jnp.zeros(()).dtype
    z = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), dtype)
    key = jax.eval_shape(lambda: jax.random.key(0))

    def step(key: Any, z: Any, tuning: Any) -> Any:
        algorithm = kernel.assemble(target, tuning)
        return algorithm.step(key, algorithm.init(z, key))[0]

    model, data = _digests(target.log_likelihood, z)
    references = [move.reference for move in kernel.moves if move.reference is not None]
    identity = {
        _FORMAT: FORMAT,
        "JAX version": jax.__version__,
        "precision": str(dtype),
        "kernel": kernel.name,
        **settings.plain(),
        "model": model,
        "data": data,
        "kernel's program": _digests(step, key, z, traced(settings.tuning))[0],
    }
    if references:
        leaves = b"".join(_bytes(np.asarray(leaf)) for leaf in jax.tree.leaves(references))
        identity["kernel's reference"] = _short(hashlib.sha256(leaves))
    if settings.initial_positions is not None:
        start = _bytes(settings.initial_positions)
        identity["initial positions"] = _short(hashlib.sha256(start))
    for kind, functionals in (("record", settings.record), ("moments", settings.moments)):
        for name, functional in functionals.items():
            identity[f"{kind} {name!r}"] = "-".join(_digests(functional, z))
    return identity


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What is not the same of a stored run and of this one, one phrase each, naming both.

    A run in an older format that can be read is not another run.
    """
    names = list(dict.fromkeys((*there, *here)))
    if there.get(_FORMAT) in READABLE:
        names.remove(_FORMAT)
    return [
        f"{name} {there.get(name, 'none')!s} there, {here.get(name, 'none')!s} here"
        for name in names
        if there.get(name) != here.get(name)
    ]


def _digests(function: Callable[..., Any], *arguments: Any) -> tuple[str, str]:
    """Digests of the program that a function is, and of the arrays it holds."""
    # Wrapped, because JAX compares what it traces and modules that hold arrays cannot be.
    traced = jax.make_jaxpr(lambda *given: function(*given))(*arguments)
    program, arrays = hashlib.sha256(), hashlib.sha256()
    _add(traced, program, arrays)
    return _short(program), _short(arrays)


def _add(traced: Any, program: Any, arrays: Any) -> None:
    """Take a jaxpr into the checksums: its equations, and the arrays it and those inside it hold.

    Not as JAX prints it: what it prints once and refers to depends on what is in its caches.
    """
    for constant in getattr(traced, "consts", ()):
        arrays.update(_bytes(np.asarray(constant)))
    jaxpr = getattr(traced, "jaxpr", traced)
    numbers: dict[Any, int] = {}

    def name(variable: Any) -> str:
        if hasattr(variable, "val"):  # a literal
            return f"{variable.aval} {np.asarray(variable.val).tolist()!r}"
        return f"{variable.aval} {numbers.setdefault(variable, len(numbers))}"

    def add(words: Any) -> None:
        program.update(f"{words}\n".encode())

    add([name(variable) for variable in (*jaxpr.constvars, *jaxpr.invars)])
    for equation in jaxpr.eqns:
        add(equation.primitive.name)
        add([name(variable) for variable in (*equation.invars, *equation.outvars)])
        for key, value in sorted(equation.params.items()):
            add(key)
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(part, "jaxpr") or hasattr(part, "eqns"):
                    _add(part, program, arrays)
                elif callable(part):
                    add(getattr(part, "__qualname__", type(part).__qualname__))
                elif hasattr(part, "dtype") and hasattr(part, "shape"):
                    arrays.update(_bytes(np.asarray(part)))
                else:
                    add(_ADDRESS.sub("", repr(part)))
    add([name(variable) for variable in jaxpr.outvars])


def _bytes(array: np.ndarray) -> bytes:
    return f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def _short(checksum: Any) -> str:
    return checksum.hexdigest()[:_DIGITS]
