"""Pictures of bias and fluctuation against N, each with its fitted power."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from analysis.drawing import STYLES, Style, dress, label_sizes, legend_labels, line, markers, name_series
from analysis.rates import signed
from analysis.rows import ROW, name_of, stored_rows

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches.
_WIDTH, _LEGEND_ROW, _MARGIN = 7.5, 0.23, 0.2
_TITLES = {"bias": "|bias|", "sd": "standard deviation"}


def errors_figure(found: xr.Dataset) -> Figure:
    """Draw |bias| and standard deviation against N on logarithmic axes, one series per (d, lam, G).

    A bias within two standard errors of zero is drawn pale, with its error bar cut at the axis; the legend
    has both exponents ± standard errors, "not seen" for a bias that no N shows, "no fit" for points alone.

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
    below = _LEGEND_ROW * (len(rows) + 2)
    figure = Figure(figsize=(_WIDTH, 3.2 + below), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[3.2, below])
    labels = legend_labels([(name_of(row), _result(row)) for row in rows], _WIDTH - _MARGIN, 9)
    for k, (name, title) in enumerate(_TITLES.items()):
        axes = figure.add_subplot(grid[0, k])
        for row, label, style in zip(rows, labels, STYLES, strict=False):
            name_series(axes, label, style, fitted=row["n"].item() > 0)
            _series(axes, row, name, style)
        axes.set(xscale="log", yscale="log")
        label_sizes(axes, found.N.values.tolist())
        axes.set_xlabel("number of servers $N$")
        axes.set_ylabel(f"{title} of {found.attrs['quantity']}")
        dress(axes, 9)
    blank = figure.add_subplot(grid[1, :])
    blank.axis("off")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    blank.legend(
        handles, labels, loc="upper center", frameon=False, fontsize=9, title_fontsize=9,
        title="exponents of bias; of standard deviation",
    )  # fmt: skip
    return figure


def _series(axes: Axes, row: xr.Dataset, name: str, style: Style) -> None:
    """Points with standard errors and the fitted power of one (d, lam, G)."""
    present = row["sd"].notnull().values
    N, value = row["N"].values[present], np.abs(row[name].values[present])
    error = row["bias_stderr"].values[present] if name == "bias" else np.zeros(value.size)
    clear = value > 2 * error
    for chosen, alpha in ((clear, 1.0), (~clear & (value > 0), 0.35)):
        bars = np.stack([np.minimum(error, 0.9 * value), error])[:, chosen]  # a logarithm has no zero
        axes.errorbar(
            N[chosen], value[chosen], yerr=bars if name == "bias" else None, linestyle="none", capsize=3,
            alpha=alpha, **markers(style),
        )  # fmt: skip
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
        parts.append("not seen" if math.isnan(exponent) else f"{signed(exponent)} ± {stderr:.3f}")
    return "; ".join(parts)
