r"""The body of the half cheetah as a table, and MuJoCo's model made of it.

Lengths and angles are those of Gymnasium's `HalfCheetah-v5`, all in the plane y = 0: a torso with
a head, and a back and a front leg of thigh, shin and foot, all capsules of one radius, 14 kg in
all. Masses are written out, shared by volume, where Gymnasium's file asks the compiler to scale
them (`settotalmass`), which MuJoCo is to drop.
"""

from __future__ import annotations

import math
from typing import NamedTuple

RADIUS = 0.046
TOTAL_MASS = 14.0
TIMESTEP = 0.01


class Limb(NamedTuple):
    """A capsule on a hinge: where it hangs on the limb before it, and how its joint is driven.

    `hinge` and `centre` are (x, z), the first in the frame of the limb before it, the second in
    its own; `angle` turns the capsule, which stands upright, about the y-axis.
    """

    name: str
    hinge: tuple[float, float]
    centre: tuple[float, float]
    angle: float
    half_length: float
    low: float
    high: float
    damping: float
    stiffness: float
    gear: float


LEGS = (
    (
        Limb("bthigh", (-0.5, 0), (0.1, -0.13), -3.8, 0.145, -0.52, 1.05, 6, 240, 120),
        Limb("bshin", (0.16, -0.25), (-0.14, -0.07), -2.03, 0.15, -0.785, 0.785, 4.5, 180, 90),
        Limb("bfoot", (-0.28, -0.14), (0.03, -0.097), -0.27, 0.094, -0.4, 0.785, 3, 120, 60),
    ),
    (
        Limb("fthigh", (0.5, 0), (-0.07, -0.12), 0.52, 0.133, -1, 0.7, 4.5, 180, 120),
        Limb("fshin", (-0.14, -0.24), (0.065, -0.09), -0.6, 0.106, -1.2, 0.87, 3, 120, 60),
        Limb("ffoot", (0.13, -0.18), (0.045, -0.07), -0.6, 0.07, -0.5, 0.5, 1.5, 60, 30),
    ),
)
# Torso and head: centre (x, z), angle, half length.
TRUNK = {"torso": ((0.0, 0.0), math.pi / 2, 0.5), "head": ((0.6, 0.1), 0.87, 0.15)}
LIMBS = (*LEGS[0], *LEGS[1])


def cheetah_xml(*, older_inertia: bool = False) -> str:
    """The model as MuJoCo reads it.

    `older_inertia` gives every capsule the mass and inertia of a cylinder that is half a radius
    longer at each end, as MuJoCo did when the paper's data were made.
    """
    masses = _masses(older_inertia)

    def geoms(name: str, centre: tuple[float, float], angle: float, half_length: float) -> str:
        place = f'pos="{centre[0]} 0 {centre[1]}" axisangle="0 1 0 {angle!r}"'
        size = f'size="{RADIUS} {half_length}"'
        if not older_inertia:
            return f'<geom name="{name}" class="limb" {place} {size} mass="{masses[name]!r}"/>'
        longer = f'size="{RADIUS} {half_length + RADIUS / 2}"'
        return (
            f'<geom name="{name}" class="limb" {place} {size} mass="0"/>'
            f'<geom class="weight" {place} {longer} mass="{masses[name]!r}"/>'
        )

    def leg(limbs: tuple[Limb, ...]) -> str:
        if not limbs:
            return ""
        limb, *rest = limbs
        return (
            f'<body name="{limb.name}" pos="{limb.hinge[0]} 0 {limb.hinge[1]}">'
            f'<joint name="{limb.name}" class="joint" range="{limb.low} {limb.high}" '
            f'damping="{limb.damping}" stiffness="{limb.stiffness}"/>'
            f"{geoms(limb.name, limb.centre, limb.angle, limb.half_length)}"
            f"{leg(tuple(rest))}</body>"
        )

    trunk = "".join(geoms(name, *shape) for name, shape in TRUNK.items())
    motors = "".join(
        f'<motor name="{limb.name}" joint="{limb.name}" gear="{limb.gear}" ctrlrange="-1 1" '
        'ctrllimited="true"/>'
        for limb in LIMBS
    )
    return _WORLD.format(
        timestep=TIMESTEP, trunk=trunk, legs="".join(map(leg, LEGS)), motors=motors
    )


def _masses(older_inertia: bool) -> dict[str, float]:
    """Shares of the whole mass by volume: of capsules, or of the lengthened cylinders."""
    ends = RADIUS if older_inertia else 4 * RADIUS / 3
    lengths = {name: 2 * shape[2] + ends for name, shape in TRUNK.items()}
    lengths |= {limb.name: 2 * limb.half_length + ends for limb in LIMBS}
    total = sum(lengths.values())
    return {name: TOTAL_MASS * length / total for name, length in lengths.items()}


_WORLD = """
<mujoco model="half cheetah">
  <compiler angle="radian" autolimits="false"/>
  <option timestep="{timestep}" gravity="0 0 -9.81"/>
  <default>
    <default class="limb">
      <geom type="capsule" contype="1" conaffinity="0" condim="3" friction="0.4 0.1 0.1"
            solref="0.02 1" solimp="0 0.8 0.01" rgba="0.85 0.55 0.25 1"/>
    </default>
    <default class="weight">
      <geom type="cylinder" contype="0" conaffinity="0" group="4" rgba="0 0 0 0"/>
    </default>
    <default class="joint">
      <joint type="hinge" axis="0 1 0" armature="0.1" limited="true" solreflimit="0.02 1"
             solimplimit="0 0.8 0.03"/>
    </default>
  </default>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.95 0.97 1" rgb2="0.7 0.8 0.9"
             width="64" height="64"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.82 0.84 0.86"
             rgb2="0.7 0.72 0.75" width="64" height="64"/>
    <material name="ground" texture="tiles" texuniform="true" texrepeat="1 1"/>
  </asset>
  <worldbody>
    <light directional="true" pos="0 0 3" dir="0.2 0.4 -1" diffuse="0.8 0.8 0.8"/>
    <geom name="floor" type="plane" size="40 40 40" material="ground" contype="1" conaffinity="1"
          condim="3" friction="0.4 0.1 0.1" solref="0.02 1" solimp="0 0.8 0.01"/>
    <body name="torso" pos="0 0 0.7">
      <camera name="track" mode="trackcom" pos="0 -3 0.3" xyaxes="1 0 0 0 0 1"/>
      <joint name="rootx" type="slide" axis="1 0 0"/>
      <joint name="rootz" type="slide" axis="0 0 1"/>
      <joint name="rooty" type="hinge" axis="0 1 0"/>
      {trunk}{legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>
"""
