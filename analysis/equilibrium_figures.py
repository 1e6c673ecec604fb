"""Picture of networks in equilibrium beside the invariant state: N times the difference of their tails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.drawing import (
    GREY,
    HANDLE,
    STYLES,
    draw_points,
    dress,
    label_every_size,
    line,
    name_series,
    short_names,
)
from analysis.rows import labels_of, name_of, rows_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = 10.5  # points
_PANELS = 2  # columns
#: Inches.
_WIDTH, _TITLE = 4.2, 3.4


def equilibrium_figure(compared: xr.Dataset, fits: xr.Dataset) -> Figure:
    """Draw N · (E S_ℓ^(N)/N − S_ℓ) against N, a panel per (d, lam, G) and a series per level.

    Points have standard errors; curves are the fits C + C₂/N; a star at the right is the exact limit where it
    is known. 0 would be no bias of order 1/N.

    Parameters
    ----------
    compared
        What `analysis.equilibrium.compare_equilibrium` returns.
    fits
        What `analysis.equilibrium_bias.fit_bias` makes of it.

    Raises
    ------
    ValueError
        Nothing to draw.
    """
    from matplotlib.figure import Figure

    places = [row for row in rows_of(fits) if row.n.item()]
    if not places:
        raise ValueError("fits must have a row with replicas, got none")
    columns = min(_PANELS, len(places))
    rows = math.ceil(len(places) / columns)
    figure = Figure(figsize=(_WIDTH * columns + 0.4, 3.3 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(places) :]:
        axes.axis("off")
    titles = short_names(map(name_of, places), _TITLE, _SIZE)
    labels: dict[str, Artist] = {}
    for axes, row in zip(grid.flat, places, strict=False):
        _panel(axes, compared.sel(labels_of(row)), row)
        axes.set_title(titles[name_of(row)], fontsize=_SIZE)
        labels |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    for axes in grid[:, 0]:
        axes.set_ylabel(r"$N\,(E\,S^{(N)}_\ell/N - S_\ell)$", fontsize=_SIZE)
    figure.legend(
        list(labels.values()),
        list(labels),
        loc="outside lower center",
        ncols=4,
        fontsize=_SIZE - 1,
        frameon=False,
        handlelength=HANDLE,
    )
    return figure


def _panel(axes: Axes, place: xr.Dataset, fit: xr.Dataset) -> None:
    place = place.isel(N=place.n.values > 0)
    N = place.N.values.astype(np.float64)
    end = 1.35 * N[-1]
    for level, style in zip(place.level.values, STYLES, strict=False):
        one, row = place.sel(level=level), fit.sel(quantity=f"S_{level}")
        draw_points(axes, N, one.scaled.values, one.scaled_stderr.values, style)
        name_series(axes, rf"$\ell = {level}$", style)
        used = place.N.values >= fit.attrs.get("least_N", 0)
        if not math.isnan(row.constant) and used.any():
            fine = np.geomspace(N[used][0], end, 60)
            curve = float(row.constant) + float(row.constant_next) / fine
            axes.plot(fine, curve, **line(style))
        if not math.isnan(row.constant_exact):
            axes.plot([end], [float(row.constant_exact)], marker="*", markersize=10, color=style[0], zorder=5)
    if not np.isnan(fit.constant_exact.values).all():
        axes.plot([], [], marker="*", markersize=10, linestyle="none", color=GREY, label="exact limit")
    axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set(xscale="log")
    label_every_size(axes, N)
    axes.set_xlabel("number of servers $N$", fontsize=_SIZE)
    dress(axes, _SIZE - 1)
