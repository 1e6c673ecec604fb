"""Panels of age that grow geometrically, and the moments of Ḡ on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sweep.laws import Law

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: A function of age such as Ḡ.
Measure = Callable[[Floats], Floats]

#: Degree of the polynomials on a panel.
DEGREE = 16
#: Gauss nodes of an interval on which Ḡ is integrated.
_NODES = 20
#: Share of a panel's ∫Ḡ by which two quadratures of it may differ.
_AGREEMENT = 4e-15


@dataclass(frozen=True)
class Panels:
    """Ages 0 = a_0 < a_1 < … and, for each panel, ∫ P_k Ḡ da with P_k the Legendre polynomials on it.

    `edges` has shape (panel + 1,), `moments` (panel, DEGREE + 1); `growth` is the ratio of a width to its
    left end, `first` the least width.
    """

    law: Law
    growth: float
    first: float
    edges: Floats
    moments: Floats

    @classmethod
    def start(cls, law: Law, growth: float, first: float) -> Panels:
        """Return panels over the first ages, the first of width at most `first`."""
        empty = cls(law, growth, first, np.zeros(1), np.empty((0, DEGREE + 1)))
        return empty.extended(8.0)

    @property
    def widths(self) -> Floats:
        """Width of each panel, shape (panel,)."""
        return np.diff(self.edges)

    @property
    def end(self) -> float:
        """The oldest age covered."""
        return float(self.edges[-1])

    @property
    def complete(self) -> bool:
        """Whether the panels cover the support of the law."""
        return self.end >= self.law.support_end

    def holding(self, ages: Floats) -> Integers:
        """Return the panel of each age, the last one for ages beyond the end."""
        places = np.searchsorted(self.edges, ages, side="right") - 1
        return np.clip(places, 0, self.edges.size - 2).astype(np.int64)

    def extended(self, age: float) -> Panels:
        """Return panels that reach `age`, or the end of the support if that comes first."""
        law, last, edges = self.law, self.law.support_end, [self.end]
        while edges[-1] < min(age, last):
            edges.append(edges[-1] + max(self.first, self.growth * edges[-1]))
            if edges[-1] > last - 0.25 * (edges[-1] - edges[-2]):
                edges[-1] = last
        added = np.array(edges)
        moments = np.concatenate(
            [self.moments, moments_between(law.survival, law.breakpoints, added[:-1], added[1:])]
        )
        return Panels(law, self.growth, self.first, np.append(self.edges, added[1:]), moments)


def moments_between(
    measure: Measure,
    breakpoints: Sequence[float],
    lower: Floats,
    upper: Floats,
    left: Floats | None = None,
    right: Floats | None = None,
) -> Floats:
    """Return ∫_lower^upper P_k(a) measure(a) da, k = 0 … DEGREE, with Legendre polynomials on [left, right].

    Gauss–Legendre, cut at the breakpoints, each interval halved until it and its halves agree; so a singular
    origin costs some fifty halvings and nothing else. Arguments have shape (n,), the result (n, DEGREE + 1).
    """
    left, right = (lower if left is None else left), (upper if right is None else right)
    low, high, owner = _cut(breakpoints, lower, upper)
    coarse = _gauss(measure, low, high, left[owner], right[owner])
    mass = np.zeros(lower.size)
    np.add.at(mass, owner, coarse[:, 0])
    allowed = _AGREEMENT * np.maximum(mass, 1e-300)
    total = np.zeros((lower.size, DEGREE + 1))
    while low.size:
        middle = (low + high) / 2.0
        first = _gauss(measure, low, middle, left[owner], right[owner])
        second = _gauss(measure, middle, high, left[owner], right[owner])
        fine = first + second
        settled = np.abs(fine - coarse).max(axis=1) <= allowed[owner]
        settled |= (middle <= low) | (middle >= high)
        np.add.at(total, owner[settled], fine[settled])
        rest = ~settled
        low, high = np.concatenate([low[rest], middle[rest]]), np.concatenate([middle[rest], high[rest]])
        coarse = np.concatenate([first[rest], second[rest]])
        owner = np.tile(owner[rest], 2)
    return total


def _cut(breakpoints: Sequence[float], lower: Floats, upper: Floats) -> tuple[Floats, Floats, Integers]:
    """Return the intervals between breakpoints, and to which of the given ones each belongs."""
    breaks = np.asarray(breakpoints, dtype=np.float64)
    low: list[float] = []
    high: list[float] = []
    owner: list[int] = []
    for i, (a, b) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        ends = [a, *breaks[(breaks > a) & (breaks < b)].tolist(), b]
        low += ends[:-1]
        high += ends[1:]
        owner += [i] * (len(ends) - 1)
    return np.array(low), np.array(high), np.array(owner, dtype=np.int64)


def _gauss(measure: Measure, low: Floats, high: Floats, left: Floats, right: Floats) -> Floats:
    from sweep.fluid.invariant_kernels import legendre_moments

    nodes, weights = gauss_legendre(_NODES)
    ages = (low + high)[:, None] / 2.0 + (high - low)[:, None] / 2.0 * nodes
    moments = np.empty((low.size, DEGREE + 1))
    legendre_moments(measure(ages), low, high, left, right, nodes, weights, moments)
    return moments


@cache
def gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss–Legendre quadrature on [−1, 1], each of shape (count,).

    Newton's method in scalar arithmetic, so the same bits on every processor.
    """
    nodes, weights = np.empty(count), np.empty(count)
    for i in range(count):
        x = -math.cos(math.pi * (i + 0.75) / (count + 0.5))
        for _ in range(8):
            value, slope = _legendre(count, x)
            x -= value / slope
        nodes[i], weights[i] = x, 2.0 / ((1.0 - x * x) * _legendre(count, x)[1] ** 2)
    return nodes, weights


def _legendre(degree: int, x: float) -> tuple[float, float]:
    """P_n(x) and P_n'(x) for |x| < 1."""
    before, now = 1.0, x
    for k in range(1, degree):
        before, now = now, ((2 * k + 1) * x * now - k * before) / (k + 1)
    return now, degree * (x * now - before) / (x * x - 1.0)
