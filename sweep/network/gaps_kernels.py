"""Compiled change of time: gaps of a Poisson process of constant rate into those of one with a profile."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def follow_profile(ends: Floats, factors: Floats, scale: float, place: Floats, gaps: Floats) -> None:
    """Change unit exponential gaps into those between the points of a Poisson process of rate `factors`.

    A gap y goes from t to the least u with ∫_t^u profile = y · `scale`, and becomes (u − t)/`scale`, inf
    where there is none. In place, one after the other, so that the division into arrays does not matter.

    Parameters
    ----------
    ends
        End of each step; inf for the last one, or that of the period after which all repeats, shape (step,).
    factors
        Rate in each step, shape (step,).
    scale
        Time of a unit gap at factor 1.
    place
        Time since the begin of the period, and the number of the step, of the last point; updated.
    gaps
        Shape (gap,).
    """
    now, step = place[0], int(place[1])
    for k in range(gaps.size):
        left, waited = gaps[k], 0.0
        while True:
            factor, end = factors[step], ends[step]
            room = (end - now) / scale
            if factor > 0.0 and factor * room >= left:
                waited += left / factor
                now = min(now + left / factor * scale, end)
                break
            if end == np.inf:
                waited = np.inf
                break
            left -= factor * room
            waited += room
            step += 1
            now = end
            if step == ends.size:
                step, now = 0, 0.0
        gaps[k] = waited
    place[0], place[1] = now, step
