"""Where the cheetah's limbs are in a state, and MuJoCo's own photographs of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from traceclass.control.cheetah_model import LEGS, RADIUS, TRUNK, cheetah_xml

_REST_HEIGHT = 0.7  # of the torso where its coordinate z is 0
_NUM_POSITIONS = 8  # of a state's 17 numbers, the rest being velocities
# The camera's picture in pixels, and the seconds that it may take to draw all of them.
_SIZE, _PATIENCE = (225, 180), 120


def capsule_ends(state: Any, distance: float = 0.0) -> dict[str, Float[np.ndarray, "2 2"]]:
    r"""Where the axis of every capsule begins and ends, as rows (x, z), x to the right.

        R(q) = ( cos q  sin q)      o' = o + R(q) hinge,   q' = q + joint,
               (-sin q  cos q)      o' + R(q') (centre -+ half_length (sin angle, cos angle))

    of a limb with frame (o', q') on one with (o, q): the y-axis points away from the reader, so
    that a positive pitch turns the head down. `state` is (z, pitch, six joints, velocities).
    """
    height, pitch, *joints = np.asarray(state, np.float64)[:_NUM_POSITIONS]
    torso = np.array([distance, _REST_HEIGHT + height])
    ends = {name: torso + _axis(*shape) @ _turn(pitch).T for name, shape in TRUNK.items()}
    for leg, angles in zip(LEGS, (joints[:3], joints[3:]), strict=True):
        origin, turned = torso, pitch
        for limb, angle in zip(leg, angles, strict=True):
            origin = origin + _turn(turned) @ np.asarray(limb.hinge)
            turned = turned + angle
            axis = _axis(limb.centre, limb.angle, limb.half_length)
            ends[limb.name] = origin + axis @ _turn(turned).T
    return ends


def _turn(angle: float) -> np.ndarray:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, sin], [-sin, cos]])


def _axis(centre: Sequence[float], angle: float, half_length: float) -> np.ndarray:
    along = half_length * np.array([np.sin(angle), np.cos(angle)])
    return np.asarray(centre) + np.stack([-along, along])


def outline(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """A capsule: two half circles about the ends of its axis."""
    heading = np.arctan2(*(end - begin)[::-1])
    half = np.linspace(-np.pi / 2, np.pi / 2, 12)
    angles = np.concatenate([heading + half, heading + np.pi + half])
    centres = np.repeat([end, begin], len(half), axis=0)
    return centres + RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def photographs(states: np.ndarray, ways: np.ndarray) -> np.ndarray | None:
    """MuJoCo's pictures (states, height, width, 3); None without MuJoCo or OpenGL."""
    positions = np.column_stack([ways, states[:, :_NUM_POSITIONS]])
    asked = {
        "xml": cheetah_xml(),
        "camera": "track",
        "positions": positions.tolist(),
        "size": _SIZE,
    }
    # Without a screen; elsewhere than on Linux MuJoCo needs no such word, and has no EGL.
    chosen = {"MUJOCO_GL": "egl"} if sys.platform == "linux" else {}
    program = Path(__file__).with_name("cheetah_camera.py")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pictures.npy"
        try:
            subprocess.run(  # noqa: S603
                [sys.executable, "-P", str(program), str(file)],
                input=json.dumps(asked),
                env=chosen | os.environ,
                cwd=directory,  # where MuJoCo leaves its log
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=True,
            )
            return np.load(file)
        except (subprocess.SubprocessError, OSError):
            return None
