"""Births long ago, merged: the work of a long path grows with its length almost linearly.

Jobs that were born in one step move along one characteristic, and all characteristics change by the same
linear equation. So a path is marched in blocks of steps. At the end of a block the jobs in service become the
parts of the next one (`kernels.march`): what is left of them at its nodes is all that it needs to know, and
their cells are carried over a whole block at a time. Nothing is approximated by that.

Cells of births long ago are merged. Over births in an interval much shorter than their age Ḡ(t − τ) is a
polynomial in τ to 1e-13: its values at 12 Chebyshev points of the interval are enough, and the cells become
masses there. Intervals double in length as they age, so that there are some log T of them. How old an
interval must be is found by testing the interpolation over all ages that come; where Ḡ is not smooth it waits
until Ḡ is. Intervals of which nothing is left are dropped. `bound` is what this may cost, per birth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from sweep.fluid.kernels import add_cells, add_points, carry
from sweep.fluid.panels import gauss_legendre
from sweep.fluid.weights import Weights
from sweep.laws import Law

Floats = NDArray[np.float64]
#: Steps of a block, and of the shortest interval.
BLOCK = 32
#: Chebyshev points of an interval, and between them the points at which interpolation is tested.
_POINTS, _TESTS = 12, 25
#: Error of Ḡ that interpolation may make, and a Ḡ that is nothing.
_ACCURACY, _NOTHING = 1e-13, 1e-18
#: Gauss points by which polynomials of degree 11 are averaged over a cell.
_GAUSS = 8


@final
@dataclass
class _Interval:
    """Masses, shape (level, point), of the births from step `start` on; the length follows from its class."""

    start: int
    charges: Floats


@final
class Past:
    """Birth cells before the present block, and the intervals into which the oldest are merged.

    Parameters
    ----------
    law, weights
        The service law, and its weights on the time grid.
    step
        The step of the grid, uniform.
    cells
        Shape (level, birth cell), the cells of the path; the graded ones are never merged.
    parts, remaining
        What `kernels.march` takes for the jobs in service at time 0.
    merges
        Whether cells may be merged; else they are only carried, and can be read off.
    """

    def __init__(
        self,
        law: Law,
        weights: Weights,
        step: float,
        cells: Floats,
        parts: Floats,
        remaining: Floats,
        merges: bool,
    ) -> None:
        self._law, self._weights, self._step, self._cells = law, weights, step, cells
        self._parts, self._remaining = parts.copy(), remaining
        self._graded = self._raw = weights.layer.shape[1]
        self._gone = _oldest(law, step, cells.shape[1])
        ages = least_ages(law, step, self._gone) if merges else []
        self._ages = ages if ages and ages[0] + BLOCK < weights.alive else []
        self._intervals: list[list[_Interval]] = [[] for _ in self._ages]
        self._tables = [np.empty((0, _POINTS)) for _ in self._ages]
        self.columns = 0

    @property
    def bound(self) -> float:
        """Error of S per birth."""
        return 2.0 * _ACCURACY if self._intervals else 0.0

    def blocks(self) -> range:
        """Return the nodes at which a block ends and another begins."""
        return range(self._graded + BLOCK, self._cells.shape[1], BLOCK)

    def advance(self, node: int, parts: Floats, block: int) -> Floats:
        """End the block of steps [block, node), and begin the next one.

        Return what is left, at the nodes of the next block, of all jobs in service at its beginning, shape
        (node, level).
        """
        if block:
            carry(parts, self._parts)
            carry(parts, self._cells[:, : self._graded])
            carry(parts, self._cells[:, self._raw : block])
            for interval in self._all():
                carry(parts, interval.charges)
        else:
            self._parts = parts.copy()
        if not self._ages:
            self._raw = max(self._raw, node - self._weights.alive)
        for size, age in enumerate(self._ages):
            self._merge(size, node - (BLOCK << size) - age)
        for size, kind in enumerate(self._intervals):
            length = BLOCK << size
            while kind and node - kind[0].start - length >= self._gone:
                del kind[0]
        return self._left(node, min(node + BLOCK, self._cells.shape[1]))

    def cells_at(self, node: int, parts: Floats, block: int) -> tuple[Floats, Floats]:
        """Return cells and parts at a node of a block that began at node `block`, if cells are not merged."""
        cells, first = self._cells[:, :node].copy(), parts.copy()
        if block:
            carry(parts, cells[:, :block])
            first = self._parts.copy()
            carry(parts, first)
        return cells, first

    def _left(self, node: int, stop: int) -> Floats:
        result = np.zeros((stop - node + 1, self._cells.shape[0]))
        add_points(self._remaining[node : stop + 1], self._parts, result)
        add_points(self._weights.layer[node : stop + 1], self._cells[:, : self._graded], result)
        add_cells(self._weights.even, node, self._raw, node, self._cells, result)
        for size, kind in enumerate(self._intervals):
            for interval in kind:
                rows = self._rows(size, node - interval.start, result.shape[0])
                add_points(rows, interval.charges, result)
        held = self._graded + node - self._raw + _POINTS * len(self._all())
        self.columns = max(self.columns, held + BLOCK)
        # Rounding, and interpolation, must not make completions negative.
        return np.asarray(np.minimum.accumulate(result, axis=0))

    def _all(self) -> list[_Interval]:
        return [interval for kind in self._intervals for interval in kind]

    def _merge(self, size: int, latest: int) -> None:
        """Make intervals of one size of what is half as long, as far as it began by step `latest`."""
        if size == 0:
            while self._raw <= latest:
                born = self._cells[:, self._raw : self._raw + BLOCK]
                self._intervals[0].append(_Interval(self._raw, _weighed(_averages(), born)))
                self._raw += BLOCK
            return
        half = self._intervals[size - 1]
        while len(half) > 1 and half[0].start <= latest:
            both = np.concatenate([half[0].charges, half[1].charges], axis=1)
            self._intervals[size].append(_Interval(half[0].start, _weighed(_doubling(), both)))
            del half[:2]

    def _rows(self, size: int, lag: int, count: int) -> Floats:
        """Return Ḡ at the points of an interval that began `lag` steps ago, and at the next nodes."""
        length = BLOCK << size
        first = lag - length - self._ages[size]
        held = self._tables[size]
        if first + count > held.shape[0]:
            wanted = max(first + count, 2 * held.shape[0])
            lags = np.arange(held.shape[0], wanted) + (length + self._ages[size])
            ages = (lags[:, None] - length * np.array(_points())) * self._step
            held = self._tables[size] = np.concatenate([held, self._law.survival(ages)])
        return held[first : first + count]


def least_ages(law: Law, step: float, count: int) -> list[int]:
    """Return how old, in steps, intervals of 32, 64, 128, … steps must be for Ḡ to be interpolated on them.

    The list ends where intervals would have no use, no age being above `count`. Ages are tested at every half
    length.
    """
    ages: list[int] = []
    last = max((age for age in law.breakpoints if age < math.inf), default=0.0)
    tests = np.arange(1, 2 * _TESTS, 2) / (2.0 * _TESTS)
    basis = _basis(tests)
    while 4 * (length := BLOCK << len(ages)) < count:
        starts = np.arange(1, 2 * (count // length) + 1) * (0.5 * length * step)
        nodes = law.survival(starts[:, None] + length * step * np.array(_points()))
        error = -law.survival(starts[:, None] + length * step * tests)
        for q in range(_POINTS):
            error += nodes[:, q, None] * basis[:, q]
        bad = np.flatnonzero((np.abs(error).max(axis=1) > _ACCURACY) | (starts < last))
        first = int(bad[-1]) + 1 if bad.size else 0
        age = math.ceil(0.5 * length * (first + 1))
        if age + 2 * length >= count:
            break
        ages.append(age)
    return ages


def _oldest(law: Law, step: float, count: int) -> int:
    """Return the age, in steps, from which on nothing is left, at most `count`."""
    ages = np.arange(0, count, BLOCK)
    return min(count, BLOCK * int(np.count_nonzero(law.survival(ages * step) >= _NOTHING)))


def _weighed(weights: Floats, columns: Floats) -> Floats:
    """Return masses at the points, shape (level, point), of columns with weights (point, column)."""
    result = np.zeros((weights.shape[0], columns.shape[0]))
    add_points(weights, np.ascontiguousarray(columns), result)
    return np.ascontiguousarray(result.T)


@cache
def _points() -> tuple[float, ...]:
    """Chebyshev points of [0, 1]."""
    angles = (math.pi * (2 * q + 1) / (2 * _POINTS) for q in range(_POINTS))
    return tuple(0.5 - 0.5 * math.cos(angle) for angle in angles)


def _basis(x: Floats) -> Floats:
    """Lagrange polynomials of the points at each x, shape (x, point)."""
    points = _points()
    values = np.ones((x.size, _POINTS))
    for q, own in enumerate(points):
        for other in points:
            if other != own:
                values[:, q] *= (x - other) / (own - other)
    return values


@cache
def _averages() -> Floats:
    """Means of the Lagrange polynomials over each of the cells of an interval, shape (point, cell)."""
    nodes, weights = gauss_legendre(_GAUSS)
    means = np.zeros((BLOCK, _POINTS))
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        means += 0.5 * weight * _basis((np.arange(BLOCK) + 0.5 + 0.5 * node) / BLOCK)
    return np.ascontiguousarray(means.T)


@cache
def _doubling() -> Floats:
    """Lagrange polynomials at the points of both halves of an interval, shape (point, point of a half)."""
    halves = np.array(_points()) / 2.0
    return np.ascontiguousarray(_basis(np.concatenate([halves, halves + 0.5])).T)
