"""Pictures of the dependence between tagged queues: its norm against N, and N times their covariance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.chaos import ChaosFit, chaos_table
from analysis.drawing import GREY, STYLES, Style, draw_points, dress, label_every_size, line, name_series
from analysis.evidence import SIGNIFICANT
from analysis.expansion import fit_inverse_powers
from analysis.rows import ROW, name_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = 10.5  # points


def chaos_figure(measured: xr.Dataset, fits: xr.Dataset) -> Figure:
    """Draw the norm of joint law minus product against N, and N times a signed covariance.

    Left, on logarithmic axes, the norm with standard errors and its fit a/N + b/N², beside a line of
    slope −1; rows without a fit, as independent queues, are left out. Right, all rows: N times the covariance
    of two queue lengths (for three queues or with ages, N times the first entry of the difference), unbiased
    and signed, with its fit a + b/N; 0 is independence.

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
    figure = Figure(figsize=(8.6, 5.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[3.4, 0.24 * (1 + math.ceil(len(rows) / 2))])
    left, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    for row, style in zip(rows, STYLES, strict=False):
        place = measured.sel(d=row.d, lam=row.lam, G=row.G)
        place = place.isel(N=place.n.values > 0)
        used = place.sel(N=place.N.values >= fits.attrs["least_N"])
        _norm(left, place.sel(norm=fits.attrs["norm"]), row, style)
        _signed(right, place, used, style)
        name_series(right, _label(row, varying), style)
    _reference(left)
    left.set(xscale="log", yscale="log", xlabel="number of servers $N$", ylabel=_norm_label(fits))
    right.set(xscale="log", xlabel="number of servers $N$", ylabel=_signed_label(measured))
    right.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    for axes in (left, right):
        label_every_size(axes, measured.N.values.tolist())
        axes.xaxis.label.set_fontsize(_SIZE)
        axes.yaxis.label.set_fontsize(_SIZE)
        dress(axes, _SIZE - 1)
    blank = figure.add_subplot(grid[1, :])
    blank.axis("off")
    blank.legend(
        *right.get_legend_handles_labels(), loc="upper center", fontsize=_SIZE - 1, frameon=False, ncols=2,
        borderaxespad=0.0, handlelength=3.2, title="exponent of $N$ in the norm", title_fontsize=_SIZE - 1,
    )  # fmt: skip
    same = [axis for axis in ROW if axis not in varying]
    figure.suptitle(", ".join([name_of(rows[0], same), measured.attrs["source"]]).strip(", "), fontsize=_SIZE)
    return figure


def _norm(axes: Axes, place: xr.Dataset, row: ChaosFit, style: Style) -> None:
    """Norms with standard errors, and the fitted curve, where a rate was fitted."""
    if math.isnan(row.power):
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
    points = np.concatenate([np.empty((0, 2)), *(np.asarray(line.get_xydata()) for line in axes.lines)])
    if not len(points):
        axes.text(0.5, 0.5, "no norm is fitted", ha="center", transform=axes.transAxes, fontsize=_SIZE)
        return
    ends = np.array([points[:, 0].min(), points[:, 0].max()])
    level = 0.6 * float(np.min(points[:, 0] * points[:, 1]))
    axes.plot(ends, level / ends, color=GREY, linewidth=1.0, zorder=1)
    middle = math.sqrt(ends[0] * ends[1])
    axes.annotate(
        "slope −1", (middle, level / middle), (-4, -3), textcoords="offset points", ha="right", va="top",
        color=GREY, fontsize=_SIZE - 1,
    )  # fmt: skip


def _label(row: ChaosFit, varying: list[str]) -> str:
    rate = "independent within error" if row.p_zero > SIGNIFICANT else "not resolved"
    if not math.isnan(row.exponent):
        half = (row.exponent_hi - row.exponent_lo) / 2
        rate = f"{row.exponent:.3f} ± {half:.3f} (95 %)".replace("-", "−")
    return ": ".join(part for part in (name_of(row, varying), rate) if part)


def _norm_label(fits: xr.Dataset) -> str:
    norm = fits.attrs["norm"].replace("_", " ").capitalize()
    return f"{norm} norm of joint law − product, k = {fits.attrs['k']}"


def _signed_label(measured: xr.Dataset) -> str:
    if "queue_covariance" in measured:
        top = int(measured.level.values[-1])
        return rf"$N\ \mathrm{{Cov}}(X^1\wedge {top},\ X^2\wedge {top})$"
    return rf"$N\,$(joint law − product), all $k = {measured.attrs['k']}$ in the first event"
