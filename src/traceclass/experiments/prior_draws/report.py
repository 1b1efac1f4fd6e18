"""Page of `prior-draws`."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from traceclass.experiments.prior_draws.run import Results
from traceclass.experiments.prior_draws.settings import GALLERY_1D, GALLERY_2D, KL_ALPHAS, NETWORKS
from traceclass.report.chains import no_warnings
from traceclass.report.figures import figure, grid_of
from traceclass.report.page import Section, Stored, figures
from traceclass.report.tables import Column, Table, table

warnings = no_warnings


def sections(stored: Stored) -> list[Section]:
    """The paper's figures, and the galleries."""
    of_paper = figures(stored, kl=_draw_series, network=_draw_networks)
    galleries = figures(stored, curves=_draw_curves, gallery=_draw_gallery)
    return [
        Section("The paper's figures", [main_table(stored.results)], of_paper),
        Section("Galleries", [], galleries),
    ]


def main_table(results: Results) -> Table:
    """Amplitude and roughness of the paper's six panels."""
    columns = (
        Column("prior", "panel"),
        Column("amplitude", "amplitude", ".3g"),
        Column("roughness (rms slope / sd)", "roughness", ".3g"),
    )
    return table(results["panels"], columns)


def headline(results: Results) -> str:
    """The run in one sentence for the terminal."""
    return f"{len(results['panels'])} panels of the paper and two galleries drawn"


def _draw_series(path: Path, stored: Stored) -> None:
    """Fourier series with variances (k1^2 + k2^2)^-alpha (Fig. KL_prior): the larger alpha, the
    smoother. All panels use the same random numbers.
    """
    _draw_surfaces(path, stored.arrays["kl"], [f"alpha = {alpha:g}" for alpha in KL_ALPHAS])


def _draw_networks(path: Path, stored: Stored) -> None:
    """Trace-class networks of three hidden layers (Fig. NN_prior): the variance sets the amplitude,
    alpha how many nodes matter. The vertical axes differ.
    """
    titles = [f"alpha = {alpha:g}, variance = {v:g}" for alpha, v in NETWORKS]
    _draw_surfaces(path, stored.arrays["network"], titles)


def _draw_surfaces(path: Path, values: xr.DataArray, titles: list[str]) -> None:
    x1, x2 = np.meshgrid(values["x1"], values["x2"], indexing="ij")
    with figure(path, 10.5, 3.6) as canvas:
        for column, title in enumerate(titles):
            axes: Any = canvas.add_subplot(1, len(titles), column + 1, projection="3d")
            axes.plot_surface(x1, x2, values.values[column], cmap="viridis", linewidth=0)
            axes.set(title=title, xlabel="x1", ylabel="x2")
            axes.set_zlabel("v", labelpad=-2)
            axes.set_box_aspect(None, zoom=0.85)
            axes.tick_params(labelsize=7, pad=0)


def _draw_curves(path: Path, stored: Stored) -> None:
    """Functions of one input. Each row changes one setting; the others are alpha = 1.5, depth 3,
    variance 3 and tanh. Every panel has its own scale.
    """
    arrays = stored.arrays
    columns = max(len(values) for values in GALLERY_1D.values())
    with figure(path, 2.3 * columns, 1.8 * len(GALLERY_1D)) as canvas:
        grid = canvas.subplots(len(GALLERY_1D), columns, sharex=True)
        for row, (name, values) in zip(grid, GALLERY_1D.items(), strict=True):
            curves = arrays[f"curves_{name}"].values
            for axes, value, drawn in zip(row, values, curves, strict=False):
                axes.plot(arrays["x"], drawn.T, linewidth=0.9)
                axes.set_title(f"{name} {value if isinstance(value, str) else format(value, 'g')}")
            for axes in row[len(values) :]:
                axes.set_visible(False)
            row[0].set_ylabel("v(x)")
        for axes in grid[-1]:
            axes.set_xlabel("x")


def _draw_gallery(path: Path, stored: Stored) -> None:
    """Functions of two inputs over alpha (rows) and variance (columns)."""
    x1, x2, fields = (stored.arrays[name] for name in ("x1", "x2", "gallery_2d"))
    settings = list(product(GALLERY_2D["alpha"], GALLERY_2D["variance"]))
    columns, rows = (len(GALLERY_2D[name]) for name in ("variance", "alpha"))
    look: Any = {"xlabel": "x1", "ylabel": "x2", "sharex": True, "sharey": True}
    with figure(path, 2.7 * columns, 2.3 * rows) as canvas:
        grid = grid_of(canvas, len(settings), columns, **look)
        for axes, (alpha, v), values in zip(grid, settings, fields.values, strict=True):
            mesh = axes.pcolormesh(x1, x2, values.T, cmap="viridis", rasterized=True)
            canvas.colorbar(mesh, ax=axes)
            axes.set_title(f"alpha {alpha:g}, variance {v:g}")
