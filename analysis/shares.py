"""Shares of queues in the events that tagged queues are asked about, out of a store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analysis.joint import Events
from analysis.quantities import group_of, opened
from analysis.report_text import listed

if TYPE_CHECKING:
    import xarray as xr

    from analysis.quantities import Source

#: Levels taken by default: those that this share of the queues reaches in some cell, at most so many.
LEAST_SHARE, MOST_LEVELS, MOST_AGED_LEVELS = 1e-3, 8, 3
#: Ages taken by default: where the jobs in service of level 1 have these shares, in the mean over cells.
QUARTILES = (0.25, 0.5, 0.75)

_FRONT = ("N", "d", "lam", "G", "replica")


def tagged_shares(
    tree: Source,
    *,
    time: float | None = None,
    snapshot: float | None = None,
    levels: Sequence[int] | None = None,
    ages: Sequence[float] | None = None,
) -> tuple[xr.DataArray, Events]:
    """Return shares over (N, d, lam, G, replica[, batch], event), and the events.

    Parameters
    ----------
    tree, time, snapshot, levels, ages
        As `analysis.tagged.measure_chaos`.

    Raises
    ------
    ValueError, TypeError
        As `analysis.tagged.measure_chaos`.
    """
    data = _data(tree)
    if "S_end" in data:
        for name, asked in (("time", time), ("snapshot", snapshot), ("ages", ages)):
            if asked is not None:
                raise ValueError(f"{name} must be left out with an equilibrium store, got {asked}")
        values, source = data["S_end"], "S at the ends of batches"
    elif snapshot is not None or ages is not None:
        if time is not None:
            raise ValueError(f"time must be left out where a snapshot is taken, got {time:g}")
        values, moment = _at(_variable(data, "nu_cdf"), "snapshot", snapshot)
        source = f"nu_cdf at snapshot {moment:g}"
    else:
        values, moment = _at(_variable(data, "S"), "t", time, "time")
        source = f"S at t = {moment:g}"
    for axis in _FRONT:
        if axis not in values.dims:
            raise ValueError(
                f"{values.name} must have the axis {axis}, got {', '.join(map(str, values.dims))}"
            )
    values = values.transpose(*_FRONT, *(["batch"] if "batch" in values.dims else []), "level", ...)
    aged = "age" in values.dims
    values = values.sel(level=_levels(values, levels, MOST_AGED_LEVELS if aged else MOST_LEVELS))
    chosen = [math.inf]
    if aged:
        chosen = _ages(values, ages)
        values = values.sel(age=chosen)
    events = Events(levels=tuple(values.level.values.tolist()), ages=tuple(chosen))
    values = values.stack(event=["level", "age"] if aged else ["level"], create_index=False)
    return values.assign_attrs(source=source), events


def _data(tree: Source) -> xr.Dataset:
    """Return the group `equilibrium` if there is one, else `network`."""
    import xarray as xr

    tree = opened(tree)
    long_runs = isinstance(tree, xr.DataTree) and "equilibrium" in tree.children
    return group_of(tree, "equilibrium" if long_runs else "network")


def _variable(data: xr.Dataset, name: str) -> xr.DataArray:
    if name not in data:
        cure = ": run with snapshots" if name == "nu_cdf" else ""
        raise ValueError(
            f"tree must hold S_end or {name}, got {', '.join(map(str, data)) or 'nothing'}{cure}"
        )
    return data[name]


def _at(values: xr.DataArray, dim: str, asked: float | None, name: str = "") -> tuple[xr.DataArray, float]:
    """Select one value of a dimension, the last if none is asked for."""
    stored = values[dim].values.tolist()
    if asked is not None and asked not in stored:
        raise ValueError(f"{name or dim} must be one of {listed(stored)}, got {asked:g}")
    chosen = stored[-1] if asked is None else asked
    return values.sel({dim: chosen}), float(chosen)


def _levels(values: xr.DataArray, asked: Sequence[int] | None, most: int) -> list[int]:
    stored = values.level.values.tolist()
    if asked is None:
        highest = values.isel(age=-1) if "age" in values.dims else values
        apart = [dim for dim in highest.dims if dim in ("N", "d", "lam", "G", "level")]
        share = highest.mean([dim for dim in highest.dims if dim not in apart], skipna=True)
        reached = (share > LEAST_SHARE).any([dim for dim in apart if dim != "level"]).values
        return [level for level, seen in zip(stored, reached, strict=True) if seen][:most] or stored[:1]
    wrong = [level for level in asked if level not in stored]
    if wrong or not asked or sorted(set(asked)) != list(asked):
        raise ValueError(f"levels must increase and be among {listed(stored)}, got {list(asked)}")
    return list(asked)


def _ages(values: xr.DataArray, asked: Sequence[float] | None) -> list[float]:
    stored = values.age.values.tolist()
    if asked is None:
        first = values.isel(level=0)
        cdf = first.mean([dim for dim in first.dims if dim != "age"]).values
        places = {int(np.argmin(np.abs(cdf - share * cdf[-1]))) for share in QUARTILES}
        return [stored[place] for place in sorted(places | {len(stored) - 1})]
    wrong = [age for age in asked if age not in stored]
    if wrong or not asked or sorted(set(asked)) != list(asked):
        raise ValueError(f"ages must increase and be among {listed(stored)}, got {list(asked)}")
    return list(asked)
