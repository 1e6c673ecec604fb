"""The exponential law and mixtures of two exponentials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from sweep.laws.base import FloatArray, Law, elementwise
from sweep.laws.parameters import Range
from sweep.laws.special import lower_gamma


@final
@dataclass(frozen=True, kw_only=True)
class Exponential(Law):
    """Ḡ(x) = e^{−x}, without memory.

    Examples
    --------
    >>> float(Exponential().integral(1.0))
    0.6321205588285577
    """

    name: ClassVar[str] = "exponential"

    @property
    def variance(self) -> float:
        """Var S = 1."""
        return 1.0

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return rng.standard_exponential(size)

    def _survival(self, x: FloatArray) -> FloatArray:
        return elementwise(_decay, x)

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return -x

    def _density(self, x: FloatArray) -> FloatArray:
        return self._survival(x)

    def _integral(self, x: FloatArray) -> FloatArray:
        return elementwise(_one_less_decay, x)

    def _double_integral(self, x: FloatArray) -> FloatArray:
        # x P(1,x) − P(2,x): x − (1 − e^{−x}) would cancel at small x.
        return x * self._integral(x) - lower_gamma(2.0, x)

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        return self._survival(x)

    def _transform(self, s: FloatArray) -> FloatArray:
        return 1.0 / (1.0 + s)


@final
@dataclass(frozen=True, kw_only=True)
class Hyperexponential(Law):
    """Mixture of two exponentials with balanced means: rate 2p with probability p, rate 2(1−p) with 1−p.

    With squared coefficient of variation c ≥ 1 (`scv`), p = (1 + √((c−1)/(c+1)))/2. c = 1 is the exponential
    law under another name, drawn from other random numbers.

    Examples
    --------
    >>> Hyperexponential(scv=10).variance
    10.0
    """

    name: ClassVar[str] = "hyperexponential"
    ranges: ClassVar[Mapping[str, Range]] = MappingProxyType({"scv": Range(least=1.0, most=1e6)})
    scv: float

    @property
    def _shares(self) -> tuple[float, float]:
        # 1 − p without subtraction: it is 5e-7 for scv = 1e6. Then p from it, so that the two add up to 1.
        rarely = 1.0 / ((self.scv + 1.0) * (1.0 + math.sqrt((self.scv - 1.0) / (self.scv + 1.0))))
        return 1.0 - rarely, rarely

    @property
    def variance(self) -> float:
        """Var S = c."""
        return self.scv

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,), from two exponentials each: branch, then time."""
        often, rarely = self._shares
        draws = rng.standard_exponential((size, 2))
        rate = np.where(draws[:, 0] < -math.log(rarely), 2.0 * often, 2.0 * rarely)
        return draws[:, 1] / rate

    def _mix(self, of_rate: list[FloatArray], weights: tuple[float, float]) -> FloatArray:
        return weights[0] * of_rate[0] + weights[1] * of_rate[1]

    def _exponentials(self, x: FloatArray) -> list[FloatArray]:
        return [elementwise(_decay, 2.0 * p * x) for p in self._shares]

    def _survival(self, x: FloatArray) -> FloatArray:
        return self._mix(self._exponentials(x), self._shares)

    def _log_survival(self, x: FloatArray) -> FloatArray:
        often, rarely = self._shares
        gap = 2.0 * (often - rarely)

        def log_survival(age: float) -> float:
            if age < 0.5:
                return math.log1p(
                    often * math.expm1(-2.0 * often * age) + rarely * math.expm1(-2.0 * rarely * age)
                )
            return math.log(rarely + often * math.exp(-gap * age)) - 2.0 * rarely * age

        return elementwise(log_survival, x)

    def _density(self, x: FloatArray) -> FloatArray:
        often, rarely = self._shares
        return self._mix(self._exponentials(x), (2.0 * often * often, 2.0 * rarely * rarely))

    def _integral(self, x: FloatArray) -> FloatArray:
        parts = [elementwise(_one_less_decay, 2.0 * p * x) for p in self._shares]
        return self._mix(parts, (0.5, 0.5))

    def _double_integral(self, x: FloatArray) -> FloatArray:
        often, rarely = self._shares
        moments = [lower_gamma(2.0, 2.0 * p * x) for p in (often, rarely)]
        return x * self._integral(x) - self._mix(moments, (0.25 / often, 0.25 / rarely))

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        return self._mix(self._exponentials(x), (0.5, 0.5))

    def _transform(self, s: FloatArray) -> FloatArray:
        often, rarely = self._shares
        return 2.0 * often * often / (2.0 * often + s) + 2.0 * rarely * rarely / (2.0 * rarely + s)


def _decay(x: float) -> float:
    return math.exp(-x)


def _one_less_decay(x: float) -> float:
    return -math.expm1(-x)
