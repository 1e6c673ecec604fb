"""What pictures share: styles of series, points with their errors, axes of N, and files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colour, marker and dash pattern.
Style: TypeAlias = tuple[str, str, str | tuple[int, tuple[int, ...]]]

#: Okabe & Ito's colours but for the yellow, which white paper swallows; each with its marker and dashes.
STYLES: tuple[Style, ...] = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", (0, (1, 1))),
    ("#E69F00", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#56B4E9", "P", (0, (7, 2))),
    ("#000000", "X", (0, (3, 3))),
)
#: Of lines and words that are no data.
GREY = "#666666"

FORMATS = (".png", ".svg", ".pdf")
PIXELS = 1200  # width of a saved raster image


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, 1200 pixels wide if it is a PNG, making the folder if needed.

    Raises
    ------
    ValueError
        A suffix that is not in `FORMATS`.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ValueError(f"path must end in {', '.join(FORMATS)}, got {str(path)!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=PIXELS / figure.get_figwidth())
    return target


def markers(style: Style) -> dict[str, Any]:
    """Return how points of a series look: hollow, so that series which lie on one another stay visible."""
    colour, marker, _ = style
    return {
        "color": colour,
        "marker": marker,
        "markersize": 5.5,
        "markerfacecolor": "white",
        "markeredgewidth": 1.3,
    }


def line(style: Style) -> dict[str, Any]:
    """Return how the fitted curve of a series looks."""
    colour, _, dashes = style
    return {"color": colour, "linestyle": dashes, "linewidth": 1.3}


def draw_points(axes: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike, style: Style) -> None:
    """Draw estimates with standard errors, all of shape (point,)."""
    at, value = np.asarray(x), np.asarray(y)
    axes.errorbar(at, value, yerr=np.asarray(error), fmt="none", ecolor=style[0], capsize=3, zorder=3)
    axes.plot(at, value, linestyle="none", zorder=4, **markers(style))


def name_series(axes: Axes, label: str, style: Style, *, fitted: bool = True) -> None:
    """Put a series into the legend, with the line of its fit if it has one."""
    look = markers(style) | line(style)
    axes.plot([], [], label=label, **(look if fitted else look | {"linestyle": "none"}))


def label_sizes(axes: Axes, N: Iterable[float]) -> None:
    """Label a logarithmic axis of N by the N themselves where they span less than two powers of ten."""
    sizes = sorted(set(N))
    if math.floor(math.log10(sizes[-1])) - math.ceil(math.log10(sizes[0])) < 1:
        label_every_size(axes, sizes)


def label_every_size(axes: Axes, N: Iterable[float]) -> None:
    """Label a logarithmic axis of N by the N themselves."""
    sizes = sorted(set(N))
    axes.set_xticks(sizes, [f"{size:.7g}" for size in sizes])
    axes.set_xticks([], minor=True)


def dress(axes: Axes, size: float) -> None:
    """Give axes a grid behind the data, and tick labels of a size in points."""
    axes.tick_params(which="both", labelsize=size)
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
