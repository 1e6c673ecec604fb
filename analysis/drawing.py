"""What pictures share: styles of series, points with their errors, axes of N, and files."""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
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
POINTS = 72.0  # in an inch

#: Of a legend's line, in font sizes: a handle that shows dashes, and with it the gaps around.
HANDLE, _HANDLE_ROOM = 3.2, 5.6
#: Share of an axis between points of two series that share their abscissas.
ASIDE = 0.012
#: Shares of what is kept of a name that is its beginning, in the order in which they are tried.
_SHARES = (0.5, 0.9, 0.7, 0.3, 0.1)
#: What is not cut if it can be helped: a word, or a number.
_WORD = re.compile(r"[+-]?\d[\w.+-]*|\w+")


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


def draw_points(
    axes: Axes, x: ArrayLike, y: ArrayLike, error: ArrayLike | None, style: Style, alpha: float = 1.0
) -> None:
    """Draw estimates of shape (point,) with standard errors of that shape, (2, point) for ends, or none."""
    at, value = np.asarray(x), np.asarray(y)
    if error is not None:
        bars = np.asarray(error)
        axes.errorbar(at, value, yerr=bars, fmt="none", ecolor=style[0], capsize=3, zorder=3, alpha=alpha)
    axes.plot(at, value, linestyle="none", zorder=4, alpha=alpha, **markers(style))


def aside(k: int, count: int) -> float:
    """Return how far to move points of series k of `count`, as a share of the axis.

    Series that share their abscissas then stand beside one another where their values coincide.

    Examples
    --------
    >>> [round(aside(k, 3), 3) for k in range(3)], aside(0, 1)
    ([-0.012, 0.0, 0.012], 0.0)
    """
    return ASIDE * (k - (count - 1) / 2)


def name_series(axes: Axes, label: str, style: Style, *, fitted: bool = True) -> None:
    """Put a series into the legend, with the line of its fit if it has one."""
    look = markers(style) | line(style)
    axes.plot([], [], label=label, **(look if fitted else look | {"linestyle": "none"}))


def legend_below(blank: Axes, named: Axes, size: float, title: str | None = None, columns: int = 1) -> None:
    """List the series of some axes in blank ones, where no curve can hide the text.

    Parameters
    ----------
    blank, named
        Axes that show nothing else, and those that name the series.
    size
        Font size in points.
    """
    blank.axis("off")
    blank.legend(
        *named.get_legend_handles_labels(), loc="upper center", fontsize=size, frameon=False, ncols=columns,
        borderaxespad=0.0, handlelength=HANDLE, title=title, title_fontsize=size,
    )  # fmt: skip


def text_width(text: str, size: float) -> float:
    """Return how wide a line of plain text is, in inches, at a font size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return float(width) / POINTS


def short_names(names: Iterable[str], width: float, size: float) -> dict[str, str]:
    """Return each name as it fits a width: itself, or cut in the middle so that no two become alike.

    Where no cut tells all names apart, those that are cut are numbered in their order.

    Parameters
    ----------
    names
        Plain text; a dollar sign is drawn as it is.
    width
        Inches.
    size
        Font size in points.

    Examples
    --------
    >>> short_names(["exponential", "trace(jobs/of/all/clusters/in/2024.csv)"], 1.5, 9.0)
    {'exponential': 'exponential', 'trace(jobs/of/all/clusters/in/2024.csv)': 'trace(jobs … /2024.csv)'}
    """
    full = list(dict.fromkeys(names))
    for share in _SHARES:
        short = [_cut(name, width, size, share) for name in full]
        if len(set(short)) == len(full):
            return dict(zip(full, short, strict=True))
    room = width - text_width(f" ({len(full)})", size)
    for k, name in enumerate(full):
        if short[k] != _plain(name):
            short[k] = f"{_cut(name, room, size, _SHARES[0])} ({k + 1})"
    return dict(zip(full, short, strict=True))


def _cut(name: str, width: float, size: float, share: float) -> str:
    """Leave out as little of the middle as it takes; `share` of what is kept is the beginning.

    Words and numbers stay whole where both ends then fit.
    """

    def fits(text: str) -> bool:
        return text_width(_plain(text), size) <= width

    def head(left_out: int) -> int:
        return round(share * (len(name) - left_out))

    def without(left_out: int) -> str:
        start = head(left_out)
        return f"{name[:start]} … {name[start + left_out :]}"

    if not name or fits(name):
        return _plain(name)
    least = bisect_left(range(len(name)), True, lo=1, key=lambda n: fits(without(n)))
    inside = {k for word in _WORD.finditer(name) for k in range(word.start() + 1, word.end())}
    edges = [k for k in range(1, len(name)) if k not in inside]
    if edges:
        start = max((k for k in edges if k <= head(least)), default=edges[0])
        whole = [
            f"{name[:start].rstrip()} … {name[end:].lstrip()}"
            for end in edges
            if end > start and name[end] not in ",="
        ]
        best = bisect_left(range(len(whole)), True, key=lambda k: fits(whole[k]))
        if best < len(whole):
            return _plain(whole[best])
    return _plain(without(least))


def _plain(text: str) -> str:
    """Keep dollar signs from opening a formula."""
    return text.replace("$", r"\$")


def legend_labels(series: Sequence[tuple[str, str]], width: float, size: float) -> list[str]:
    """Return "name: result" of each series, names cut so that a line of a legend fits a width.

    Parameters
    ----------
    series
        Names and results, either of which may be empty.
    width
        Of the legend with its handles, inches.
    size
        Font size in points.
    """
    results = [f": {result}" if name and result else result for name, result in series]
    room = width - _HANDLE_ROOM * size / POINTS - max((text_width(one, size) for one in results), default=0.0)
    short = short_names((name for name, _ in series), room, size)
    return [f"{short[name]}{result}" for (name, _), result in zip(series, results, strict=True)]


def label_sizes(axes: Axes, N: Iterable[float]) -> None:
    """Label a logarithmic axis of N by the N themselves where they span less than two powers of ten."""
    sizes = sorted(set(N))
    if math.floor(math.log10(sizes[-1])) - math.ceil(math.log10(sizes[0])) < 1:
        label_every_size(axes, sizes)


def label_every_size(axes: Axes, N: Iterable[float]) -> None:
    """Label a logarithmic axis of N by the N themselves; where labels would touch, by the larger ones."""
    from matplotlib import rcParams
    from matplotlib.ticker import FixedLocator, FuncFormatter

    sizes = sorted(set(N))

    class Sizes(FixedLocator):
        """The sizes whose labels have room in the axes as they are drawn."""

        def __call__(self) -> list[float]:
            low, high = np.log(axes.get_xlim())
            inches = axes.bbox.width / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
            points = axes.xaxis.get_tick_params().get("labelsize", rcParams["font.size"])
            kept, end = [], math.inf
            for size in reversed(sizes):
                middle = (math.log(size) - low) / (high - low) * inches
                half = text_width(f"{size:.7g} ", points) / 2.0
                if middle + half <= end:
                    kept.append(size)
                    end = middle - half
            return kept[::-1]

    axes.xaxis.set_major_locator(Sizes(sizes))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:.7g}"))
    axes.set_xticks([], minor=True)


def dress(axes: Axes, size: float) -> None:
    """Give axes a grid behind the data, and tick labels of a size in points."""
    axes.tick_params(which="both", labelsize=size)
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
