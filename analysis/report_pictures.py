"""Figures as a page holds them: whole for wide screens and paper, panel by panel for narrow ones, as SVG."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.report_page import Picture

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_PAD = 0.06  # inches around a panel
#: Text as outlines, so that a page looks alike everywhere; no date or random ids, so that it repeats.
_SVG = {"svg.fonttype": "path", "svg.hashsalt": "report"}
_METADATA: dict[str, Any] = {"Date": None, "Creator": None}


@dataclass(frozen=True, kw_only=True)
class Images:
    """Addresses that hold the images themselves: of the whole figure, and of its panels if it has several."""

    whole: str
    panels: tuple[str, ...]


def images_of(figure: Figure) -> Images:
    """Return a figure and its panels as data addresses.

    A panel on its own stays readable on a screen of 400 pixels, where the whole figure is too small. Legends
    that have a place of their own count as panels and are laid out in one column.

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
    parts: list[Artist] = [*figure.axes, *figure.legends]
    panels = []
    for part in parts if len(parts) > 1 else ():
        with _alone(figure, part):
            box = _box(figure, part)
            if box is not None:
                panels.append(_address(figure, box))
    return Images(whole=whole, panels=tuple(panels))


def write_files(picture: Picture, number: int, folder: str | os.PathLike[str]) -> list[Path]:
    """Write a picture as SVG and as a PNG of 1200 pixels, and return the files."""
    import matplotlib

    from analysis.figures import save

    stem = Path(folder) / f"figure-{number}-{picture.name}"
    with matplotlib.rc_context(_SVG):
        return [save(picture.figure, stem.with_suffix(suffix)) for suffix in (".svg", ".png")]


def _address(figure: Figure, box: Bbox | None = None) -> str:
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(_SVG):
        figure.savefig(buffer, format="svg", bbox_inches=box, metadata=_METADATA)
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


@contextmanager
def _alone(figure: Figure, part: Artist) -> Iterator[None]:
    """Hide all but one part, and lay a legend of its own out in one column."""
    others = [one for one in [*figure.axes, *figure.legends, *figure.texts] if one is not part]
    seen = [one.get_visible() for one in others]
    legends = {one: one._ncols for one in _own_legends(part)}  # type: ignore[attr-defined]
    for one in others:
        one.set_visible(False)
    for legend in legends:
        legend.set_ncols(1)
    try:
        yield
    finally:
        for one, visible in zip(others, seen, strict=True):
            one.set_visible(visible)
        for legend, columns in legends.items():
            legend.set_ncols(columns)


def _own_legends(part: Artist) -> list[Any]:
    """Return legends that fill their part: those of the figure, or of axes that are switched off."""
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

    if isinstance(part, Legend):
        return [part]
    if isinstance(part, Axes) and not part.axison and part.get_legend() is not None:
        return [part.get_legend()]
    return []


def _box(figure: Figure, part: Artist) -> Bbox | None:
    """Return where a part is, in inches with some room; None if nothing is drawn there."""
    from matplotlib.axes import Axes

    legends = _own_legends(part)
    if isinstance(part, Axes) and not part.axison and not legends:
        return None
    box = (legends[0] if legends else part).get_tightbbox()
    if box is None or not box.width > 0.0:
        return None
    return box.transformed(figure.dpi_scale_trans.inverted()).padded(_PAD)
