"""Figures as a page holds them: whole for wide screens and paper, panel by panel for narrow ones, as SVG."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from analysis.drawing import HANDLE, text_width
from analysis.report_page import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

_PAD = 0.06  # inches around a panel
_ABOVE = 0.05  # inches between a panel and the title of its figure
_LEGEND = 9.5  # points
_LINE = 44  # characters of a line of a legend that stands alone
#: Stand for " = " and for an escaped dollar sign while lines are broken.
_EQUALS, _DOLLAR = "\ue000", "\ue001"
#: Text as outlines, so that a page looks alike everywhere; no date or random ids, so that it repeats.
_SVG: dict[Any, Any] = {"svg.fonttype": "path", "svg.hashsalt": "report"}
_METADATA: dict[str, Any] = {"Date": None, "Creator": None}


@dataclass(frozen=True, kw_only=True)
class Images:
    """Addresses that hold the images themselves: of the whole figure, and of its panels if it has several."""

    whole: str
    panels: tuple[str, ...]


def images_of(figure: Figure) -> Images:
    """Return a figure and its panels as data addresses.

    A panel on its own stays readable on a screen of 400 pixels, where the whole figure is too small. Legends
    that have a place of their own count as panels and are laid out in one column of narrow lines. Every other
    panel has the title of the figure above it, in lines as wide as its axes, and if it has no label of its
    ordinate that of its row.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> figure = Figure(layout="constrained")
    >>> _ = figure.subplots(1, 2)
    >>> images = images_of(figure)
    >>> images.whole[:26], len(images.panels)
    ('data:image/svg+xml;base64,', 2)
    """
    whole = _address(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # panels must stay where they are while others are hidden
    panels = []
    for axes in figure.axes:
        if axes.axison:
            with _alone(figure, axes), _labelled(figure, axes), _titled(figure, axes) as box:
                panels.append(_address(figure, box))
    legends = [axes.get_legend() for axes in figure.axes if not axes.axison]
    panels += [_column(legend) for legend in [*legends, *figure.legends] if legend is not None]
    return Images(whole=whole, panels=tuple(panels) if len(panels) > 1 else ())


def write_files(picture: Picture, number: int, folder: str | os.PathLike[str]) -> list[Path]:
    """Write a picture as SVG and as a PNG of 1200 pixels, and return the files."""
    import matplotlib

    from analysis.drawing import save

    stem = Path(folder) / f"figure-{number}-{picture.name}"
    with matplotlib.rc_context(_SVG):
        return [save(picture.figure, stem.with_suffix(suffix)) for suffix in (".svg", ".png")]


def _address(figure: Figure, box: Bbox | str | None = None) -> str:
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(_SVG):
        figure.savefig(buffer, format="svg", bbox_inches=box, metadata=_METADATA)
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


@contextmanager
def _alone(figure: Figure, part: Axes) -> Iterator[None]:
    """Hide all but one part of a figure."""
    others = [one for one in [*figure.axes, *figure.legends, *figure.texts] if one is not part]
    seen = [one.get_visible() for one in others]
    for one in others:
        one.set_visible(False)
    try:
        yield
    finally:
        for one, visible in zip(others, seen, strict=True):
            one.set_visible(visible)


@contextmanager
def _labelled(figure: Figure, axes: Axes) -> Iterator[None]:
    """Give axes without a label of their ordinate the label that their row has at its left."""

    def row(one: Axes) -> tuple[Any, ...] | None:
        place = one.get_subplotspec()
        return None if place is None else (place.get_gridspec(), place.rowspan)

    row_labels = [one.yaxis.label for one in figure.axes if one.get_ylabel() and row(one) == row(axes)]
    if axes.get_ylabel() or not row_labels:
        yield
        return
    axes.set_ylabel(row_labels[0].get_text(), fontsize=row_labels[0].get_fontsize())
    try:
        yield
    finally:
        axes.set_ylabel("")


@contextmanager
def _titled(figure: Figure, axes: Axes) -> Iterator[Bbox | None]:
    """Repeat the title of a figure above axes; yield where they are together, in inches with some room."""
    from matplotlib.transforms import Bbox

    box, title = _box(figure, axes), figure.get_suptitle()
    if box is None or not title:
        yield box
        return
    size = next(float(text.get_fontsize()) for text in figure.texts if text.get_text() == title)
    inside, (width, height) = axes.get_position(), figure.get_size_inches()
    lines = _lines(title, inside.width * width, size)
    # In shares of the figure, the only coordinates that saving a part of it moves along.
    middle, above = (inside.x0 + inside.x1) / 2.0, (box.y1 - _PAD + _ABOVE) / height
    text = figure.text(middle, above, "\n".join(lines), size=size, ha="center", va="bottom")
    try:
        found = _box(figure, text)
        yield box if found is None else Bbox.union([box, found])
    finally:
        text.remove()


def _box(figure: Figure, part: Axes | Text) -> Bbox | None:
    """Return where a part of a figure is with its labels, in inches with some room."""
    box = part.get_tightbbox()
    return None if box is None else box.transformed(figure.dpi_scale_trans.inverted()).padded(_PAD)


def _lines(text: str, width: float, size: float) -> list[str]:
    """Break text into lines of at most a width in inches, "λ = 0.85" and an escaped dollar sign in none."""
    whole = text.replace(" = ", _EQUALS).replace(r"\$", _DOLLAR)
    lines = [text]
    for most in range(len(whole), 1, -1):
        broken = wrap(whole, most, break_on_hyphens=False)
        lines = [line.replace(_EQUALS, " = ").replace(_DOLLAR, r"\$") for line in broken]
        if all(text_width(line, size) <= width for line in lines):
            break
    return lines


def _column(legend: Legend) -> str:
    """Return a legend in one column, as a figure of its own."""
    from matplotlib.figure import Figure

    handles = [handle for handle in legend.legend_handles if handle is not None]
    labels = ["\n".join(wrap(text.get_text(), _LINE)) for text in legend.get_texts()]
    title = legend.get_title().get_text() or None
    figure = Figure()
    figure.legend(
        handles,
        labels,
        title=title,
        fontsize=_LEGEND,
        title_fontsize=_LEGEND,
        frameon=False,
        handlelength=HANDLE,
    )
    return _address(figure, "tight")
