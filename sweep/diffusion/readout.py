"""From masses in cells to v, its density, mean and quantiles at given points, by local polynomials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.diffusion.cells import Cells

Floats = NDArray[np.float64]

#: Points of a local polynomial: errors like h⁸, beyond what extrapolation eliminates.
_POINTS = 8
#: Bisections of a cell, down to rounding.
_BISECTIONS = 52


@dataclass(frozen=True)
class Values:
    """v and u at positions, the quantiles of some probabilities, the mean, and the total mass."""

    v: Floats
    u: Floats
    quantiles: Floats
    mean: float
    mass: float

    @property
    def smooth(self) -> Floats:
        """All that has an error expansion, in one row."""
        return np.concatenate([self.v, self.u, self.quantiles, [self.mean]])


def read(cells: Cells, x: Floats, probabilities: Floats) -> Values:
    """Return the values at positions x ≥ 0; beyond the domain v and u are 0."""
    v, h = cells.v, cells.h
    inside = x < h * cells.u.size
    place = np.where(inside, x, 0.0) / h
    return Values(
        v=np.where(inside, interpolate(v, place), 0.0),
        u=np.where(inside, interpolate(cells.u, place - 0.5) / h, 0.0),
        quantiles=np.array([quantile(v, h, 1.0 - p) for p in probabilities.tolist()]),
        mean=h * (float(np.cumsum(v)[-1]) - 0.5 * float(v[0])),
        mass=float(v[0]),
    )


def interpolate(values: Floats, place: Floats) -> Floats:
    """Return the polynomial through the `_POINTS` values about each place (in steps from the first value)."""
    first = np.clip(np.floor(place).astype(np.int64) - _POINTS // 2 + 1, 0, values.size - _POINTS)
    offset = place - first
    total = np.zeros(place.shape)
    for k in range(_POINTS):
        weight = np.ones(place.shape)
        for m in range(_POINTS):
            if m != k:
                weight = weight * ((offset - m) / (k - m))
        total = total + weight * values[first + k]
    return total


def quantile(v: Floats, h: float, share: float) -> float:
    """Return where v, with node values that do not increase, falls to `share`, by bisection of one cell."""
    at = int(np.count_nonzero(v > share)) - 1
    if at < 0:
        return 0.0
    low, high = float(at), at + 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if float(interpolate(v, np.array([middle]))[0]) > share:
            low = middle
        else:
            high = middle
    return h * low


def default_positions(found: list[Cells], share: float, count: int) -> Floats:
    """Return `count` + 1 equally spaced positions from 0 to where v ≤ `share` for all of the cells."""
    end = 0.0
    for cells in found:
        end = max(end, cells.h * int(np.count_nonzero(cells.v > share)))
    return np.asarray(np.arange(count + 1) * (end / count), dtype=np.float64)
