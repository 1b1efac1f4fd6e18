"""Compilation as users have it, for the tests that depend on it.

`make test` has XLA compile in a hurry (QUICK_TO_COMPILE in the Makefile): the operations are the
same, their rounding need not be. What is held to the last digits, bit for bit or to a time is
compiled with these options, or runs in a process with empty XLA_FLAGS.
"""

from __future__ import annotations

# XLA's own defaults, for `jax.jit(..., compiler_options=OPTIONS)`.
OPTIONS = {"xla_backend_optimization_level": 3, "xla_cpu_max_isa": ""}
