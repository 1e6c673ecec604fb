"""Pictures of bias and fluctuation against N, each with its fitted power."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.drawing import (
    STYLES,
    Style,
    aside,
    draw_points,
    dress,
    label_sizes,
    legend_below,
    legend_labels,
    line,
    name_series,
)
from analysis.report_text import with_error
from analysis.rows import ROW, name_of, stored_rows

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches.
_WIDTH, _LEGEND_ROW, _MARGIN = 7.5, 0.2, 0.2
_TITLES = {"bias": "|bias|", "sd": "standard deviation"}


def errors_figure(found: xr.Dataset) -> Figure:
    """Draw |bias| and standard deviation against N on logarithmic axes, one series per (d, lam, G).

    A bias within two standard errors of zero is drawn pale, with its error bar cut at the axis; the legend
    has both exponents ± standard errors, "not seen" for a bias that no N shows, "no fit" for points alone.
    Points of several series stand beside one another at each N.

    Parameters
    ----------
    found
        What `analysis.separate_errors` returns, at one value of every axis but N, d, lam and G.

    Raises
    ------
    ValueError
        Further axes, or more series than there are styles: select some.
    """
    from matplotlib.figure import Figure

    extra = [str(dim) for dim in found.dims if dim not in ("N", *ROW)]
    if extra:
        raise ValueError(
            f"found must have no axes but N, d, lam, G, got {', '.join(extra)}: select one value"
        )
    rows = [row for row in stored_rows(found) if row["sd"].notnull().any()]
    if len(rows) > len(STYLES):
        raise ValueError(
            f"found must have at most {len(STYLES)} fitted (d, lam, G), got {len(rows)}: select some"
        )
    below = _LEGEND_ROW * (len(rows) + 1.5)
    figure = Figure(figsize=(_WIDTH, 3.2 + below), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[3.2, below])
    labels = legend_labels([(name_of(row), _result(row)) for row in rows], _WIDTH - _MARGIN, 9)
    sizes = found.N.values.tolist()
    for column, (name, title) in enumerate(_TITLES.items()):
        axes = figure.add_subplot(grid[0, column])
        for k, (row, label, style) in enumerate(zip(rows, labels, STYLES, strict=False)):
            name_series(axes, label, style, fitted=row["n"].item() > 0)
            _series(axes, row, name, style, (max(sizes) / min(sizes)) ** aside(k, len(rows)))
        axes.set(xscale="log", yscale="log")
        label_sizes(axes, sizes)
        axes.set_xlabel("number of servers $N$")
        axes.set_ylabel(f"{title} of {found.attrs['quantity']}")
        dress(axes, 9)
    blank = figure.add_subplot(grid[1, :])
    legend_below(blank, figure.axes[0], 9, "exponents of bias; of standard deviation")
    return figure


def _series(axes: Axes, row: xr.Dataset, name: str, style: Style, shift: float) -> None:
    """Points with standard errors, drawn at shift · N, and the fitted power of one (d, lam, G)."""
    present = row["sd"].notnull().values
    N, value = row["N"].values[present], np.abs(row[name].values[present])
    error = row["bias_stderr"].values[present] if name == "bias" else np.zeros(value.size)
    clear = value > 2 * error
    for chosen, alpha in ((clear, 1.0), (~clear & (value > 0), 0.35)):
        bars = np.stack([np.minimum(error, 0.9 * value), error])[:, chosen]  # a logarithm has no zero
        seen = bars if name == "bias" else None
        draw_points(axes, shift * N[chosen], value[chosen], seen, style, alpha)
    exponent, constant = row[f"{name}_exponent"].item(), abs(row[f"{name}_constant"].item())
    if not math.isnan(exponent):
        ends = np.array([N.min(), N.max()], dtype=float)
        axes.plot(ends, constant * ends**exponent, **line(style))


def _result(row: xr.Dataset) -> str:
    if not row["n"].item():
        return "no fit"
    parts = []
    for name in _TITLES:
        exponent, stderr = row[f"{name}_exponent"].item(), row[f"{name}_exponent_stderr"].item()
        parts.append("not seen" if math.isnan(exponent) else with_error(exponent, stderr))
    return "; ".join(parts)
