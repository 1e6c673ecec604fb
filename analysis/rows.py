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


def stored_rows(fits: xr.Dataset, axes: Sequence[str] = ROW) -> Iterator[xr.Dataset]:
    """Yield the rows of fits that have replicas: a case outside the grid leaves places that no run fills.

    Parameters
    ----------
    fits
        With `replicas`, how many are stored, over axes of the rows.
    axes
        As `rows_of`.
    """
    return (row for row in rows_of(fits, axes) if row["replicas"].item())


def large_sizes(data: xr.Dataset, least_N: int, command: str) -> xr.Dataset:
    """Return the data at N ≥ least_N, for a command with the option --least-N.

    Raises
    ------
    ValueError
        Fewer than two such N.
    """
    large = data.N.values[data.N.values >= least_N]
    if large.size < 2:
        stored = ", ".join(map(str, data.N.values))
        raise ValueError(
            f"N must have two values of {least_N} or more, got {stored}: add larger N to the spec, or lower "
            f"least_N (--least-N of python -m {command})"
        )
    return data.sel(N=large)


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
