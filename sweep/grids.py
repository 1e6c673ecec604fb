"""Checks of the grids that outputs are asked on: times, snapshots, ages, levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.cell import check_count

Floats = NDArray[np.float64]
#: Cells of the default age grid.
_AGES = 64


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
    if np.size(snapshots) == 0:
        return np.empty(0)
    values = _increasing("snapshots", snapshots, "[2.0, 10.0]")
    if values[-1] > horizon:
        raise ValueError(
            f"snapshots must not be later than the last stored time {horizon:g}, got {values[-1]:g}"
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
    values = np.atleast_1d(np.asarray(ages, dtype=np.float64))
    if values.size and values[-1] == math.inf:
        values = values[:-1]
    finite = _increasing("ages", values, "[0.0, 0.5, 1.0, 2.0]")
    return np.append(finite, math.inf)


def default_ages(snapshots: Floats) -> Floats:
    """Return ages 0 … the last snapshot in equal steps, then inf: no job can be older than the clock."""
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
        Not a whole number ≥ 1.
    """
    return None if levels is None else check_count("levels", levels)


def _increasing(name: str, values: ArrayLike, example: str) -> Floats:
    if np.ndim(values) != 1:
        raise ValueError(f"{name} must be an increasing sequence, got {values!r}: write {example}")
    try:
        if any(isinstance(value, (bool, str)) for value in np.asarray(values, dtype=object)):
            raise TypeError
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, got {values!r}: write {example}") from None
    if array.size == 0:
        raise ValueError(f"{name} must not be empty: write {example}")
    for index, value in enumerate(array.tolist()):
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {value:g} at position {index}")
        if index and value <= array[index - 1]:
            before = array[index - 1]
            raise ValueError(f"{name} must increase, got {value:g} after {before:g}: write {example}")
    return array
