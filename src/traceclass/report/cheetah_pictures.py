"""Pictures of the cheetah's episodes: drawn from the table of its body, and taken by MuJoCo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from traceclass.control.cheetah_model import LEGS, RADIUS, TRUNK, cheetah_xml
from traceclass.experiments.cheetah import in_words
from traceclass.report.figures import BLUE, GREY, ORANGE, figure

_REST_HEIGHT = 0.7  # of the torso where its coordinate z is 0
_NUM_POSITIONS = 8  # of a state's 17 numbers, the rest being velocities
_FRONT = ("fthigh", "fshin", "ffoot")
# Metres of ground in one drawn picture, which its reach of 0.9 m about the torso's middle fits in.
_WINDOW = 2.0
# Metres below the ground for its strokes and the words; inches of a row of pictures.
_BELOW, _WIDTH = -0.38, 11.0
# The camera's picture in pixels, and the rows of it that are shown: it has more sky than needed.
_SIZE, _SHOWN = (225, 180), slice(40, 212)
_PATIENCE = 120


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


def films_of(arrays: xr.Dataset) -> list[str]:
    """At most four: the expert, the widest trace-class network, a series, and random actions."""
    names = [str(name) for name in arrays["film_name"].values]
    chosen = ["discretised expert", largest(names, "tcnn"), largest(names, "kl"), "random"]
    return [name for name in chosen if name in names]


def largest(names: Sequence[str], kind: str) -> str | None:
    """The prior of that kind with the largest size, if there is any."""
    sizes = {name: int(name.partition("-")[2]) for name in names if name.startswith(f"{kind}-")}
    return max(sizes, key=sizes.__getitem__) if sizes else None


def policy_in_words(name: str) -> str:
    """Of a film's or reference's name."""
    return "random actions" if name == "random" else name if " " in name else in_words(name)


def draw_strip(path: Path, arrays: xr.Dataset) -> Path:
    """A row a film, each picture a window on the ground that moves with the cheetah."""
    films = arrays.sel(film_name=films_of(arrays))
    num_films, num_pictures, _ = films["film"].shape
    postures = [[capsule_ends(state) for state in film] for film in films["film"].values]
    low, high = _BELOW, 0.1 + max(ends[:, 1].max() for p in _flat(postures) for ends in p.values())
    inches = _WIDTH / (_WINDOW * num_pictures)
    with figure(path, _WIDTH, num_films * (inches * (high - low) + 0.25)) as canvas:
        rows = canvas.subplots(num_films, 1, squeeze=False)[:, 0]
        for row, axes in enumerate(rows):
            film = films.isel(film_name=row)
            for number, posture in enumerate(postures[row]):
                _draw_posture(axes, posture, film.isel(picture=number), _WINDOW * number)
            right = _WINDOW * (num_pictures - 0.5)
            axes.set(xlim=(-_WINDOW / 2, right), ylim=(low, high), aspect="equal")
            axes.set_title(policy_in_words(str(film["film_name"].values)), loc="left", pad=1)
            axes.set_axis_off()
    return path


def _flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [item for row in rows for item in row]


def _draw_posture(
    axes: Axes, posture: Mapping[str, np.ndarray], picture: xr.Dataset, middle: float
) -> None:
    """The cheetah about `middle`, over ground with a stroke every metre of its way."""
    way = float(picture["film_distance"])
    place = np.array([middle, 0.0])
    outlines = [_outline(*(ends + place)) for ends in posture.values()]
    colours = [ORANGE if n in _FRONT else GREY if n in TRUNK else BLUE for n in posture]
    reach = 0.47 * _WINDOW
    axes.plot([middle - reach, middle + reach], [0, 0], color="black", linewidth=0.8)
    metres = np.arange(np.ceil(way - reach), way + reach)
    axes.vlines(metres - way + middle, -0.09, 0, color="black", linewidth=0.8)
    axes.add_collection(PolyCollection(outlines, facecolors=colours, edgecolors="white", lw=0.4))
    label = f"step {int(picture['picture_step'])}, {way:z.1f} m"
    axes.text(middle, -0.13, label, ha="center", va="top", fontsize=7)


def _outline(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """A capsule: two half circles about the ends of its axis."""
    heading = np.arctan2(*(end - begin)[::-1])
    half = np.linspace(-np.pi / 2, np.pi / 2, 12)
    angles = np.concatenate([heading + half, heading + np.pi + half])
    centres = np.repeat([end, begin], len(half), axis=0)
    return centres + RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def draw_photographs(path: Path, arrays: xr.Dataset) -> Path | None:
    """The same rows as MuJoCo's camera sees them; None where it has no way of drawing."""
    films = arrays.sel(film_name=films_of(arrays))
    states, ways = films["film"].values, films["film_distance"].values
    pictures = photographs(states.reshape(-1, states.shape[-1]), ways.ravel())
    if pictures is None:
        path.unlink(missing_ok=True)  # of an earlier report, which this one is to replace
        return None
    rows = pictures[:, _SHOWN].reshape(*ways.shape, -1, *pictures.shape[2:])
    inches = _WIDTH / (rows.shape[1] * rows.shape[3])
    with figure(path, _WIDTH, len(rows) * (inches * rows.shape[2] + 0.25)) as canvas:
        grid = canvas.subplots(len(rows), 1, squeeze=False)[:, 0]
        for axes, name, row in zip(grid, films["film_name"].values, rows, strict=True):
            framed = np.pad(row, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=255)
            axes.imshow(np.concatenate(framed, axis=1))
            axes.set_title(policy_in_words(str(name)), loc="left", pad=2)
            axes.set_axis_off()
    return path


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
