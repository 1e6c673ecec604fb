"""The law of X_0: point masses, a scaled service law, or a sample."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.cell import canonical
from sweep.diffusion import kernels
from sweep.laws import Law, parse_law

Floats = NDArray[np.float64]

_CURE = (
    'write "empty", "point(x=1.5)", "points(0.5: 0.2, 2: 0.8)" or "law(exponential, mean=0.7)", '
    "or give an array of positions"
)
_POINT = re.compile(r"point\(\s*x\s*=\s*(?P<x>[^=]*)\)\Z")
_POINTS = re.compile(r"points\((?P<pairs>.*)\)\Z", re.DOTALL)
_LAW = re.compile(r"law\((?P<law>.*),\s*mean\s*=\s*(?P<mean>[^=,()]*)\)\Z", re.DOTALL)
_NUMBER = re.compile(r"\s*(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z", re.ASCII)


@dataclass(frozen=True, eq=False)
class Start:
    """The law of X_0 ≥ 0: `weights` at `points`, and the rest as `scale` times the smooth part of `law`.

    `text` is canonical: two starts are the same law, in the same order, when their texts agree.
    """

    text: str
    points: Floats
    weights: Floats
    law: Law | None = None
    scale: float = 1.0

    def survival(self, x: ArrayLike) -> Floats:
        """P(X_0 > x) for x ≥ 0, of the shape of x."""
        positions = np.asarray(x, dtype=np.float64)
        if self.law is not None:
            return self.law.survival(positions / self.scale)
        order = np.argsort(self.points, kind="stable")
        at_or_below = np.concatenate([[0.0], np.cumsum(self.weights[order])])
        below = at_or_below[np.searchsorted(self.points[order], positions, side="right")]
        return np.asarray(1.0 - below / at_or_below[-1])

    def beyond(self, x: float) -> float:
        """E (X_0 − x)⁺, for x ≥ 0."""
        if self.law is not None:
            return self.scale * float(self.law.integrated_tail(x / self.scale))
        total = 0.0
        for point, weight in zip(self.points.tolist(), self.weights.tolist(), strict=True):
            total += weight * max(point - x, 0.0)
        return total

    @property
    def mean(self) -> float:
        """E X_0."""
        return self.scale if self.law is not None else self.beyond(0.0)

    def reach(self, share: float) -> float:
        """Return an x beyond which X_0 lies with probability ≤ `share` (0 for points: none lies beyond)."""
        if self.law is None:
            return float(np.max(self.points))
        if self.law.support_end < math.inf:
            return self.scale * self.law.support_end
        x = self.scale
        while self.law.survival(x / self.scale) > share:
            x *= 1.25
        return x

    def masses(self, cells: int, h: float) -> Floats:
        """Return the masses of cells of width h, shape (cells,), that stand for the law.

        A point is shared by the three cells about it so that its mean is exact and its variance h²/4
        wherever it lies (the quadratic B-spline); the smooth part keeps its mean exactly (the linear one).
        What would lie below 0 is reflected, what lies beyond the last cell is put into it.
        """
        u = np.zeros(cells)
        if self.law is not None and sum(self.weights.tolist()) < 1.0:
            u += self._smooth_masses(cells, h)
        kernels.share_points(self.points, self.weights, h, u)
        return u

    def _smooth_masses(self, cells: int, h: float) -> Floats:
        assert self.law is not None
        centers = (np.arange(-1, cells + 1) + 0.5) * h
        # E (X − c)⁺ at the centers; its second differences are the expected linear splines.
        tail = self.scale * self.law.integrated_tail(np.maximum(centers, 0.0) / self.scale)
        tail[0] += 0.5 * h
        for point, weight in zip(self.points.tolist(), self.weights.tolist(), strict=True):
            tail -= weight * np.maximum(point - centers, 0.0)
        hits = (tail[:-1] - tail[1:]) / h  # P(X beyond), smoothed, from between two centers on
        return np.maximum(np.append(hits[:-2] - hits[1:-1], hits[-2]), 0.0) + _first(cells, 1.0 - hits[0], self)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw `size` independent values of X_0; a sample of that size is returned as it stands."""
        if self.law is not None:
            return self.law.sample(rng, size) * self.scale
        if self.points.size == size:
            return self.points.copy()
        return self.points[np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(size), side="right")]
