"""Laws with a power tail Ḡ(x) ~ c x^{−β}: Lomax and Pareto."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from sweep.laws.base import FloatArray, Law, elementwise
from sweep.laws.parameters import Range
from sweep.laws.special import lower_gamma

_RANGES = MappingProxyType({"beta": Range(least=1.0, most=1e6, open_least=True)})


@dataclass(frozen=True, kw_only=True)
class _PowerLaw(Law):
    ranges: ClassVar[Mapping[str, Range]] = _RANGES
    beta: float

    @property
    @abstractmethod
    def _scale(self) -> float: ...

    @property
    def tail_exponent(self) -> float:
        """The exponent β of Ḡ(x) ~ c x^{−β}."""
        return self.beta


@final
@dataclass(frozen=True, kw_only=True)
class Lomax(_PowerLaw):
    """Ḡ(x) = (1 + x/(β−1))^{−β}, a power tail from age 0 on with decreasing hazard; β > 1 (`beta`).

    Below, L = log(1 + x/(β−1)).

    Examples
    --------
    >>> float(Lomax(beta=2).survival(1.0)), Lomax(beta=1.5).variance
    (0.25, inf)
    """

    name: ClassVar[str] = "lomax"

    @property
    def _scale(self) -> float:
        return self.beta - 1.0

    @property
    def variance(self) -> float:
        """Var S = β/(β−2), infinite for β ≤ 2."""
        return self.beta / (self.beta - 2.0) if self.beta > 2.0 else math.inf

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return rng.pareto(self.beta, size) * self._scale

    def _stretch(self, x: FloatArray) -> FloatArray:
        scale = self._scale
        return elementwise(lambda age: _log1p_ratio(age, scale), x)

    def _survival(self, x: FloatArray) -> FloatArray:
        beta = self.beta
        return elementwise(lambda stretch: math.exp(-beta * stretch), self._stretch(x))

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return -self.beta * self._stretch(x)

    def _density(self, x: FloatArray) -> FloatArray:
        beta, scale = self.beta, self._scale
        return elementwise(lambda stretch: beta / scale * math.exp(-(beta + 1.0) * stretch), self._stretch(x))

    def _integral(self, x: FloatArray) -> FloatArray:
        scale = self._scale
        return elementwise(lambda stretch: -math.expm1(-scale * stretch), self._stretch(x))

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        scale = self._scale
        return elementwise(lambda stretch: math.exp(-scale * stretch), self._stretch(x))

    def _double_integral(self, x: FloatArray) -> FloatArray:
        stretch = self._stretch(x)
        moment = np.empty_like(x)
        near = stretch < 1.0
        moment[near] = self._moment_near(stretch[near])
        moment[~near] = elementwise(self._moment_far, stretch[~near])
        return x * self._integral(x) - moment

    def _moment_near(self, stretch: FloatArray) -> FloatArray:
        """∫_0^x yḠ dy = Σ_{n≥1} (β−1)^{1−n} P(n+1, (β−1)L).

        The terms are positive and at most (β−1)² L^{n+1}/(n+1)!: 18 of them suffice for L < 1.
        """
        scale = self._scale
        depth = scale * stretch
        total, factor = np.zeros_like(stretch), 1.0
        for n in range(1, 19):
            total += factor * lower_gamma(n + 1.0, depth)
            factor /= scale
        return total

    def _moment_far(self, stretch: float) -> float:
        """∫_0^x yḠ dy = (β−1)² ∫_0^L (e^w − 1) e^{−(β−1)w} dw, its two terms apart."""
        scale = self._scale
        first = _exponential_integral(1.0 - scale, stretch, scale * scale)
        return first + scale * math.expm1(-scale * stretch)


@final
@dataclass(frozen=True, kw_only=True)
class Pareto(_PowerLaw):
    """Ḡ(x) = (x/m)^{−β} for x ≥ m = (β−1)/β, a power tail from its least time m on; β > 1 (`beta`).

    Examples
    --------
    >>> Pareto(beta=1.5).breakpoints
    (0.3333333333333333,)
    """

    name: ClassVar[str] = "pareto"

    @property
    def _scale(self) -> float:
        return (self.beta - 1.0) / self.beta

    @property
    def variance(self) -> float:
        """Var S = 1/(β(β−2)), infinite for β ≤ 2."""
        return 1.0 / (self.beta * (self.beta - 2.0)) if self.beta > 2.0 else math.inf

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """The least time m, where the density jumps from 0."""
        return (self._scale,)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return (rng.pareto(self.beta, size) + 1.0) * self._scale

    def _stretch(self, x: FloatArray) -> FloatArray:
        """log(x/m)⁺."""
        scale = self._scale
        return elementwise(lambda age: _log1p_ratio(age - scale, scale) if age > scale else 0.0, x)

    def _survival(self, x: FloatArray) -> FloatArray:
        beta = self.beta
        return elementwise(lambda stretch: math.exp(-beta * stretch), self._stretch(x))

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return -self.beta * self._stretch(x)

    def _density(self, x: FloatArray) -> FloatArray:
        slope, decay = self.beta / self._scale, self.beta + 1.0
        inside = elementwise(lambda stretch: slope * math.exp(-decay * stretch), self._stretch(x))
        return np.where(x >= self._scale, inside, 0.0)

    def _integral(self, x: FloatArray) -> FloatArray:
        beta = self.beta
        beyond = elementwise(lambda stretch: -math.expm1(-(beta - 1.0) * stretch) / beta, self._stretch(x))
        return np.minimum(x, self._scale) + beyond

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        beta = self.beta
        beyond = elementwise(lambda stretch: math.exp(-(beta - 1.0) * stretch) / beta, self._stretch(x))
        return np.maximum(self._scale - x, 0.0) + beyond

    def _double_integral(self, x: FloatArray) -> FloatArray:
        # ∫_0^x yḠ dy = min(x,m)²/2 + m² ∫_0^{log x/m} e^{(2−β)w} dw
        beta, start = self.beta, np.minimum(x, self._scale)
        square = self._scale * self._scale
        beyond = elementwise(
            lambda stretch: _exponential_integral(2.0 - beta, stretch, square), self._stretch(x)
        )
        return x * self._integral(x) - (start * start / 2.0 + beyond)


def _log1p_ratio(numerator: float, scale: float) -> float:
    """log(1 + numerator/scale), also where the quotient overflows."""
    ratio = numerator / scale
    return math.log1p(ratio) if ratio < 1e300 else math.log(numerator) - math.log(scale)


def _exponential_integral(rate: float, length: float, factor: float) -> float:
    """Factor × ∫_0^length e^{rate·w} dw, also where the integral alone overflows."""
    if rate == 0.0:
        return factor * length
    if rate * length < 700.0:
        return factor * (math.expm1(rate * length) / rate)
    return math.exp(rate * length + math.log(factor / rate))
