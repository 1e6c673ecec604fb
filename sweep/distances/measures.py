"""Finite measures on the line: atoms, or a cumulative function that is linear between ages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import numbers
from sweep.distances import kernels
from sweep.wording import shown

Floats = NDArray[np.float64]


class Vertices(NamedTuple):
    """Vertices of a cumulative function; neither positions nor values decrease, values start at 0."""

    positions: Floats
    values: Floats
    slopes: Floats  # from each vertex to the next, 0 along a jump and after the last


class Measure(ABC):
    """A finite measure on the line, checked and sorted."""

    @property
    @abstractmethod
    def mass(self) -> float:
        """Total mass."""

    @property
    def mass_at_infinity(self) -> float:
        """Mass beyond every finite position, which is near nothing finite."""
        return 0.0

    @property
    @abstractmethod
    def vertices(self) -> Vertices:
        """The cumulative function of the mass at finite positions."""


@final
@dataclass(frozen=True, eq=False)
class Atoms(Measure):
    """Point masses, in any order, at repeated positions too.

    Parameters
    ----------
    positions
        Shape (n,), finite; n = 0 is the zero measure.
    weights
        Shape (n,), finite and ≥ 0, or one number for all, as 1/N for ages of jobs in service.

    Raises
    ------
    ValueError
        Other values or shapes.

    Examples
    --------
    >>> ages = Atoms([0.4, 0.1], 0.5)
    >>> ages.positions, ages.mass
    (array([0.1, 0.4]), 1.0)
    """

    positions: Floats
    weights: Floats

    def __init__(self, positions: ArrayLike, weights: ArrayLike, *, name: str = "atoms") -> None:
        x = _line(f"positions of {name}", positions)
        w = numbers(f"weights of {name}", weights)
        if w.ndim == 0:
            bad = ~((w >= 0.0) & (w < math.inf))
            _refuse(f"weights of {name}", "be finite and not negative", w[None], bad[None])
            x = np.sort(x) if w > 0.0 else x[:0]
            w = np.full(x.size, float(w))
        else:
            w = _line(f"weights of {name}", w)
            if w.size != x.size:
                raise ValueError(
                    f"weights of {name} must be one number or as many as positions ({x.size}), got {w.size}"
                )
            _refuse(f"weights of {name}", "not be negative", w, w < 0.0)
            x, w = x[w > 0.0], w[w > 0.0]
            if np.any(x[1:] < x[:-1]):
                # Stable, so that the order of ties is the same on every processor.
                order = np.argsort(x, kind="stable")
                x, w = x[order], w[order]
        object.__setattr__(self, "positions", x)
        object.__setattr__(self, "weights", w)

    @cached_property
    def _cumulated(self) -> Floats:
        cumulated = np.empty(self.weights.size)
        kernels.accumulate(self.weights, cumulated)
        return cumulated

    @property
    def mass(self) -> float:
        """Total mass."""
        return float(self._cumulated[-1]) if self._cumulated.size else 0.0

    @cached_property
    def vertices(self) -> Vertices:
        """Two vertices an atom."""
        values = np.zeros(2 * self.weights.size)
        values[1::2] = self._cumulated
        values[2::2] = self._cumulated[:-1]
        return Vertices(np.repeat(self.positions, 2), values, np.zeros(values.size))


@final
@dataclass(frozen=True, eq=False)
class PiecewiseLinear(Measure):
    """A measure with cumulative function ν[0, a], linear between the ages at which it is given.

    Parameters
    ----------
    ages
        Shape (n,), not decreasing; a repeated age is a jump there. The last may be inf.
    cdf
        Shape (n,), finite, ≥ 0, not decreasing: mass up to and including each age. `cdf[0]` is an atom at
        `ages[0]`. What is added at inf lies at infinity: it matches no finite position, so that a Prohorov
        distance is then an upper bound, too large by no more than that mass.

    Raises
    ------
    ValueError
        Other values or shapes.

    Examples
    --------
    >>> half = PiecewiseLinear([0.0, 2.0, float("inf")], [0.0, 0.5, 0.5])
    >>> half.mass, half.mass_at_infinity
    (0.5, 0.0)
    """

    ages: Floats
    cdf: Floats

    def __init__(self, ages: ArrayLike, cdf: ArrayLike) -> None:
        x = numbers("ages", ages).copy()
        infinite = x.ndim == 1 and x.size > 0 and x[-1] == math.inf
        _line("ages", x[:-1] if infinite else x)
        values = _line("cdf", cdf)
        if values.size != x.size:
            raise ValueError(f"cdf must have as many values as ages ({x.size}), got {values.size}")
        if np.any(x[1:] < x[:-1]):
            k = int(np.argmax(x[1:] < x[:-1]))
            raise ValueError(f"ages must not decrease, got {x[k + 1]:g} after {x[k]:g}")
        _refuse("cdf", "not be negative", values, values < 0.0)
        if np.any(values[1:] < values[:-1]):
            k = int(np.argmax(values[1:] < values[:-1]))
            last, now = float(values[k]), float(values[k + 1])
            raise ValueError(f"cdf must not decrease, got {now!r} after {last!r} at age {x[k + 1]:g}")
        object.__setattr__(self, "ages", x)
        object.__setattr__(self, "cdf", values)

    @property
    def mass(self) -> float:
        """Total mass, the last value of the cdf."""
        return float(self.cdf[-1]) if self.cdf.size else 0.0

    @property
    def mass_at_infinity(self) -> float:
        """Mass beyond the last finite age."""
        finite = self.vertices.values
        return self.mass - (float(finite[-1]) if finite.size else 0.0)

    @cached_property
    def vertices(self) -> Vertices:
        """The ages, the first of them twice, without inf."""
        known = self.ages < math.inf
        positions, values = self.ages[known], self.cdf[known]
        if positions.size == 0:
            return Vertices(positions, values, values)
        positions = np.concatenate([positions[:1], positions])
        values = np.concatenate([np.zeros(1), values])
        width, rise = np.diff(positions), np.diff(values)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slopes = rise / width
        # A step too narrow for a finite slope is a jump.
        slopes = np.append(np.where(np.isfinite(slopes), slopes, 0.0), 0.0)
        return Vertices(positions, values, slopes)


def check_measures(mu: Any, nu: Any) -> None:
    """Refuse what are no measures.

    Raises
    ------
    TypeError
        One of the two is none.
    """
    for name, value in (("mu", mu), ("nu", nu)):
        if not isinstance(value, Measure):
            raise TypeError(f"{name} must be Atoms or PiecewiseLinear, got {shown(value)}")


def check_levels(name: str, values: Any) -> Sequence[Measure]:
    """Return the measures of a state, level by level.

    Raises
    ------
    TypeError
        Not a sequence of measures.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a list of measures, one a level, got {shown(values)}")
    for level, measure in enumerate(values, start=1):
        if not isinstance(measure, Measure):
            raise TypeError(f"{name} must be Atoms or PiecewiseLinear at level {level}, got {shown(measure)}")
    return values


def _line(name: str, values: ArrayLike) -> Floats:
    array = numbers(name, values).copy()
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    _refuse(name, "be finite", array, ~np.isfinite(array))
    return array


def _refuse(name: str, rule: str, values: Floats, bad: NDArray[np.bool_]) -> None:
    if np.any(bad):
        k = int(np.argmax(bad))
        raise ValueError(f"{name} must {rule}, got {values[k]:g} at index {k}")
