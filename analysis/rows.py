"""Rows of tables: the networks (d, λ, G) of a grid, one by one, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

#: Axes of the rows of a table.
ROW = ("d", "lam", "G")

_WORDS = {"d": "d = {}", "lam": "λ = {:g}", "G": "{}"}


def rows_of(data: xr.Dataset, axes: Sequence[str] = ROW) -> Iterator[xr.Dataset]:
    """Yield the data at every place of some axes, the last axis fastest.

    Examples
    --------
    >>> import xarray as xr
    >>> grid = {"d": [1, 2], "lam": [0.9], "G": ["exponential"]}
    >>> [name_of(row) for row in rows_of(xr.Dataset(coords=grid))]
    ['d = 1, λ = 0.9, exponential', 'd = 2, λ = 0.9, exponential']
    """
    for index in np.ndindex(tuple(data.sizes[axis] for axis in axes)):
        yield data.isel(dict(zip(axes, index, strict=True)))


def check_rows(fits: xr.Dataset) -> None:
    """Raise ValueError unless fits have no axes but those of the rows of a table."""
    extra = [str(dim) for dim in fits.dims if dim not in ROW]
    if extra:
        raise ValueError(
            f"fits must have no axes but {', '.join(ROW)}, got {', '.join(extra)}: select one value"
        )


def labels_of(row: Any, axes: Sequence[str] = ROW) -> dict[str, Any]:
    """Return d, lam and G, or those of them that are given, as plain values.

    Parameters
    ----------
    row
        What has attributes d, lam and G: a fitted row, or data at one place of the grid.
    axes
        Which of "d", "lam" and "G".
    """
    return {axis: np.asarray(getattr(row, axis)).item() for axis in axes}


def name_of(row: Any, axes: Sequence[str] = ROW) -> str:
    """Name a network by its d, λ and G, or by those of them that are given; `row` is as for `labels_of`."""
    return ", ".join(_WORDS[axis].format(label) for axis, label in labels_of(row, axes).items())
