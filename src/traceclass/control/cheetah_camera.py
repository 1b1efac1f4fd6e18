"""A program of its own: MuJoCo's pictures of postures, asked for on standard input.

    python -P cheetah_camera.py pictures.npy <<< '{"xml", "camera", "positions", "size"}'

OpenGL is chosen when `mujoco` is first imported, may say things of its own, and where it is half
installed may end the process: so it has one to itself, which imports nothing of traceclass.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import numpy as np


def photograph(asked: dict[str, Any]) -> np.ndarray:
    """Pictures (positions, height, width, 3) of the model at each of the positions."""
    mujoco: Any = importlib.import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(asked["xml"])
    data = mujoco.MjData(model)
    pictures = []
    with mujoco.Renderer(model, *asked["size"]) as renderer:
        for position in asked["positions"]:
            data.qpos[:] = position
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera=asked["camera"])
            pictures.append(renderer.render())
    return np.stack(pictures)


if __name__ == "__main__":
    np.save(sys.argv[1], photograph(json.load(sys.stdin)))
