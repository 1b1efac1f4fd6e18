"""How objects show themselves: a line or a few in a terminal, a small table in a notebook."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.core import Tracer

# A tuple with more entries is counted, not listed.
_LONGEST_TUPLE = 8
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DTYPE = re.compile(r"\b(?:float|int|uint)\d+(?=\[)")


def fields_of(module: Any) -> dict[str, str]:
    """The fields of a dataclass in words, without those that are None."""
    named = {field.name: getattr(module, field.name) for field in dataclasses.fields(module)}
    return {name: in_words(value) for name, value in named.items() if value is not None}


def in_words(value: Any) -> str:
    """A value on a part of a line: arrays by dtype and shape, functions by name."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, (float, np.floating)):
        return f"{value:g}"
    if isinstance(value, tuple):
        if len(value) > _LONGEST_TUPLE:
            return f"({in_words(value[0])}, ... {len(value)} in all)"
        return f"({', '.join(map(in_words, value))}{',' if len(value) == 1 else ''})"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if np.shape(value) == () and not isinstance(value, Tracer):
            return f"{float(value):g}"
        return f"{value.dtype}{list(np.shape(value))}"
    if dataclasses.is_dataclass(value):
        return repr(value)
    return getattr(value, "__name__", None) or repr(value)


def without_address(text: str) -> str:
    """`text` without the places in memory that Python prints, which differ from run to run."""
    return _ADDRESS.sub("", text)


def lasting(text: str) -> str:
    """`text` without what differs between processes: places in memory, and the precision."""
    return _DTYPE.sub("numbers", without_address(text))


def one_line(title: str, words: Mapping[str, str]) -> str:
    """`Title(name=value, ...)`."""
    return f"{title}({', '.join(f'{name}={value}' for name, value in words.items())})"


def as_table(title: str, words: Mapping[str, str]) -> str:
    """An HTML table of two columns, everything in it escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in words.items()
    )
    caption = f"<caption style='text-align:left'><b>{html.escape(title)}</b></caption>"
    return f"<table>{caption}{rows}</table>"
