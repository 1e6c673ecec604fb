"""Gamma laws of mean 1: any shape, and Erlang's whole shapes."""

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
from sweep.laws.special import lower_gamma, upper_gamma

#: Ḡ below which log Ḡ and ∫_x^∞ Ḡ come from a continued fraction instead of Q.
_DEEP = 1e-3


@dataclass(frozen=True, kw_only=True)
class _GammaLaw(Law):
    """Ḡ(x) = Q(k, z), z = kx; E[S; S ≤ x] = P(k+1, z), E[S²; S ≤ x] = (1 + 1/k) P(k+2, z), P = 1 − Q."""

    @property
    @abstractmethod
    def origin_exponent(self) -> float:
        """The shape k: Ḡ(a) = 1 − c a^k (1 − …)."""

    @property
    def variance(self) -> float:
        """Var S = 1/k."""
        return 1.0 / self.origin_exponent

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return rng.standard_gamma(self.origin_exponent, size) / self.origin_exponent

    def _survival(self, x: FloatArray) -> FloatArray:
        return upper_gamma(self.origin_exponent, self.origin_exponent * x)

    def _log_survival(self, x: FloatArray) -> FloatArray:
        shape, survival = self.origin_exponent, self._survival(x)
        values, deep = np.empty_like(x), survival < _DEEP
        near = np.where(deep, 0.0, -lower_gamma(shape, shape * x))
        values[~deep] = elementwise(math.log1p, near[~deep])
        values[deep] = elementwise(lambda age: _log_mass(shape, age), x[deep])
        values[deep] -= elementwise(math.log, _fraction(shape, x[deep])[0])
        return values

    def _density(self, x: FloatArray) -> FloatArray:
        shape = self.origin_exponent

        def density(age: float) -> float:
            if age == 0.0:
                return math.inf if shape < 1.0 else float(shape == 1.0)
            log_density = _log_mass(shape, age) - math.log(age)
            return math.exp(log_density) if log_density < 709.0 else math.inf

        return elementwise(density, x)

    def _integral(self, x: FloatArray) -> FloatArray:
        shape = self.origin_exponent
        return x * upper_gamma(shape, shape * x) + lower_gamma(shape + 1.0, shape * x)

    def _double_integral(self, x: FloatArray) -> FloatArray:
        shape = self.origin_exponent
        square = (1.0 + 1.0 / shape) * lower_gamma(shape + 2.0, shape * x)
        return x * self._integral(x) - (x * (x * self._survival(x)) + square) / 2.0

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        shape, survival = self.origin_exponent, self._survival(x)
        values, deep = np.empty_like(x), survival < _DEEP
        near = x[~deep]
        values[~deep] = upper_gamma(shape + 1.0, shape * near) - near * survival[~deep]
        values[deep] = _deep_tail(shape, x[deep])
        return values

    def _transform(self, s: FloatArray) -> FloatArray:
        shape = self.origin_exponent
        return elementwise(lambda rate: math.exp(-shape * math.log1p(rate / shape)), s)


@final
@dataclass(frozen=True, kw_only=True)
class Gamma(_GammaLaw):
    """Gamma law of shape k (`shape`) and scale 1/k.

    Examples
    --------
    >>> Gamma(shape=0.5).variance
    2.0
    """

    name: ClassVar[str] = "gamma"
    ranges: ClassVar[Mapping[str, Range]] = MappingProxyType({"shape": Range(least=0.01, most=1e4)})
    shape: float

    @property
    def origin_exponent(self) -> float:
        """The shape k: Ḡ(a) = 1 − c a^k (1 − …)."""
        return self.shape


@final
@dataclass(frozen=True, kw_only=True)
class Erlang(_GammaLaw):
    """Sum of k exponential phases of mean 1/k each (`k`).

    Examples
    --------
    >>> Erlang(k=4).variance
    0.25
    """

    name: ClassVar[str] = "erlang"
    ranges: ClassVar[Mapping[str, Range]] = MappingProxyType({"k": Range(least=1, most=1e4, whole=True)})
    k: int

    @property
    def origin_exponent(self) -> float:
        """The number of phases k: Ḡ(a) = 1 − c a^k (1 − …)."""
        return float(self.k)


def _log_mass(shape: float, age: float) -> float:
    """Log of z^k e^{−z}/Γ(k) = x g(x), z = kx.

    Large shapes: −k(x − 1 − log x) and the Stirling series, since log z^k and log Γ(k) agree to many digits.
    """
    z = shape * age
    if shape < 20.0:
        return shape * (math.log(shape) + math.log(age)) - z - math.lgamma(shape)
    stirling = (
        1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * shape**2)) / shape**2) / shape**2
    ) / shape
    excess = age - 1.0
    log_age = math.log1p(excess) if abs(excess) < 0.5 else math.log(age)
    return 0.5 * math.log(shape / (2.0 * math.pi)) - stirling - shape * (excess - log_age)


def _fraction(shape: float, age: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1/C = z + 1 − k − r and r of Legendre's continued fraction Γ(k, z) = z^k e^{−z} C, z = kx.

    r = (1−k)/(z + 3 − k − 2(2−k)/(z + 5 − k − …)), from the bottom up; z lies well above k.
    """
    z = shape * age
    depth = 30 + math.ceil(20.0 * math.sqrt(shape + 1.0))
    below = np.zeros_like(z)
    for j in range(depth, 0, -1):
        below = -j * (j - shape) / (z + 2.0 * j + 1.0 - shape + below)
    return z + 1.0 - shape + below, -below


def _deep_tail(shape: float, age: FloatArray) -> FloatArray:
    """∫_x^∞ Ḡ = (z^k e^{−z}/Γ(k)) C (1 − r)/k, since Γ(k+1, z) − zΓ(k, z) = z^k e^{−z} (1 − (z − k) C)."""
    inverse, r = _fraction(shape, age)
    mass = elementwise(lambda one: math.exp(_log_mass(shape, one)), age)
    return mass * (1.0 - r) / (inverse * shape)
