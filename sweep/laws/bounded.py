"""Laws on a bounded interval: uniform and deterministic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from sweep.laws.base import FloatArray, Law, elementwise
from sweep.laws.parameters import Range


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(Law):
    """Uniform on [1 − w/2, 1 + w/2], 0 < w ≤ 2 (`width`).

    Examples
    --------
    >>> Uniform(width=1).breakpoints
    (0.5, 1.5)
    """

    name: ClassVar[str] = "uniform"
    ranges: ClassVar[Mapping[str, Range]] = MappingProxyType({"width": Range(least=1e-6, most=2.0)})
    width: float

    @property
    def _start(self) -> float:
        return 1.0 - self.width / 2.0

    @property
    def variance(self) -> float:
        """Var S = w²/12."""
        return self.width * self.width / 12.0

    @property
    def support_end(self) -> float:
        """The right end 1 + w/2."""
        return 1.0 + self.width / 2.0

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Both ends, where the density jumps; an end at 0 is the origin and not listed."""
        return tuple(age for age in (self._start, self.support_end) if age > 0.0)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return self._start + self.width * rng.random(size)

    def _remaining(self, x: FloatArray) -> FloatArray:
        return np.maximum(self.support_end - np.maximum(x, self._start), 0.0)

    def _elapsed(self, x: FloatArray) -> FloatArray:
        return np.maximum(np.minimum(x, self.support_end) - self._start, 0.0)

    def _survival(self, x: FloatArray) -> FloatArray:
        # The quotient alone may round to another value than 1 before the start.
        return np.where(x <= self._start, 1.0, np.minimum(self._remaining(x) / self.width, 1.0))

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return elementwise(lambda value: math.log(value) if value > 0.0 else -math.inf, self._survival(x))

    def _density(self, x: FloatArray) -> FloatArray:
        return np.where((x >= self._start) & (x < self.support_end), 1.0 / self.width, 0.0)

    def _integral(self, x: FloatArray) -> FloatArray:
        elapsed = self._elapsed(x)
        return np.minimum(x, self.support_end) - elapsed * elapsed / (2.0 * self.width)

    def _double_integral(self, x: FloatArray) -> FloatArray:
        elapsed, inside = self._elapsed(x), np.minimum(x, self.support_end)
        within = inside * inside / 2.0 - elapsed * elapsed * elapsed / (6.0 * self.width)
        return within + (x - inside)

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        remaining = self._remaining(x)
        return np.maximum(self._start - x, 0.0) + remaining * remaining / (2.0 * self.width)

    def _transform(self, s: FloatArray) -> FloatArray:
        start, width = self._start, self.width
        return elementwise(
            lambda rate: (
                math.exp(-start * rate) * (-math.expm1(-width * rate) / (width * rate) if rate else 1.0)
            ),
            s,
        )


@final
@dataclass(frozen=True, kw_only=True)
class Deterministic(Law):
    """Every time is 1: an atom of mass 1 and no density.

    Examples
    --------
    >>> law = Deterministic()
    >>> float(law.survival(1.0)), float(law.survival_left(1.0))
    (0.0, 1.0)
    """

    name: ClassVar[str] = "deterministic"

    @property
    def variance(self) -> float:
        """Var S = 0."""
        return 0.0

    @property
    def support_end(self) -> float:
        """The right end 1."""
        return 1.0

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """One atom, of mass 1 at age 1."""
        return ((1.0, 1.0),)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """The atom."""
        return (1.0,)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:  # noqa: ARG002 (one signature)
        """Return `size` ones, shape (size,), and draw nothing."""
        return np.ones(size)

    def _survival(self, x: FloatArray) -> FloatArray:
        return np.where(x < 1.0, 1.0, 0.0)

    def _survival_left(self, x: FloatArray) -> FloatArray:
        return np.where(x <= 1.0, 1.0, 0.0)

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return np.where(x < 1.0, 0.0, -math.inf)

    def _density(self, x: FloatArray) -> FloatArray:
        return np.zeros_like(x)

    def _integral(self, x: FloatArray) -> FloatArray:
        return np.minimum(x, 1.0)

    def _double_integral(self, x: FloatArray) -> FloatArray:
        inside = np.minimum(x, 1.0)
        return inside * inside / 2.0 + (x - inside)

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        return np.maximum(1.0 - x, 0.0)

    def _transform(self, s: FloatArray) -> FloatArray:
        return elementwise(lambda rate: math.exp(-rate), s)
