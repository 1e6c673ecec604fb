"""What of a store a rate can be fitted to: stored distances, and deviations of S, D, X, E from limits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from analysis.regression import Point, summarise
from analysis.rows import ROW
from analysis.stores import CURES

if TYPE_CHECKING:
    import xarray as xr

    Source: TypeAlias = xr.DataTree | xr.Dataset | str | os.PathLike[str]

#: Variables of the network that have a limit of the same name; their distance from it is |network − limit|.
COMPARED = ("S", "D", "X", "E")

#: What is appended to their names for the largest distance over stored t.
OVER_TIME = "_sup_t"


def needed_for(quantity: str) -> tuple[str, ...]:
    """Return the variables of a store, as "group/variable", that a distance on its time grid needs.

    Examples
    --------
    >>> needed_for("X_sup_t"), needed_for("S_sup"), needed_for("d_S")
    (('network/X', 'fluid/X'), ('network/S_sup',), ())
    """
    name = quantity.removesuffix(OVER_TIME)
    if name in COMPARED:
        return f"network/{name}", f"fluid/{name}"
    return ("network/S_sup",) if quantity == "S_sup" else ()


def replicas_of(tree: Source, quantity: str) -> xr.DataArray:
    """Return the replicas of a distance, with N first and replica last, NaN where one is absent.

    Parameters
    ----------
    tree
        What `sweep.load` returns, its network group, or the path of a store. A group alone has no limits.
    quantity
        A variable of the network group over N, d, lam, G and replica (S_sup, d_S, d_P, V, …). S, D, X and E
        stand for their distance |S^(N)_ℓ(t)/N − S_ℓ(t)|, … from the group fluid at each stored t, and
        S_sup_t, D_sup_t, X_sup_t, E_sup_t for the largest over t.

    Raises
    ------
    ValueError
        An unknown quantity, one without one of the axes, values that are negative or infinite (or zero, for
        a stored distance that has neither levels nor snapshots), or a limit that is needed and absent.
    TypeError
        A tree that is none of the three.
    """
    name = quantity.removesuffix(OVER_TIME)
    source = opened(tree)
    if name in COMPARED:
        values = abs(deviation_of(source, name))
        if quantity != name:
            values = values.max("t", skipna=False)
        values.attrs = {
            "units": "1",
            "long_name": f"{'sup over stored t of ' if quantity != name else ''}|{name} − its limit|",
        }
        return values.rename(quantity)
    network = group_of(source, "network")
    if quantity not in network.data_vars:
        offered = [str(name) for name, v in network.data_vars.items() if {"N", "replica"} <= set(v.dims)]
        path = f"network/{quantity}"
        cure = f": to have it, {CURES[path]}" if path in CURES else ""
        raise ValueError(
            f"quantity must be one of {', '.join(offered) or '(none stored)'}, got {quantity!r}{cure}"
        )
    values = _ordered(network[quantity])
    # A level that neither network nor limit reaches has distance 0, and so may a snapshot at time 0 have.
    may_be_zero = bool({"level", "snapshot"} & set(values.dims))
    wrong = (values < 0) | np.isinf(values) | ((values == 0) & (not may_be_zero))
    if wrong.any():
        first = np.argwhere(wrong.values)[0]
        at = values[tuple(first)]
        place = ", ".join(f"{dim} = {at.coords[dim].item()}" for dim in values.dims[:-1] if dim in at.coords)
        raise ValueError(
            f"{quantity} must be positive and finite to follow a power of N, got {at.item()} at {place}"
        )
    return values


def deviation_of(tree: Source, name: str) -> xr.DataArray:
    """Return the signed deviation of S, D, X or E from its limit, N first and replica last.

    Times and levels are those that network and limit share.

    Raises
    ------
    ValueError
        Another name, or a group, variable or axis that is absent.
    TypeError
        As `replicas_of`.
    """
    if name not in COMPARED:
        raise ValueError(f"quantity must be one of {', '.join(COMPARED)} to have a limit, got {name!r}")
    source = opened(tree)
    network, fluid = group_of(source, "network"), group_of(source, "fluid")
    for group, data in (("network", network), ("fluid", fluid)):
        if name not in data:
            raise ValueError(f"tree must have the variable {name} in the group {group}, got {_names(data)}")
    return _ordered((network[name] - fluid[name]).rename(name))


def points_of(values: xr.DataArray, index: tuple[int, ...], statistic: str) -> list[Point]:
    """Summarise the replicas of every N that has at least two, by increasing N, at one place of the rest.

    An N where all replicas are at distance 0, as at t = 0, is left out: zero is no power of N.
    """
    block = np.moveaxis(values.values, 0, -2)[index]
    points = []
    for N, row in zip(values.coords["N"].values, block, strict=True):
        present = row[~np.isnan(row)].astype(np.float64)
        if len(present) >= 2 and present.any():
            points.append(summarise(float(N), present, statistic))
    return sorted(points, key=lambda point: point.N)


def group_of(tree: Source, group: str) -> xr.Dataset:
    """Return a group of a tree or of the store at a path; a Dataset stands for the group network.

    Raises
    ------
    ValueError
        The group is absent.
    TypeError
        A tree that is neither a DataTree, a Dataset nor a path.
    """
    import xarray as xr

    source = opened(tree)
    if isinstance(source, xr.Dataset):
        if group != "network":
            raise ValueError(
                f"tree must have the group {group}, got the network alone: give all that sweep.load returns"
            )
        return source
    if group not in source.children:
        groups = ", ".join(source.children) or "none"
        raise ValueError(f"tree must have the group {group}, got the groups {groups}")
    return source[group].to_dataset()


def opened(tree: Source) -> xr.DataTree | xr.Dataset:
    """Return the results at a path; a tree or a group as it is.

    Raises
    ------
    TypeError
        Something else.
    """
    import xarray as xr

    if isinstance(tree, (str, os.PathLike)):
        import sweep

        return sweep.load(tree)
    if not isinstance(tree, (xr.DataTree, xr.Dataset)):
        raise TypeError(
            f"tree must be a DataTree, a Dataset or the path of a store, got {type(tree).__name__}"
        )
    return tree


def _ordered(values: xr.DataArray) -> xr.DataArray:
    """N first, then the axes of a row, replica last."""
    for axis in ("N", "replica", *ROW):
        if axis not in values.dims:
            raise ValueError(
                f"{values.name} must have the axis {axis}, got ({', '.join(map(str, values.dims))})"
            )
    return values.transpose("N", *ROW, ..., "replica")


def _names(data: xr.Dataset) -> str:
    return ", ".join(map(str, data.data_vars)) or "none"
