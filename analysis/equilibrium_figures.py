"""Picture of networks in equilibrium beside the invariant state: tails, and N times their difference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.figures import STYLES

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = 10.5  # points
_GREY = "#555555"
_PANELS = 2  # columns


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

    shape = (fits.sizes["d"], fits.sizes["lam"], fits.sizes["G"])
    places = [place for place in np.ndindex(shape) if fits.n.values[place] > 0]
    if not places:
        raise ValueError("fits must have a row with replicas, got none")
    columns = min(_PANELS, len(places))
    rows = math.ceil(len(places) / columns)
    figure = Figure(figsize=(4.2 * columns + 0.4, 3.3 * rows + 0.9), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(places) :]:
        axes.axis("off")
    for axes, (i, j, k) in zip(grid.flat, places, strict=False):
        _panel(axes, compared.isel(d=i, lam=j, G=k), fits.isel(d=i, lam=j, G=k))
    for axes in grid[:, 0]:
        axes.set_ylabel(r"$N\,(E\,S^{(N)}_\ell/N - S_\ell)$", fontsize=_SIZE)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=4,
        fontsize=_SIZE - 1,
        frameon=False,
        handlelength=3.2,
    )
    return figure


def _panel(axes: Axes, place: xr.Dataset, fit: xr.Dataset) -> None:
    place = place.isel(N=place.n.values > 0)
    N = place.N.values.astype(np.float64)
    end = 1.35 * N[-1]
    for level, (colour, marker, dashes) in zip(place.level.values, STYLES, strict=False):
        one, row = place.sel(level=level), fit.sel(quantity=f"S_{level}")
        look: dict[str, Any] = {
            "color": colour, "marker": marker, "markersize": 5.5, "markerfacecolor": "white",
            "markeredgewidth": 1.3,
        }  # fmt: skip
        value, error = one.scaled.values, one.scaled_stderr.values
        axes.errorbar(N, value, yerr=error, fmt="none", ecolor=colour, capsize=3, zorder=3)
        axes.plot(N, value, linestyle="none", zorder=4, **look)
        axes.plot([], [], linestyle=dashes, linewidth=1.3, label=rf"$\ell = {level}$", **look)
        used = place.N.values >= fit.attrs.get("least_N", 0)
        if not math.isnan(row.constant) and used.any():
            fine = np.geomspace(N[used][0], end, 60)
            curve = float(row.constant) + float(row.constant_next) / fine
            axes.plot(fine, curve, color=colour, linestyle=dashes, linewidth=1.3)
        if not math.isnan(row.constant_exact):
            axes.plot([end], [float(row.constant_exact)], marker="*", markersize=10, color=colour, zorder=5)
    if not np.isnan(fit.constant_exact.values).all():
        axes.plot([], [], marker="*", markersize=10, linestyle="none", color=_GREY, label="exact limit")
    axes.axhline(0.0, color=_GREY, linewidth=0.8, zorder=0)
    axes.set(xscale="log")
    axes.set_xticks(N, [f"{value:g}" for value in N], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("number of servers $N$", fontsize=_SIZE)
    axes.set_title(f"d = {place.d.item()}, λ = {place.lam.item():g}, {place.G.item()}", fontsize=_SIZE)
    axes.tick_params(labelsize=_SIZE - 1)
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
