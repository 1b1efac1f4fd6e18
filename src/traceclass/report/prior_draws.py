"""Figures of the prior-draws experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from traceclass.experiments.prior_draws import GALLERY_1D, GALLERY_2D, KL_ALPHAS, NETWORKS
from traceclass.report.figures import figure
from traceclass.report.page import Figure, Section, Table


def sections(
    directory: Path, results: dict[str, Any], trace: xr.DataTree | None, arrays: xr.Dataset
) -> list[Section]:
    """Draw every figure into `directory` and say what it shows."""
    del trace
    kl = [f"alpha = {alpha:g}" for alpha in KL_ALPHAS]
    networks = [f"alpha = {alpha:g}, variance = {v:g}" for alpha, v in NETWORKS]
    return [
        Section(
            "The paper's figures",
            [main_table(results)],
            [
                Figure(
                    _draw_surfaces(directory / "kl.png", arrays, "kl", kl),
                    "Fourier series with variances (k1^2 + k2^2)^-alpha (Fig. KL_prior): the "
                    "larger alpha, the smoother. All panels use the same random numbers.",
                ),
                Figure(
                    _draw_surfaces(directory / "network.png", arrays, "network", networks),
                    "Trace-class networks of three hidden layers (Fig. NN_prior): the variance "
                    "sets the amplitude, alpha how many nodes speak. Mind the vertical axes.",
                ),
            ],
        ),
        Section(
            "Galleries",
            [],
            [
                Figure(
                    _draw_curves(directory / "curves.png", arrays),
                    "Functions of one input: one setting changed a row, alpha = 1.5, depth 3, "
                    "variance 3 and tanh otherwise; a column scale each.",
                ),
                Figure(
                    _draw_gallery(directory / "gallery.png", arrays),
                    "Functions of two inputs over alpha (rows) and variance (columns).",
                ),
            ],
        ),
    ]


def main_table(results: dict[str, Any]) -> Table:
    """Amplitude and roughness of the paper's six panels."""
    rows = [
        (panel["panel"], f"{panel['amplitude']:.3g}", f"{panel['roughness']:.3g}")
        for panel in results["panels"]
    ]
    return Table(("prior", "amplitude", "roughness (rms slope / sd)"), rows)


def headline(results: dict[str, Any]) -> str:
    """The run in one sentence for the terminal."""
    return f"{len(results['panels'])} panels of the paper and two galleries drawn"


def _draw_surfaces(path: Path, arrays: xr.Dataset, name: str, titles: list[str]) -> Path:
    x1, x2 = np.meshgrid(arrays["x1"], arrays["x2"], indexing="ij")
    with figure(path, 10.5, 3.6) as canvas:
        for column, title in enumerate(titles):
            axes: Any = canvas.add_subplot(1, len(titles), column + 1, projection="3d")
            axes.plot_surface(
                x1, x2, arrays[name].values[column], cmap="viridis", linewidth=0, antialiased=True
            )
            axes.set(title=title, xlabel="x1", ylabel="x2")
            axes.set_zlabel("v", labelpad=-2)
            axes.set_box_aspect(None, zoom=0.85)
            axes.tick_params(labelsize=7, pad=0)
    return path


def _draw_curves(path: Path, arrays: xr.Dataset) -> Path:
    columns = max(len(values) for values in GALLERY_1D.values())
    with figure(path, 2.3 * columns, 1.8 * len(GALLERY_1D)) as canvas:
        grid = canvas.subplots(len(GALLERY_1D), columns, sharex=True)
        for row, (name, values) in enumerate(GALLERY_1D.items()):
            for column in range(columns):
                axes = grid[row, column]
                if column >= len(values):
                    axes.set_visible(False)
                    continue
                axes.plot(arrays["x"], arrays[f"curves_{name}"].values[column].T, linewidth=0.9)
                value = values[column]
                axes.set_title(f"{name} {value if isinstance(value, str) else format(value, 'g')}")
        for axes in grid[-1]:
            axes.set_xlabel("x")
        for axes in grid[:, 0]:
            axes.set_ylabel("v(x)")
    return path


def _draw_gallery(path: Path, arrays: xr.Dataset) -> Path:
    alphas, variances = GALLERY_2D["alpha"], GALLERY_2D["variance"]
    with figure(path, 2.7 * len(variances), 2.3 * len(alphas)) as canvas:
        grid = canvas.subplots(len(alphas), len(variances), sharex=True, sharey=True)
        for panel, axes in enumerate(grid.ravel()):
            values = arrays["gallery_2d"].values[panel]
            mesh = axes.pcolormesh(
                arrays["x1"], arrays["x2"], values.T, cmap="viridis", rasterized=True
            )
            canvas.colorbar(mesh, ax=axes)
            row, column = divmod(panel, len(variances))
            axes.set_title(f"alpha {alphas[row]:g}, variance {variances[column]:g}")
        for axes in grid[-1]:
            axes.set_xlabel("x1")
        for axes in grid[:, 0]:
            axes.set_ylabel("x2")
    return path
