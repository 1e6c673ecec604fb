"""Checks of the grids that outputs are asked on: times, snapshots, ages, levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import check_count, check_memory, real, row

Floats = NDArray[np.float64]
#: Cells of the default age grid.
_AGES = 64
#: Most levels to output: queues at time 0 are not longer.
MOST_LEVELS = 10**7
#: Bytes of what is counted and returned at a time and level, at the peak.
_TABLE_BYTES = 48


def check_times(times: ArrayLike) -> Floats:
    """Return output times as a float64 array, shape (t,).

    Raises
    ------
    ValueError
        Not a strictly increasing sequence of finite times ≥ 0.
    """
    return _increasing("times", times, "[0.0, 2.5, 10.0] or numpy.linspace(0, 10, 101)")


def check_snapshots(snapshots: ArrayLike, horizon: float) -> Floats:
    """Return snapshot times as a float64 array, shape (snapshot,), none later than `horizon`.

    Raises
    ------
    ValueError
        Not strictly increasing in [0, horizon].
    """
    example = "[2.0, 10.0]"
    given = row("snapshots", snapshots, f"write {example}", rule="an increasing sequence")
    if given.size == 0:
        return given
    values = _increasing("snapshots", given, example)
    last = real("horizon", horizon)
    if not values[-1] <= last:
        raise ValueError(
            f"snapshots must not be later than the last stored time {last:g}, got {values[-1]:g}"
        )
    return values


def check_ages(ages: ArrayLike | None, snapshots: Floats) -> Floats:
    """Return the age grid, shape (age,), whose last point is inf (added if missing).

    Raises
    ------
    ValueError
        Not a strictly increasing sequence of ages ≥ 0.
    """
    if ages is None:
        return default_ages(snapshots)
    example = "[0.0, 0.5, 1.0, 2.0]"
    values = row("ages", ages, f"write {example}", rule="an increasing sequence")
    if values.size and values[-1] == math.inf:
        if values.size == 1:
            return values
        values = values[:-1]
    finite = _increasing("ages", values, example)
    return np.append(finite, math.inf)


def default_ages(snapshots: Floats) -> Floats:
    """Return ages 0 … the last snapshot in equal steps, then inf.

    From empty queues and fresh ages no job is older than the clock; older ones of other starts lie in the
    last cell.
    """
    if snapshots.size == 0:
        return np.array([math.inf])
    oldest = float(snapshots[-1])
    if oldest == 0.0:
        return np.array([0.0, math.inf])
    return np.append(np.arange(_AGES + 1) * (oldest / _AGES), math.inf)


def check_levels(levels: Any) -> int | None:
    """Return the number of levels to output, or None for automatic.

    Raises
    ------
    TypeError, ValueError
        Not a whole number from 1 to ten million.
    """
    if levels is None:
        return None
    cost = "a level takes some 50 bytes at every time, and queues are hardly ever longer than a thousand"
    return check_count("levels", levels, most=MOST_LEVELS, cost=cost)


def check_tables(levels: int | None, times: int, snapshots: int, ages: int) -> None:
    """Refuse tables of an output that do not fit into memory.

    Parameters
    ----------
    levels
        Number of levels, None for automatic.
    times, snapshots, ages
        Sizes of the other grids.

    Raises
    ------
    ValueError
        The tables by time and level, or by snapshot, level and age, are too large.
    """
    if levels is not None:
        size = float(_TABLE_BYTES * levels) * (times + snapshots * ages)
        check_memory("levels", levels, size, "take fewer levels, times or ages")


def _increasing(name: str, values: ArrayLike, example: str) -> Floats:
    cure = f"write {example}"
    array = row(name, values, cure, rule="an increasing sequence")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got []: {cure}")
    refused = ~((array >= 0.0) & (array < math.inf))
    refused[1:] |= array[1:] <= array[:-1]
    if refused.any():
        index = int(np.argmax(refused))
        value = float(array[index])
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {value:g} at position {index}")
        raise ValueError(f"{name} must increase, got {value:g} after {float(array[index - 1]):g}: {cure}")
    return array
