"""Episodes of the cheetah as rows of pictures: drawn from its limbs, and taken by MuJoCo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from traceclass.control.cheetah_model import TRUNK
from traceclass.control.cheetah_postures import capsule_ends, outline, photographs
from traceclass.experiments.cheetah import in_words
from traceclass.report.figures import BLUE, GREY, ORANGE, figure
from traceclass.report.page import LeftOut, Stored

_FRONT = ("fthigh", "fshin", "ffoot")
# Metres of ground in one drawn picture, which its reach of 0.9 m about the torso's middle fits in.
_WINDOW = 2.0
# Metres below the ground for its strokes and the words; inches of a row of pictures.
_BELOW, _WIDTH = -0.38, 11.0
# The rows of MuJoCo's pictures that are shown: they have more sky than needed.
_SHOWN = slice(40, 212)


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
    """A film or a reference policy by its name in words."""
    return "random actions" if name == "random" else name if " " in name else in_words(name)


def draw_strip(path: Path, stored: Stored) -> None:
    """One episode of each policy from the same start, drawn from the stored states: torso and head
    grey, the hind leg blue, the front leg orange; strokes are metres.
    """
    films = stored.arrays.sel(film_name=films_of(stored.arrays))
    num_films, num_pictures, _ = films["film"].shape
    postures = [[capsule_ends(state) for state in film] for film in films["film"].values]
    tops = [ends[:, 1].max() for row in postures for p in row for ends in p.values()]
    low, high = _BELOW, 0.1 + max(tops)
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


def _draw_posture(
    axes: Axes, posture: Mapping[str, np.ndarray], picture: xr.Dataset, middle: float
) -> None:
    """The cheetah about `middle`, over a window on the ground with a stroke every metre."""
    way = float(picture["film_distance"])
    place = np.array([middle, 0.0])
    outlines = [outline(*(ends + place)) for ends in posture.values()]
    colours = [ORANGE if n in _FRONT else GREY if n in TRUNK else BLUE for n in posture]
    reach = 0.47 * _WINDOW
    axes.plot([middle - reach, middle + reach], [0, 0], color="black", linewidth=0.8)
    metres = np.arange(np.ceil(way - reach), way + reach)
    axes.vlines(metres - way + middle, -0.09, 0, color="black", linewidth=0.8)
    axes.add_collection(PolyCollection(outlines, facecolors=colours, edgecolors="white", lw=0.4))
    label = f"step {int(picture['picture_step'])}, {way:z.1f} m"
    axes.text(middle, -0.13, label, ha="center", va="top", fontsize=7)


def draw_photographs(path: Path, stored: Stored) -> None:
    """The same pictures as MuJoCo draws them."""
    films = stored.arrays.sel(film_name=films_of(stored.arrays))
    states, ways = films["film"].values, films["film_distance"].values
    pictures = photographs(states.reshape(-1, states.shape[-1]), ways.ravel())
    if pictures is None:
        raise LeftOut("MuJoCo's own pictures are left out: it cannot draw on this machine.")
    rows = pictures[:, _SHOWN].reshape(*ways.shape, -1, *pictures.shape[2:])
    inches = _WIDTH / (rows.shape[1] * rows.shape[3])
    with figure(path, _WIDTH, len(rows) * (inches * rows.shape[2] + 0.25)) as canvas:
        grid = canvas.subplots(len(rows), 1, squeeze=False)[:, 0]
        for axes, name, row in zip(grid, films["film_name"].values, rows, strict=True):
            framed = np.pad(row, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=255)
            axes.imshow(np.concatenate(framed, axis=1))
            axes.set_title(policy_in_words(str(name)), loc="left", pad=2)
            axes.set_axis_off()
