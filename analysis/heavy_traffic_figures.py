"""Pictures of heavy traffic: distances against m and N, means against m^{−1/2}, and laws beside the limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.drawing import GREY, STYLES, dress, label_every_size, short_names
from analysis.heavy_traffic_data import Cell, cells_of, load_tree, time_index, walk

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.heavy_traffic_data import Source

SYMBOLS = {"W1": "Wasserstein-1 distance", "KS": "Kolmogorov distance", "d_P": "Prohorov distance"}
#: Inches.
_WIDTH, _HEIGHT, _LAW = 8.0, 6.6, 4.4


def heavy_traffic_figure(
    tree: Source,
    quantity: str = "W1",
    t: float | None = None,
    row: tuple[float, float, int, str] | None = None,
) -> Figure:
    """Draw four panels of one (b1, b0, ell, G): distance against m and N, mean against m^{−1/2}, and v.

    Parameters
    ----------
    tree, quantity, t
        As for `analysis.heavy_traffic.fit_distance`.
    row
        Which (b1, b0, ell, G); the first by default.

    Raises
    ------
    ValueError, TypeError
        As `fit_distance`; a row that is not there.
    """
    from matplotlib.figure import Figure

    data = load_tree(tree)
    cells = [cell for cell in cells_of(data, quantity, t) if len(cell.values) >= 2]
    rows = list(dict.fromkeys(cell.row for cell in cells))
    chosen = row if row is not None else (rows[0] if rows else None)
    if chosen not in rows or chosen is None:
        raise ValueError(f"row must be one of {rows}, got {row}: (b1, b0, ell, G) with 2 replicas or more")
    cells = [cell for cell in cells if cell.row == chosen]
    means = [cell for cell in cells_of(data, "X", t) if cell.row == chosen and len(cell.values) >= 2]
    diffusion = data["diffusion"].to_dataset()
    index = time_index(diffusion.t.values, t)
    limit = diffusion.sel(dict(zip(("b1", "b0", "ell", "G"), chosen, strict=True))).isel(t=index)
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    upper, lower = figure.subplots(2, 2)
    _draw_powers(upper[0], cells, "m", "N", SYMBOLS.get(quantity, quantity))
    _draw_powers(upper[1], cells, "N", "m", "")
    _draw_means(lower[0], means, float(limit["mean"]))
    _draw_tails(lower[1], data, chosen, index, limit)
    b1, b0, ell, G = chosen
    law = short_names([G], _LAW, 11)[G]
    numbers = f"$b_1$ = {b1:g}, $b_0$ = {b0:g}, ℓ = {ell}".replace("-", "−")
    figure.suptitle(f"{numbers}, {law}, t = {float(limit.t):g}", fontsize=11)
    return figure


def _series(cells: Sequence[Cell], by: str) -> list[tuple[int, list[Cell]]]:
    labels = sorted({getattr(cell, by) for cell in cells})
    return [(label, [cell for cell in cells if getattr(cell, by) == label]) for label in labels]


def _draw_series(
    axes: Axes, cells: Sequence[Cell], by: str, abscissa: Callable[[Cell], float]
) -> tuple[list[float], list[float]]:
    """Means with standard errors, one line for each value of `by`; return all points."""
    x: list[float] = []
    y: list[float] = []
    for (label, members), (colour, marker, dashes) in zip(_series(cells, by), _styles(), strict=False):
        ordered = sorted(members, key=abscissa)
        at = [abscissa(cell) for cell in ordered]
        mean = [float(np.mean(cell.values)) for cell in ordered]
        error = [float(np.std(cell.values, ddof=1)) / math.sqrt(len(cell.values)) for cell in ordered]
        axes.errorbar(
            at, mean, yerr=error, color=colour, marker=marker, linestyle=dashes, markersize=5,
            markerfacecolor="white", linewidth=1.2, capsize=2, label=f"{by} = {label}",
        )  # fmt: skip
        x, y = x + at, y + mean
    return x, y


def _styles() -> list[Any]:
    return [*STYLES, *STYLES, *STYLES]


def _draw_powers(axes: Axes, cells: Sequence[Cell], along: str, by: str, name: str) -> None:
    x, y = _draw_series(axes, cells, by, lambda cell: float(getattr(cell, along)))
    ends = np.array([min(x), max(x)])
    level = 0.7 * min(value * math.sqrt(at) for at, value in zip(x, y, strict=True))
    if ends[0] < ends[1]:
        axes.plot(ends, level / np.sqrt(ends), color=GREY, linewidth=1.0, label="slope −1/2")
    axes.set(xscale="log", yscale="log", xlabel=f"${along}$", ylabel=name)
    label_every_size(axes, x)
    _finish(axes)


def _draw_means(axes: Axes, cells: Sequence[Cell], limit: float) -> None:
    _draw_series(axes, cells, "N", lambda cell: 1.0 / math.sqrt(cell.m))
    axes.plot([0.0], [limit], marker="*", markersize=11, color="black", linestyle="none", label="limit")
    axes.set(xlabel="$m^{-1/2}$", ylabel="mean of $Q/\\sqrt{m}$")
    axes.set_xlim(left=-0.01)
    axes.locator_params(axis="x", nbins=5)
    _finish(axes)


def _draw_tails(
    axes: Axes, tree: xr.DataTree, row: tuple[float, float, int, str], index: int, limit: xr.Dataset
) -> None:
    """Tails v of the limit and mean shares of the networks with most servers."""
    network = tree["network"].to_dataset()
    axes.plot(limit.x, limit["v"], color="black", linewidth=1.6, label="limit")
    if "v" in network:
        cells = [cell for cell in walk(network["v"].isel(t=index)) if cell.row == row]
        largest, members = _series(cells, "N")[-1]
        members = sorted(members, key=lambda cell: cell.m)
        for cell, (colour, _, dashes) in zip(members, _styles(), strict=False):
            mean = np.mean(cell.values, axis=0)
            axes.plot(
                network.x, mean, color=colour, linestyle=dashes, linewidth=1.2, drawstyle="steps-post",
                label=f"N = {largest}, m = {cell.m}",
            )  # fmt: skip
    axes.set(xlabel="$x$", ylabel="share of queues with $Q/\\sqrt{m} > x$", ylim=(0.0, 1.02))
    axes.set_xlim(0.0, None)
    _finish(axes)


def _finish(axes: Axes) -> None:
    dress(axes, 8)
    axes.legend(fontsize=7.5, framealpha=0.9)
