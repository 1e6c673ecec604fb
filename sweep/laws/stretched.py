"""Laws whose tails lie between exponential and power, or beyond: Weibull and lognormal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from sweep.laws.base import FloatArray, Law, elementwise
from sweep.laws.parameters import Range
from sweep.laws.special import log_normal_cdf, lower_gamma, normal_cdf, scaled_erfc, upper_gamma

#: z = −log Ḡ below which Weibull integrals are their first two terms, to 1e-18.
_SMALL = 1e-9


@final
@dataclass(frozen=True, kw_only=True)
class Weibull(Law):
    """Ḡ(x) = e^{−z}, z = (x/s)^k, s = 1/Γ(1 + 1/k) with shape k (`shape`).

    With P and Q the regularised incomplete gamma functions, ∫_0^x Ḡ = P(1/k, z), ∫_x^∞ Ḡ = Q(1/k, z) and
    ∫_0^x yḠ dy = (E S²/2) P(2/k, z).

    Examples
    --------
    >>> law = Weibull(shape=0.5)
    >>> float(law.survival(2.0)), law.variance
    (0.1353352832366127, 5.0)
    """

    name: ClassVar[str] = "weibull"
    ranges: ClassVar[Mapping[str, Range]] = MappingProxyType({"shape": Range(least=0.05, most=100.0)})
    shape: float

    @property
    def _scale(self) -> float:
        return 1.0 / math.gamma(1.0 + 1.0 / self.shape)

    @property
    def _second_moment(self) -> float:
        mean = math.gamma(1.0 + 1.0 / self.shape)
        return math.gamma(1.0 + 2.0 / self.shape) / mean / mean

    @property
    def variance(self) -> float:
        """Var S = Γ(1 + 2/k)/Γ(1 + 1/k)² − 1."""
        return self._second_moment - 1.0

    @property
    def origin_exponent(self) -> float:
        """The shape k: Ḡ(a) = 1 − c a^k + c² a^{2k}/2 − …."""
        return self.shape

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return rng.weibull(self.shape, size) * self._scale

    def _hazard_integral(self, x: FloatArray) -> FloatArray:
        """Return z = (x/s)^k = −log Ḡ(x)."""
        shape, scale = self.shape, self._scale

        def power(age: float) -> float:
            ratio = age / scale
            return ratio**shape if ratio <= 1.0 or shape * math.log(ratio) < 700.0 else math.inf

        return elementwise(power, x)

    def _survival(self, x: FloatArray) -> FloatArray:
        return elementwise(lambda z: math.exp(-z), self._hazard_integral(x))

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return -self._hazard_integral(x)

    def _density(self, x: FloatArray) -> FloatArray:
        shape, log_scale = self.shape, math.log(self._scale)

        def density(age: float) -> float:
            if age == 0.0:
                return math.inf if shape < 1.0 else float(shape == 1.0)
            log_z = shape * (math.log(age) - log_scale)
            if log_z > 7.0:
                return 0.0
            log_density = log_z - math.exp(log_z) - math.log(age)
            return shape * math.exp(log_density) if log_density < 709.0 else math.inf

        return elementwise(density, x)

    def _integral(self, x: FloatArray) -> FloatArray:
        z = self._hazard_integral(x)
        return np.where(z < _SMALL, self._start(x, z), lower_gamma(1.0 / self.shape, z))

    def _double_integral(self, x: FloatArray) -> FloatArray:
        z = self._hazard_integral(x)
        moment = self._second_moment / 2.0 * lower_gamma(2.0 / self.shape, z)
        near = np.where(z < _SMALL, x, 0.0)
        start = near * near * (0.5 - np.minimum(z, _SMALL) / (2.0 + self.shape))
        return x * self._integral(x) - np.where(z < _SMALL, start, moment)

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        z = self._hazard_integral(x)
        return np.where(z < _SMALL, 1.0 - self._start(x, z), upper_gamma(1.0 / self.shape, z))

    def _start(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """∫_0^x Ḡ to order z², right where z itself underflows."""
        return np.where(z < _SMALL, x * (1.0 - np.minimum(z, _SMALL) / (1.0 + self.shape)), 0.0)


@final
@dataclass(frozen=True, kw_only=True)
class Lognormal(Law):
    """log S is normal with standard deviation σ (`sigma`) and mean −σ²/2.

    With y = (log x + σ²/2)/σ and Φ the normal cdf, Ḡ(x) = Φ(−y), E[S; S ≤ x] = Φ(y − σ) and
    E[S²; S ≤ x] = e^{σ²} Φ(y − 2σ).

    Examples
    --------
    >>> float(Lognormal(sigma=1.0).integral(1.0).round(12))
    0.617075077452
    """

    name: ClassVar[str] = "lognormal"
    ranges: ClassVar[Mapping[str, Range]] = MappingProxyType({"sigma": Range(least=0.01, most=10.0)})
    sigma: float

    @property
    def variance(self) -> float:
        """Var S = e^{σ²} − 1."""
        return math.expm1(self.sigma * self.sigma)

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times, shape (size,)."""
        return rng.lognormal(-self.sigma * self.sigma / 2.0, self.sigma, size)

    def _quantile(self, x: FloatArray) -> FloatArray:
        """Return y = (log x + σ²/2)/σ."""
        sigma = self.sigma
        return elementwise(lambda age: math.log(age) / sigma + sigma / 2.0 if age > 0.0 else -math.inf, x)

    def _survival(self, x: FloatArray) -> FloatArray:
        return normal_cdf(-self._quantile(x))

    def _log_survival(self, x: FloatArray) -> FloatArray:
        return log_normal_cdf(-self._quantile(x))

    def _density(self, x: FloatArray) -> FloatArray:
        norm = self.sigma * math.sqrt(2.0 * math.pi)
        sigma = self.sigma

        def density(age: float) -> float:
            if age == 0.0:
                return 0.0
            log_age = math.log(age)
            y = log_age / sigma + sigma / 2.0
            return math.exp(-y * y / 2.0 - log_age) / norm

        return elementwise(density, x)

    def _integral(self, x: FloatArray) -> FloatArray:
        y = self._quantile(x)
        return x * normal_cdf(-y) + normal_cdf(y - self.sigma)

    def _double_integral(self, x: FloatArray) -> FloatArray:
        y = self._quantile(x)
        upper = math.exp(self.sigma * self.sigma) * normal_cdf(y - 2.0 * self.sigma)
        # x (x Ḡ) in this order: x² alone may overflow.
        return (
            x * (x * normal_cdf(-y) + normal_cdf(y - self.sigma)) - (x * (x * normal_cdf(-y)) + upper) / 2.0
        )

    def _integrated_tail(self, x: FloatArray) -> FloatArray:
        # E(S−x)⁺ = Φ(σ−y) − xΦ(−y); for y > σ both are φ(y−σ) times a Mills ratio, and φ is taken out.
        y = self._quantile(x)
        deep = y > self.sigma
        values = np.empty_like(x)
        values[~deep] = normal_cdf(self.sigma - y[~deep]) - x[~deep] * normal_cdf(-y[~deep])
        values[deep] = _mills_difference(y[deep] - self.sigma, y[deep])
        return values


def _mills_difference(low: FloatArray, high: FloatArray) -> FloatArray:
    """e^{−low²/2} [erfcx(low/√2) − erfcx(high/√2)] / 2 for 0 < low < high."""
    root = math.sqrt(0.5)
    near, far = scaled_erfc(low * root), scaled_erfc(high * root)
    return 0.5 * elementwise(lambda y: math.exp(-y * y / 2.0), low) * (near - far)
