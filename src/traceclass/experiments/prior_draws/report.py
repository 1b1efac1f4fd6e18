"""Page of `prior-draws`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from traceclass.experiments.prior_draws.run import Results
from traceclass.experiments.prior_draws.settings import GALLERY_1D, GALLERY_2D, KL_ALPHAS, NETWORKS
from traceclass.report.chains import no_warnings
from traceclass.report.figures import figure
from traceclass.report.page import Figure, Section, figures
from traceclass.report.tables import Column, Table, table
from traceclass.run_directory.contents import Stored

warnings = no_warnings


def sections(stored: Stored) -> list[Section]:
    """The paper's figures, and the galleries."""
    arrays = stored.arrays
    kl = [f"alpha = {alpha:g}" for alpha in KL_ALPHAS]
    networks = [f"alpha = {alpha:g}, variance = {v:g}" for alpha, v in NETWORKS]
    of_paper = [
        Figure(
            "kl.png",
            "Fourier series with variances (k1^2 + k2^2)^-alpha (Fig. KL_prior): the larger alpha, "
            "the smoother. All panels use the same random numbers.",
            partial(_draw_surfaces, values=arrays["kl"], titles=kl),
        ),
        Figure(
            "network.png",
            "Trace-class networks of three hidden layers (Fig. NN_prior): the variance sets the "
            "amplitude, alpha how many nodes matter. The vertical axes differ.",
            partial(_draw_surfaces, values=arrays["network"], titles=networks),
        ),
    ]
    return [
        Section("The paper's figures", [main_table(stored.results)], of_paper),
        Section("Galleries", [], figures(stored, curves=_draw_curves, gallery=_draw_gallery)),
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


def _draw_surfaces(path: Path, values: xr.DataArray, titles: list[str]) -> None:
    x1, x2 = np.meshgrid(values["x1"], values["x2"], indexing="ij")
    with figure(path, 10.5, 3.6) as canvas:
        for column, title in enumerate(titles):
            axes: Any = canvas.add_subplot(1, len(titles), column + 1, projection="3d")
            axes.plot_surface(
                x1, x2, values.values[column], cmap="viridis", linewidth=0, antialiased=True
            )
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
    arrays = stored.arrays
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
