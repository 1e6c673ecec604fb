"""Pictures of the dependence between tagged queues: its norm against N, and N times their covariance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.chaos import ChaosFit, chaos_table
from analysis.drawing import (
    GREY,
    HANDLE,
    STYLES,
    Style,
    draw_points,
    dress,
    label_every_size,
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
    of the difference), unbiased and signed, with its fit a + b/N; 0 is independence.

    Parameters
    ----------
    measured
        What `analysis.tagged.measure_chaos` returns.
    fits
        What `analysis.chaos.fit_chaos` makes of it.

    Raises
    ------
    ValueError
        More rows (d, lam, G) than there are styles to tell them apart.
    """
    from matplotlib.figure import Figure

    rows = list(chaos_table(fits))
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
    for row, label, style in zip(rows, labels, STYLES, strict=False):
        place = measured.sel(labels_of(row))
        place = place.isel(N=place.n.values > 0)
        used = place.sel(N=place.N.values >= fits.attrs["least_N"])
        if left is not None:
            _norm(left, place.sel(norm=fits.attrs["norm"]), row, style)
        _signed(right, place, used, style)
        name_series(right, label, style, fitted=row.n > 0)
    if left is not None:
        _reference(left)
        left.set(xscale="log", yscale="log", ylabel=_norm_label(fits))
    right.set(xscale="log", ylabel=_signed_label(measured))
    right.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    for axes in figure.axes:
        label_every_size(axes, measured.N.values.tolist())
        axes.set_xlabel("number of servers $N$", fontsize=_SIZE)
        axes.yaxis.label.set_fontsize(_SIZE)
        dress(axes, _SIZE - 1)
    blank = figure.add_subplot(grid[1])
    blank.axis("off")
    blank.legend(
        *right.get_legend_handles_labels(), loc="upper center", fontsize=_SIZE - 1, frameon=False,
        ncols=columns, borderaxespad=0.0, handlelength=HANDLE, title_fontsize=_SIZE - 1,
        title=None if left is None else "exponent of $N$ in the norm",
    )  # fmt: skip
    same = [axis for axis in ROW if axis not in varying]
    title = ", ".join([name_of(rows[0], same), measured.attrs["source"]]).strip(", ")
    figure.suptitle(short_names([title], width - _MARGIN, _SIZE)[title], fontsize=_SIZE)
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


def _norm(axes: Axes, place: xr.Dataset, row: ChaosFit, style: Style) -> None:
    """Norms with standard errors, and the fitted curve, where a rate was fitted."""
    if not has_norm(row):
        return
    N, value, error = (place[name].values for name in ("N", "norm_value", "norm_stderr"))
    draw_points(axes, N, value, error, style)
    fine = np.geomspace(N[0], N[-1], 60)
    curve = row.first / fine + row.second / fine**2
    axes.plot(fine, curve, **line(style))


def _signed(axes: Axes, place: xr.Dataset, used: xr.Dataset, style: Style) -> None:
    """N times the signed number with standard errors, and its fit a + b/N."""
    name = "queue_covariance" if "queue_covariance" in place else "difference"

    def numbers(data: xr.Dataset) -> tuple[Any, ...]:
        first = [data[part].values.reshape(data.sizes["N"], -1)[:, 0] for part in (name, f"{name}_stderr")]
        return data.N.values.astype(np.float64), *first

    N, value, error = numbers(place)
    draw_points(axes, N, N * value, N * error, style)
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
