"""The abstract law of a service or inter-arrival time of mean 1, and what every law must answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import numbers
from sweep.laws.parameters import Parameter, value_text
from sweep.laws.quadrature import laplace_transform

FloatArray = NDArray[np.float64]


def elementwise(function: Callable[[float], float], x: FloatArray) -> FloatArray:
    """Apply a scalar function to each entry of a one-dimensional array.

    NumPy's own array exp, log and power give other last bits on a processor with AVX-512 than on one without.
    """
    return np.fromiter(map(function, x.tolist()), dtype=np.float64, count=x.size)


@dataclass(frozen=True, kw_only=True)
class Law(ABC):
    """A law on [0, ∞) of mean 1: the time S that a job is served, or (times 1/λ) the gap between arrivals.

    Laws are frozen values: equal when name and parameters are, hashable, picklable; `str(law)` is canonical
    and `parse_law(str(law)) == law`. Functions of age take one age or an array of ages x ≥ 0 of any shape, in
    mean service times, inf included, and return float64 arrays of that shape. Samples and functions of age
    have the same bits on processors with and without AVX-512.

    Notes
    -----
    Smoothness at age 0: Ḡ(a) = 1 − c a^k + … with k = `origin_exponent`. A whole k is a smooth start. For
    k < 1 the density itself is infinite at 0; for 1 < k < 2, as gamma(shape=1.5), it is bounded and its slope
    is not; for 2 < k < 3, as gamma(shape=2.5), the slope is bounded too. The next exponents are k + 1, k + 2,
    … for gamma laws, and 2k, 3k, … for Weibull laws, where Ḡ(a) = 1 − c a^k + c² a^{2k}/2 − ….

    Product weights: with I = `integral` and J = `double_integral`, ∫_a^{a+h} Ḡ(y) (y − a)/h dy is
    I(a+h) − (J(a+h) − J(a))/h. I and J are good to 2e-14 of their values, most to 2e-15, and the weight to
    1e-14 (I + J/h) at worst: measured at h = 1e-3, absolute errors of 3e-12 at a = 1 and 9e-12 at a = 10,
    which is 6e-9 and 2e-8 of h/2. The first cell, a = 0, keeps the relative accuracy of I and J.
    """

    name: ClassVar[str]
    ranges: ClassVar[Mapping[str, Parameter]] = MappingProxyType({})

    def __post_init__(self) -> None:
        for parameter, allowed in self.ranges.items():
            object.__setattr__(self, parameter, allowed.check(parameter, getattr(self, parameter)))

    @final
    def __str__(self) -> str:
        arguments = self._arguments()
        return f"{self.name}({arguments})" if arguments else self.name

    def _arguments(self) -> str:
        return ", ".join(f"{parameter}={value_text(getattr(self, parameter))}" for parameter in self.ranges)

    @property
    def identity(self) -> str:
        """The text that stands for the law in keys; another text than `str(law)` where that names a file."""
        return str(self)

    @classmethod
    def form(cls) -> str:
        """Return how the law is written, without values."""
        inner = ", ".join(f"{parameter}=" for parameter in cls.ranges)
        return f"{cls.name}({inner})" if inner else cls.name

    @classmethod
    def usage(cls) -> str:
        """Return how the law is written, with the range of each parameter."""
        if not cls.ranges:
            return cls.form()
        return f"{cls.form()} with " + " and ".join(
            f"{parameter} {allowed.text}" for parameter, allowed in cls.ranges.items()
        )

    # ---- shape ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def variance(self) -> float:
        """Var S, which may be inf."""

    @property
    def support_end(self) -> float:
        """The right end L = inf{x : Ḡ(x) = 0} of the support."""
        return math.inf

    @property
    def tail_exponent(self) -> float | None:
        """The exponent β if Ḡ(x) ~ c x^{−β}, None for lighter tails."""
        return None

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """Ages of positive probability, increasing, each with its mass."""
        return ()

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Ages > 0, increasing, where Ḡ or one of its derivatives jumps; atoms are among them."""
        return ()

    @property
    def origin_exponent(self) -> float:
        """The exponent k of Ḡ(a) = 1 − c a^k + … at 0+; 1.0 where Ḡ is smooth or flat there."""
        return 1.0

    # ---- functions of age -------------------------------------------------------------------------------

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw `size` independent times.

        `sample(rng, a)` then `sample(rng, b)` gives the same bits as `sample(rng, a + b)`, so that a path
        does not depend on the sizes of buffers.
        """

    @final
    def survival(self, x: ArrayLike) -> FloatArray:
        """Ḡ(x) = P(S > x), right-continuous.

        Raises
        ------
        ValueError
            An age is no number, negative or nan (so for every function of age).
        """
        return _evaluate(self._survival, x, 0.0)

    @final
    def survival_left(self, x: ArrayLike) -> FloatArray:
        """Ḡ(x−) = P(S ≥ x), left-continuous: differs from `survival` at atoms only."""
        return _evaluate(self._survival_left, x, 0.0)

    @final
    def log_survival(self, x: ArrayLike) -> FloatArray:
        """Return log Ḡ(x), exact where Ḡ(x) itself underflows; −inf where Ḡ(x) = 0."""
        return _evaluate(self._log_survival, x, -math.inf)

    @final
    def density(self, x: ArrayLike) -> FloatArray:
        """Density g(x) of the absolutely continuous part, right-continuous; inf at a singular origin."""
        return _evaluate(self._density, x, 0.0)

    @final
    def integral(self, x: ArrayLike) -> FloatArray:
        """∫_0^x Ḡ(y) dy = E min(S, x), which tends to the mean 1."""
        return _evaluate(self._integral, x, 1.0)

    @final
    def double_integral(self, x: ArrayLike) -> FloatArray:
        """∫_0^x ∫_0^y Ḡ(z) dz dy = x ∫_0^x Ḡ − ∫_0^x y Ḡ(y) dy, inf at x = inf.

        The subtraction is harmless: Ḡ decreases, so the last integral is at most half the term before it.
        """
        return _evaluate(self._double_integral, x, math.inf)

    @final
    def integrated_tail(self, x: ArrayLike) -> FloatArray:
        """∫_x^∞ Ḡ(y) dy = E (S − x)⁺, to relative accuracy in the far tail too."""
        return _evaluate(self._integrated_tail, x, 0.0)

    @final
    def transform(self, s: ArrayLike) -> FloatArray:
        """Laplace transform E e^{−sS} for s ≥ 0, to 1e-12 (last bits may differ between processors).

        Raises
        ------
        ValueError
            An s is negative or nan.
        """
        return _evaluate(self._transform, s, 0.0, name="s")

    # ---- what a law supplies: each receives finite ages in a one-dimensional array ------------------------

    @abstractmethod
    def _survival(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_survival(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _density(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _integral(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _double_integral(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _integrated_tail(self, x: FloatArray) -> FloatArray: ...

    def _survival_left(self, x: FloatArray) -> FloatArray:
        return self._survival(x)

    def _transform(self, s: FloatArray) -> FloatArray:
        return laplace_transform(self._survival, s, self.breakpoints)


def _evaluate(
    function: Callable[[FloatArray], FloatArray], x: ArrayLike, at_infinity: float, name: str = "x"
) -> FloatArray:
    ages = numbers(name, x)
    refused = ages[~(ages >= 0.0)]
    if refused.size:
        raise ValueError(f"{name} must be at least 0, got {float(refused[0])!r}")
    values = np.full(ages.shape, at_infinity)
    finite = np.isfinite(ages)
    with np.errstate(over="ignore"):  # an age near 1e308 may overflow to inf on the way, which is then right
        values[finite] = function(ages[finite])
    return values
