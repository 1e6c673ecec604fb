"""Pictures of the dependence between tagged queues: its norm against N, and N times their covariance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.chaos import ChaosFit, chaos_table
from analysis.drawing import (
    GREY,
    STYLES,
    Style,
    aside,
    draw_points,
    dress,
    label_every_size,
    legend_below,
    legend_labels,
    line,
    name_series,
    short_names,
    text_width,
)
from analysis.evidence import SIGNIFICANT
from analysis.expansion import fit_inverse_powers
from analysis.rows import ROW, labels_of, name_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

_SIZE = 10.5  # points
#: Inches: widths of two plots and of one, and what follows.
_BOTH, _ALONE, _HEIGHT, _LEGEND_ROW, _MARGIN, _HANDLE = 8.6, 5.8, 4.2, 0.24, 0.2, 0.9


def chaos_figure(measured: xr.Dataset, fits: xr.Dataset) -> Figure:
    """Draw the norm of joint law minus product against N, and N times a signed covariance.

    Left, on logarithmic axes, the norm with standard errors and its fit a/N + b/N², beside a line of
    slope −1; rows without a fit, as independent queues, are left out, and with them all the plot. Right, all
    rows: N times the covariance of two queue lengths (for three queues or with ages, N times the first entry
    of the difference), unbiased and signed, with its fit a + b/N; 0 is independence. Points of several rows
    stand beside one another at each N.

    Parameters
    ----------
    measured
        What `analysis.tagged.measure_chaos` returns.
    fits
        What `analysis.chaos.fit_chaos` makes of it.

    Raises
    ------
    ValueError
        No row (d, lam, G) with replicas, or more than there are styles to tell them apart.
    """
    from matplotlib.figure import Figure

    rows = list(chaos_table(fits))
    if not rows:
        raise ValueError("fits must have a row with replicas, got none")
    if len(rows) > len(STYLES):
        raise ValueError(
            f"fits must have at most {len(STYLES)} rows to be drawn, got {len(rows)}: select some"
        )
    varying = [axis for axis in ROW if len({getattr(row, axis) for row in rows}) > 1]
    named = [(name_of(row, varying), _result(row)) for row in rows]
    width = _BOTH if any(map(has_norm, rows)) else _ALONE
    labels = legend_labels(named, width - _MARGIN, _SIZE - 1)
    columns = 1 if max(text_width(label, _SIZE - 1) for label in labels) > width / 2 - _HANDLE else 2
    below = _LEGEND_ROW * (1 + math.ceil(len(rows) / columns))
    figure = Figure(figsize=(width, _HEIGHT + below), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=[_HEIGHT, below])
    left, right = _panels(figure, grid[0], both=width == _BOTH)
    sizes, least_N = measured.N.values.tolist(), fits.attrs["least_N"]
    for k, (row, label, style) in enumerate(zip(rows, labels, STYLES, strict=False)):
        place = measured.sel(labels_of(row))
        place = place.isel(N=place.n.values > 0)
        used = place.sel(N=place.N.values >= least_N)
        shift = (max(sizes) / min(sizes)) ** aside(k, len(rows))
        if left is not None and has_norm(row):
            _norm(left, place.sel(norm=fits.attrs["norm"]), row, least_N, style, shift)
        _signed(right, place, used, style, shift)
        name_series(right, label, style, fitted=row.n > 0)
    if left is not None:
        _reference(left)
        left.set(xscale="log", yscale="log", ylabel=_norm_label(fits))
    right.set(xscale="log", ylabel=_signed_label(measured))
    right.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    for axes in figure.axes:
        label_every_size(axes, sizes)
        axes.set_xlabel("number of servers $N$", fontsize=_SIZE)
        axes.yaxis.label.set_fontsize(_SIZE)
        dress(axes, _SIZE - 1)
    title = None if left is None else "exponent of $N$ in the norm"
    legend_below(figure.add_subplot(grid[1]), right, _SIZE - 1, title, columns)
    same = [axis for axis in ROW if axis not in varying]
    shared = ", ".join([name_of(rows[0], same), measured.attrs["source"]]).strip(", ")
    figure.suptitle(short_names([shared], width - _MARGIN, _SIZE)[shared], fontsize=_SIZE)
    return figure


def has_norm(row: ChaosFit) -> bool:
    """Whether the norm of a row is drawn, with its fit."""
    return not math.isnan(row.power)


def _panels(figure: Figure, place: SubplotSpec, *, both: bool) -> tuple[Axes | None, Axes]:
    """Axes of the norm, if it is drawn, and of the signed numbers."""
    if not both:
        return None, figure.add_subplot(place)
    grid = place.subgridspec(1, 2)
    return figure.add_subplot(grid[0]), figure.add_subplot(grid[1])


def _norm(axes: Axes, place: xr.Dataset, row: ChaosFit, least_N: int, style: Style, shift: float) -> None:
    """Norms with standard errors, drawn at shift · N, and the fitted curve from the least N used."""
    N, value, error = (place[name].values for name in ("N", "norm_value", "norm_stderr"))
    draw_points(axes, shift * N, value, error, style)
    fine = np.geomspace(N[least_N <= N][0], N[-1], 60)
    curve = row.first / fine + row.second / fine**2
    axes.plot(fine, curve, **line(style))


def _signed(axes: Axes, place: xr.Dataset, used: xr.Dataset, style: Style, shift: float) -> None:
    """N times the signed number with standard errors, drawn at shift · N, and its fit a + b/N."""
    name = "queue_covariance" if "queue_covariance" in place else "difference"

    def numbers(data: xr.Dataset) -> tuple[Any, ...]:
        first = [data[part].values.reshape(data.sizes["N"], -1)[:, 0] for part in (name, f"{name}_stderr")]
        return data.N.values.astype(np.float64), *first

    N, value, error = numbers(place)
    draw_points(axes, shift * N, N * value, N * error, style)
    N, value, error = numbers(used)
    if len(N) >= 2 and (error > 0.0).all():
        a, b = fit_inverse_powers(N, value, error, used.n.values).estimate
        fine = np.geomspace(N[0], N[-1], 60)
        axes.plot(fine, a + b / fine, **line(style))


def _reference(axes: Axes) -> None:
    """Draw the line of slope −1 below all points."""
    points = np.concatenate([np.asarray(line.get_xydata()) for line in axes.lines])
    ends = np.array([points[:, 0].min(), points[:, 0].max()])
    level = 0.6 * float(np.min(points[:, 0] * points[:, 1]))
    axes.plot(ends, level / ends, color=GREY, linewidth=1.0, zorder=1)
    middle = math.sqrt(ends[0] * ends[1])
    axes.annotate(
        "slope −1", (middle, level / middle), (-4, -3), textcoords="offset points", ha="right", va="top",
        color=GREY, fontsize=_SIZE - 1,
    )  # fmt: skip


def _result(row: ChaosFit) -> str:
    if not row.n:
        return "no fit"
    if math.isnan(row.exponent):
        return "independent within error" if row.p_zero > SIGNIFICANT else "not resolved"
    half = (row.exponent_hi - row.exponent_lo) / 2
    return f"{row.exponent:.3f} ± {half:.3f} (95 %)".replace("-", "−")


def _norm_label(fits: xr.Dataset) -> str:
    norm = fits.attrs["norm"].replace("_", " ").capitalize()
    return f"{norm} norm of joint law − product, k = {fits.attrs['k']}"


def _signed_label(measured: xr.Dataset) -> str:
    if "queue_covariance" in measured:
        top = int(measured.level.values[-1])
        return rf"$N\ \mathrm{{Cov}}(X^1\wedge {top},\ X^2\wedge {top})$"
    return rf"$N\,$(joint law − product), all $k = {measured.attrs['k']}$ in the first event"
