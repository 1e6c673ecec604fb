"""Pictures of what the sweep stored: the distance to the limit against N, with the fitted powers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.drawing import (
    GREY,
    PIXELS,
    STYLES,
    Style,
    draw_points,
    dress,
    label_sizes,
    legend_below,
    legend_labels,
    line,
    name_series,
    save,
    short_names,
)
from analysis.quantities import points_of, replicas_of
from analysis.rates import RateFit, fit_replicas, rate_table
from analysis.regression import Point
from analysis.report_text import with_error
from analysis.rows import ROW, labels_of, name_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.quantities import Source

__all__ = ["PIXELS", "STYLES", "rate_figure", "replicas_figure", "save"]

#: Symbol of a quantity on an axis; others appear by their long name.
SYMBOLS = {
    "S_sup": r"$\sup_{t,\ell}\,|S^{(N)}_\ell(t)/N - S_\ell(t)|$",
    "d_S": r"$d_{\mathbb{S}}(\nu^{(N)}/N,\ \nu)$",
}

#: Inches: a line of a legend, the edges of a panel, and what stands left of its axes.
_LEGEND_ROW, _MARGIN, _LEFT = 0.21, 0.2, 0.9
#: By the number of columns: inches of the figure's width and a panel's height, and the font size in points.
_LAYOUTS = {1: (6.0, 4.0, 11.0), 2: (7.5, 3.0, 9.5)}


@dataclass(frozen=True, kw_only=True)
class _Series:
    """Points and fitted line of one (d, lam, G)."""

    row: RateFit
    points: tuple[Point, ...]

    def name(self, axes: Sequence[str]) -> str:
        return name_of(self.row, axes)

    @property
    def rate(self) -> str:
        row = self.row
        return with_error(row.exponent, row.exponent_stderr) if row.n else "no fit"


def rate_figure(tree: Source, quantity: str = "S_sup", statistic: str = "mean") -> Figure:
    """Draw a statistic of the replicas, with standard errors, against N on logarithmic axes.

    One series per (d, lam, G) with its fitted power of N, a line of slope −1/2 for comparison, and the fitted
    exponents ± standard errors in the legend, where long names are cut in the middle. More series than
    `STYLES` has are spread over panels that share their axes.

    Parameters
    ----------
    tree, quantity, statistic
        As `analysis.fit_rate`; the quantity has one value per replica.

    Raises
    ------
    ValueError
        As `analysis.fit_rate`; or a quantity with axes other than N, d, lam, G and replica.

    Examples
    --------
    >>> import xarray as xr
    >>> distance = xr.DataArray(
    ...     np.array([[0.09, 0.11], [0.009, 0.011]])[:, None, None, None, :],
    ...     coords={"N": [100, 10_000], "d": [2], "lam": [0.9], "G": ["exponential"]},
    ...     dims=("N", "d", "lam", "G", "replica"))
    >>> rate_figure(xr.Dataset({"S_sup": distance})).axes[0].get_xlabel()
    'number of servers $N$'
    """
    return replicas_figure(replicas_of(tree, quantity), statistic)


def replicas_figure(values: xr.DataArray, statistic: str, sizes: str = "all") -> Figure:
    """Draw what `analysis.quantities.replicas_of` returns, at one value of every axis but those of a row.

    Parameters
    ----------
    values
        Distances over (N, d, lam, G, replica).
    statistic, sizes
        As `analysis.fit_rate`; all N are drawn, lines run through those that were fitted.

    Raises
    ------
    ValueError
        As `rate_figure`.
    """
    from matplotlib.figure import Figure

    series = _series(values, statistic, sizes)
    varying = [axis for axis in ROW if len({getattr(one.row, axis) for one in series}) > 1]
    outer = _panel_axes(series, varying)
    inner = [axis for axis in varying if axis not in outer]
    panels: dict[str, list[_Series]] = {}
    for one in series:
        panels.setdefault(one.name(outer), []).append(one)
    names = list(dict.fromkeys(one.name(inner) for one in series))
    columns = 2 if len(panels) > 1 and _legend_of(series, inner, 2) == _legend_of(series, inner) else 1
    rows = math.ceil(len(panels) / columns)
    width, height, size = _LAYOUTS[columns]
    below = _LEGEND_ROW * (max(map(len, panels.values())) + 1.5)
    figure = Figure(figsize=(width, rows * (height + below) + 0.3), layout="constrained")
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[height, below] * rows)
    limits = _limits(series)
    wide = width / columns - _MARGIN
    titles = short_names(panels, wide - _LEFT, size)
    legend = _legend_of(series, inner, columns)
    labels = {one.name(ROW): label for one, label in zip(series, legend, strict=True)}
    for place, (title, members) in enumerate(panels.items()):
        row, column = divmod(place, columns)
        axes = figure.add_subplot(grid[2 * row, column])
        _draw(axes, members, inner, dict(zip(names, STYLES, strict=False)), labels, size)
        axes.set(xlim=limits[0], ylim=limits[1])
        axes.set_title(titles[title], fontsize=size)
        axes.set_xlabel("number of servers $N$", fontsize=size)
        if column == 0:
            axes.set_ylabel(_ordinate(values, statistic), fontsize=size)
        blank = figure.add_subplot(grid[2 * row + 1, column])
        legend_below(blank, axes, size - 1, "exponent of $N$ ± standard error")
    fixed = series[0].name([axis for axis in ROW if axis not in varying])
    figure.suptitle(short_names([fixed], width - _MARGIN, size)[fixed], fontsize=size)
    return figure


def _series(values: xr.DataArray, statistic: str, sizes: str) -> list[_Series]:
    rows = rate_table(fit_replicas(values, statistic, sizes=sizes))
    found = (
        _Series(row=row, points=tuple(points_of(values.sel(labels_of(row)), (), statistic))) for row in rows
    )
    return [one for one in found if one.points]


def _panel_axes(series: Sequence[_Series], varying: Sequence[str]) -> list[str]:
    """Return the axes that tell panels apart: the fewest, laws first, for a style per series."""
    for count in range(len(varying) + 1):
        for outer in itertools.combinations(sorted(varying, key=("G", "d", "lam").index), count):
            inner = [axis for axis in varying if axis not in outer]
            if len({one.name(inner) for one in series}) <= len(STYLES):
                return [axis for axis in ROW if axis in outer]
    return list(varying)


def _draw(
    axes: Axes,
    members: Sequence[_Series],
    inner: Sequence[str],
    styles: Mapping[str, Style],
    labels: Mapping[str, str],
    size: float,
) -> None:
    """Points, fitted lines and the line of slope −1/2 of one panel."""
    for one in members:
        style = styles[one.name(inner)]
        N = np.array([point.N for point in one.points])
        value = [point.value for point in one.points]
        draw_points(axes, N, value, [point.stderr for point in one.points], style)
        if one.row.n:
            fitted = N[one.row.N_min <= N]
            axes.plot(fitted, one.row.constant * fitted**one.row.exponent, **line(style))
        name_series(axes, labels[one.name(ROW)], style, fitted=one.row.n > 0)
    points = [point for one in members for point in one.points]
    ends = np.array([min(point.N for point in points), max(point.N for point in points)])
    level = 0.6 * min(point.value * math.sqrt(point.N) for point in points)
    middle = math.sqrt(ends[0] * ends[1])
    axes.plot(ends, level / np.sqrt(ends), color=GREY, linewidth=1.0, zorder=1)
    axes.annotate(
        "slope −1/2", (middle, level / math.sqrt(middle)), (-4, -3), textcoords="offset points",
        ha="right", va="top", color="#555555", fontsize=size - 1,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0}, zorder=0.9,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    label_sizes(axes, [point.N for point in points])
    dress(axes, size - 1)


def _legend_of(series: Sequence[_Series], inner: Sequence[str], columns: int | None = None) -> list[str]:
    """Return names and rates as they fit a panel of a number of columns, or whole without one."""
    width, _, size = _LAYOUTS[columns or 1]
    wide = width / columns - _MARGIN if columns else math.inf
    return legend_labels([(one.name(inner), one.rate) for one in series], wide, size - 1)


def _limits(series: Sequence[_Series]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return limits common to all panels, with room for the line of slope −1/2 below the points."""
    points = [point for one in series for point in one.points]
    N = [point.N for point in points]
    level = 0.6 * min(point.value * math.sqrt(point.N) for point in points)
    low = min(level / math.sqrt(max(N)), *(point.value for point in points))
    high = max(point.value + point.stderr for point in points)
    return (min(N) / 1.3, max(N) * 1.3), (low / 1.5, high * 1.5)


def _ordinate(values: xr.DataArray, statistic: str) -> str:
    """Symbol, or long name, and unit of what is drawn."""
    name = str(values.name)
    symbol = SYMBOLS.get(name, values.attrs.get("long_name", name))
    units = values.attrs.get("units", "1")
    return f"{statistic} of {symbol}" + ("" if units == "1" else f" ({units})")
