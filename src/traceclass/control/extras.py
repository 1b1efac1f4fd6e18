"""Packages that only some environments need, imported when these are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from traceclass.errors import UserError

_PACKAGES = ("mujoco", "gymnasium")


class MissingExtra(UserError, ModuleNotFoundError):  # noqa: N818 (named after what is missing)
    """A package of the extra `control` is not installed."""


def import_mujoco() -> tuple[ModuleType, ModuleType]:
    """The modules `mujoco` and `mujoco.rollout`."""
    return _import("mujoco"), _import("mujoco.rollout")


def import_gymnasium() -> ModuleType:
    """The module `gymnasium`."""
    return _import("gymnasium")


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A package that is there but lacks one of its own is another failure, told in its words.
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtra(
            f"the half cheetah and Gymnasium's environments need the package {error.name}, which "
            "is not installed: pip install 'gymnasium[mujoco]'.",
            name=error.name,
        ) from error
