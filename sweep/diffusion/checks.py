"""Checks of numbers, positions and probabilities that callers pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.cell import canonical

Floats = NDArray[np.float64]


def number(name: str, value: Any) -> float:
    """Return `value` as a canonical float.

    Raises
    ------
    TypeError
        Not a number.
    """
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return canonical(float(value))


def finite(name: str, value: Any) -> float:
    """Return `value` as a canonical float if it is a finite number.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        nan or infinite.
    """
    result = number(name, value)
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return result


def check_positions(x: ArrayLike) -> Floats:
    """Return positions as a float64 array, shape (x,).

    Raises
    ------
    ValueError
        Not a strictly increasing sequence of finite numbers ≥ 0.
    """
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"x must be an increasing sequence, got shape {values.shape}: write [0.0, 0.5, 1.0]")
    if not (np.all(np.isfinite(values)) and values[0] >= 0.0 and np.all(np.diff(values) > 0.0)):
        raise ValueError(f"x must be finite, not negative and increase, got {values.tolist()[:8]}")
    return values


def check_probabilities(probabilities: ArrayLike) -> Floats:
    """Return probabilities as a float64 array, shape (probability,), which may be empty.

    Raises
    ------
    ValueError
        Not strictly increasing in (0, 1).
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 1 or not (np.all((values > 0.0) & (values < 1.0)) and np.all(np.diff(values) > 0.0)):
        raise ValueError(f"probabilities must increase in (0, 1), got {probabilities!r}: write [0.5, 0.99]")
    return values


def check_tolerance(tolerance: Any) -> float:
    """Return the tolerance as a float.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        Outside [1e-11, 1).
    """
    value = number("tolerance", tolerance)
    if not 1e-11 <= value < 1.0:
        raise ValueError(f"tolerance must lie in [1e-11, 1), got {tolerance!r}")
    return value
