"""Pictures of scaled biases and variances against 1/N, with their limits beside the exact ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.drawing import (
    ASIDE,
    STYLES,
    Style,
    draw_points,
    dress,
    legend_below,
    legend_labels,
    line,
    name_series,
)
from analysis.rows import name_of, rows_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 2
#: Inches.
_PANEL, _LEGEND_ROW, _MARGIN = 3.75, 0.2, 0.2


def constants_figure(fits: xr.Dataset, constants: Sequence[str] = ("bias_X", "variance_X")) -> Figure:
    """Draw scaled statistics at every N against 1/N, the fitted C + C₂/N, and the exact limit at 1/N = 0.

    A panel for each constant and a series for each (d, lam, G); N that were left out are pale. Limits of
    several series stand beside one another, the first at 1/N = 0. A √N sd is drawn as its square, which is
    what the line is fitted to.

    Parameters
    ----------
    fits
        What `analysis.clt_constants` returns.
    constants
        Which of its constants to draw.

    Raises
    ------
    ValueError
        A constant that is not there, or more series than there are styles: select some.

    Examples
    --------
    >>> import xarray as xr
    >>> one = {"value": 3.0, "value_stderr": 0.1, "second": 5.0, "N_min": 10.0, "n": 96, "exact": 3.0}
    >>> axes = ("d", "lam", "G", "constant")
    >>> fits = xr.Dataset({name: (axes, [[[[value]]]]) for name, value in one.items()},
    ...     {"d": [2], "lam": [0.9], "G": ["exponential"], "constant": ["bias_X"], "N": [10, 20, 40]})
    >>> fits["scaled"] = (("N", *axes), (3 + 5 / fits.N.values).reshape(3, 1, 1, 1, 1))
    >>> fits["scaled_stderr"] = 0.1 + 0 * fits.scaled
    >>> constants_figure(fits, ["bias_X"]).axes[0].get_xlabel()
    '$1/N$'
    """
    from matplotlib.figure import Figure

    known = fits.coords["constant"].values.tolist()
    for name in constants:
        if name not in known:
            raise ValueError(f"constants must be among {', '.join(known)}, got {name!r}")
    places = [row for row in rows_of(fits) if (row["n"] > 0).any()]
    if len(places) > len(STYLES):
        raise ValueError(
            f"fits must have at most {len(STYLES)} fitted (d, lam, G), got {len(places)}: select some"
        )
    columns = min(_COLUMNS, len(constants))
    rows = math.ceil(len(constants) / columns)
    below = _LEGEND_ROW * (len(places) + 1.5)
    figure = Figure(figsize=(_PANEL * columns, 3.0 * rows + below), layout="constrained")
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[3.0] * rows + [below])
    labels = legend_labels([(name_of(place), "") for place in places], _PANEL * columns - _MARGIN, 9)
    most = 1 / fits["N"].values.min()
    for panel, name in enumerate(constants):
        axes = figure.add_subplot(grid[panel // columns, panel % columns])
        for k, (place, text, style) in enumerate(zip(places, labels, STYLES, strict=False)):
            name_series(axes, text, style)
            _series(axes, place.sel(constant=name), name, style, -ASIDE * most * k)
        axes.set_xlabel("$1/N$")
        axes.set_ylabel(label(name))
        axes.set_xlim(left=-most * (0.03 + ASIDE * (len(places) - 1)))
        dress(axes, 9)
    legend_below(figure.add_subplot(grid[rows, :]), figure.axes[0], 9, "× exact limit")
    return figure


def label(name: str) -> str:
    r"""Return the symbol of a constant, as it is drawn.

    Examples
    --------
    >>> label("sd_S2")
    '$N\\,\\mathrm{Var}(S_{2}^{(N)}/N)$'
    """
    kind, _, of = name.partition("_")
    share = "X^{(N)}/N" if of == "X" else f"S_{{{of[1:]}}}^{{(N)}}/N"
    limit = r"\sum_\ell S_\ell" if of == "X" else f"S_{{{of[1:]}}}"
    if kind == "bias":
        return rf"$N\,(\mathrm{{E}}\,{share} - {limit})$"
    return rf"$N\,\mathrm{{Var}}({share})$"


def _series(axes: Axes, row: xr.Dataset, name: str, style: Style, limit_at: float) -> None:
    """Points, fitted line, limit with its error, and exact limit of one (d, lam, G)."""
    if not row["n"].item():
        return
    seen = row.dropna("N", subset=["scaled"]) if row["scaled"].isnull().any() else row
    value, error = seen["scaled"].values, seen["scaled_stderr"].values
    limit, stderr, exact = (row[part].item() for part in ("value", "value_stderr", "exact"))
    if name.startswith("sd_"):  # fitted as variances
        value, error = value**2, 2 * value * error
        limit, stderr, exact = limit**2, 2 * limit * stderr, exact**2
    inverse = 1 / seen["N"].values
    used = seen["N"].values >= row["N_min"].item()
    for chosen, alpha in ((used, 1.0), (~used, 0.35)):
        draw_points(axes, inverse[chosen], value[chosen], error[chosen], style, alpha)
    ends = np.array([0.0, inverse[used].max()])
    axes.plot(ends, limit + row["second"].item() * ends, **line(style))
    draw_points(axes, [limit_at], [limit], [stderr], style)
    if not math.isnan(exact):
        axes.plot([limit_at], [exact], marker="x", color=style[0], markersize=8, markeredgewidth=2, zorder=5)
