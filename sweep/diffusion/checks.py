"""Checks of numbers, positions and probabilities that callers pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep import arguments
from sweep.arguments import canonical, real, row
from sweep.wording import shown

Floats = NDArray[np.float64]

#: Least tolerance of the solvers here.
_LEAST_TOLERANCE = 1e-11


def number(name: str, value: Any) -> float:
    """Return `value` as a canonical float.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        A whole number that float64 cannot hold.
    """
    return canonical(real(name, value))


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
        raise ValueError(f"{name} must be finite, got {shown(value)}")
    return result


def check_positions(x: ArrayLike, name: str = "x") -> Floats:
    """Return positions as a float64 array, shape (x,).

    Raises
    ------
    ValueError
        Not a strictly increasing sequence of finite numbers ≥ 0.
    """
    example = "write [0.0, 0.5, 1.0]"
    values = row(name, x, example, rule="an increasing sequence")
    if values.size == 0:
        raise ValueError(f"{name} must be an increasing sequence, got shape (0,): {example}")
    if not (np.all(np.isfinite(values)) and values[0] >= 0.0 and np.all(np.diff(values) > 0.0)):
        raise ValueError(f"{name} must be finite, not negative and increase, got {values.tolist()[:8]}")
    return values


def check_probabilities(probabilities: ArrayLike) -> Floats:
    """Return probabilities as a float64 array, shape (probability,), which may be empty.

    Raises
    ------
    ValueError
        Not strictly increasing in (0, 1).
    """
    values = row("probabilities", probabilities, "write [0.5, 0.99]")
    if not (np.all((values > 0.0) & (values < 1.0)) and np.all(np.diff(values) > 0.0)):
        raise ValueError(
            f"probabilities must increase in (0, 1), got {shown(probabilities)}: write [0.5, 0.99]"
        )
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
    return arguments.check_tolerance(tolerance, _LEAST_TOLERANCE)
