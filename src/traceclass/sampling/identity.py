"""What a run is: everything its draws depend on, so that a resumed run is known to be the same.

Functions cannot be stored, but what they compute can be compared: they are traced, and the
program (a jaxpr) and the arrays it holds are hashed apart. So a changed line of a user's
likelihood is seen, and so is one changed number of the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from traceclass.posterior import Posterior
from traceclass.representation import without_address
from traceclass.sampling.chunk import traced
from traceclass.sampling.files import FORMAT, READABLE
from traceclass.sampling.settings import Settings

Identity = dict[str, Any]

_FORMAT = "library format"
# Enough digits that two runs do not share them by chance, few enough to read.
_DIGITS = 16


def identity_of(posterior: Posterior, settings: Settings) -> Identity:
    """One plain value for each thing that the draws depend on, by a name a person understands."""
    kernel = settings.kernel
    target, z = _as_sampled(posterior)
    key = jax.eval_shape(lambda: jax.random.key(0))

    def step(key: Any, z: Any, tuning: Any) -> Any:
        algorithm = kernel.assemble(target, tuning)
        return algorithm.step(key, algorithm.init(z, key))[0]

    references = [move.reference for move in kernel.moves if move.reference is not None]
    identity = {
        _FORMAT: FORMAT,
        **_circumstances(),
        "kernel": kernel.name,
        **settings.plain(),
        **_model(posterior),
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


def _as_sampled(posterior: Posterior) -> tuple[Posterior, jax.ShapeDtypeStruct]:
    """What the compiled program runs on, a tempered posterior also at temperature one."""
    z = jax.ShapeDtypeStruct((posterior.prior.num_coordinates,), jnp.zeros(()).dtype)
    return posterior.tempered(1.0), z


def _circumstances() -> Identity:
    """What else the traced program depends on."""
    return {"JAX version": jax.__version__, "precision": str(jnp.zeros(()).dtype)}


def _model(posterior: Posterior) -> Identity:
    target, z = _as_sampled(posterior)
    model, data = _digests(target.log_likelihood, z)
    return {"model": model, "data": data}


def word_differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """What two posteriors say differently of themselves; nothing where one says nothing."""
    return [
        f"{name} is {there.get(name, 'none')} there, {here.get(name, 'none')} here"
        for name in dict.fromkeys((*there, *here))
        if there and here and there.get(name) != here.get(name)
    ]


def model_differences(
    there: Mapping[str, Any], words: Mapping[str, str], posterior: Posterior
) -> list[str]:
    """What is not the same of the posterior of a stored run and of this one, one phrase each.

    `there` is the run's identity, and `words` what it says of its posterior; older runs say
    nothing. What was traced by another version of JAX, or in another precision, cannot be compared,
    and the words alone decide.
    """
    unlike = word_differences(words, posterior.described())
    if unlike or any(there.get(name) != value for name, value in _circumstances().items()):
        return unlike
    meanings = {
        "model": "prior or likelihood compute something else",
        "data": "the data, or other numbers of the posterior, are not the same",
    }
    found = _model(posterior)
    return [text for name, text in meanings.items() if found[name] != there.get(name)][:1]


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
                    add(without_address(repr(part)))
    add([name(variable) for variable in jaxpr.outvars])


def _bytes(array: np.ndarray) -> bytes:
    return f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def _short(checksum: Any) -> str:
    return checksum.hexdigest()[:_DIGITS]
