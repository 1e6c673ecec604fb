"""Powers of N fitted to a statistic of replicas: one free power, or a sum of given ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.least_squares import Floats, LinearFit, fit_linear, fit_relative

#: Statistic over replicas -> k: it is (mean of x^k)^(1/k).
STATISTICS = {"mean": 1, "rms": 2}

#: Spreads are taken as equal at all N unless the test of `spreads_agree` rejects that at this level.
HOMOGENEITY_LEVEL = 0.01

#: A relative variance below this is rounding, and counts as 0.
ROUNDING = 1e-28


@dataclass(frozen=True, kw_only=True)
class Point:
    """A statistic at one N: its logarithm, and the relative spread behind it."""

    N: float
    log_value: float
    spread: float  # n times the variance of log_value, estimated at this N alone
    n: int
    cv2: float  # squared coefficient of variation of the replicas, whatever the statistic
    fourth: float  # mean fourth power of their relative deviations, for the kurtosis

    @property
    def value(self) -> float:
        """The statistic itself."""
        return math.exp(self.log_value)

    @property
    def stderr(self) -> float:
        """Standard error of the statistic, from the replicas of this N alone."""
        return self.value * math.sqrt(self.spread / self.n)


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """Fitted log E = log_constant + exponent · log N and what is known of its error."""

    exponent: float
    exponent_stderr: float
    freedom: float  # degrees of freedom of exponent_stderr
    log_constant: float
    log_constant_stderr: float
    p_value: float  # lack of fit; NaN with two N

    def interval(self, confidence: float) -> tuple[float, float]:
        """Two-sided t interval of the exponent."""
        half = float(special.stdtrit(self.freedom, 0.5 + confidence / 2)) * self.exponent_stderr
        return self.exponent - half, self.exponent + half


def summarise(N: float, replicas: Floats, statistic: str) -> Point:
    """Reduce the replicas of one N to a point of the regression.

    With y = x^k, q the mean of y over n replicas and c = var(y)/q², the delta method gives
    Var log q^(1/k) = c/(k² n).

    Parameters
    ----------
    N
        Number of servers.
    replicas
        Positive values, shape (n,), n ≥ 2.
    statistic
        A key of `STATISTICS`.

    Examples
    --------
    >>> point = summarise(100, np.array([1.0, 3.0]), "mean")
    >>> point.value, point.spread
    (2.0, 0.5)
    """
    k = STATISTICS[statistic]
    power = replicas**k
    mean = float(np.mean(power))
    relative = power / mean - 1.0
    centred = replicas / float(np.mean(replicas)) - 1.0
    second = float(np.sum(centred**2))
    varies = second > ROUNDING * len(relative)
    return Point(
        N=float(N),
        log_value=math.log(mean) / k,
        spread=varies * float(np.sum(relative**2)) / (len(relative) - 1) / k**2,
        n=len(relative),
        cv2=varies * second / (len(relative) - 1),
        fourth=float(np.sum(centred**4)) / len(relative),
    )


def spreads_agree(points: Sequence[Point]) -> float:
    """Return the p-value of equal relative spreads at all N.

    Bartlett's statistic divided by 1 + κ/2, κ the pooled excess kurtosis (Box 1953, Layard 1973), without
    which it takes skewed replicas for unequal ones.
    """
    spread = np.array([point.cv2 for point in points])
    freedom = np.array([point.n - 1.0 for point in points])
    if not spread.all():  # a spread of exactly 0 is a lack of resolution, not evidence
        return 1.0
    pooled = float(np.average(spread, weights=freedom))
    statistic = float(np.sum(freedom)) * math.log(pooled) - float(np.sum(freedom * np.log(spread)))
    groups = len(points) - 1
    statistic /= 1 + (float(np.sum(1 / freedom)) - 1 / float(np.sum(freedom))) / (3 * groups)
    return float(special.chdtrc(groups, max(statistic, 0.0) / (1 + excess_kurtosis(points) / 2)))


def excess_kurtosis(points: Sequence[Point]) -> float:
    """Return the excess kurtosis of the replicas' relative deviations pooled over N, 0 if it is negative."""
    counts = np.array([float(point.n) for point in points])
    fourth = float(np.average([point.fourth for point in points], weights=counts))
    second = float(np.average([point.cv2 * (1 - 1 / point.n) for point in points], weights=counts))
    return max(fourth / second**2 - 3.0, 0.0)


def fit_power_law(points: Sequence[Point], statistic: str) -> PowerLaw:
    """Fit log E = a + p log N by weighted least squares of the logarithms.

    Spreads that agree are pooled: weights n, t and F with Σ(n−1) degrees of freedom. Otherwise weights
    n/spread, as `analysis.least_squares.fit_linear` has it.

    Parameters
    ----------
    points
        At least two, at distinct N, not all of spread 0.
    statistic
        A key of `STATISTICS`.
    """
    variance, freedom, pooled = relative_variances(points)
    # E log q^(1/k) lies k/2 variances below its limit (second-order delta method).
    response = np.array([point.log_value for point in points]) + STATISTICS[statistic] / 2 * variance
    log_N = np.log([point.N for point in points])
    centre = float(np.average(log_N, weights=1 / variance))
    fit = fit_linear(
        np.column_stack([np.ones_like(log_N), log_N - centre]), response, variance, freedom, pooled=pooled
    )
    at_one = np.array([1.0, -centre])  # log N = 0
    return PowerLaw(
        exponent=float(fit.estimate[1]),
        exponent_stderr=float(fit.stderr[1]),
        freedom=float(fit.freedom[1]),
        log_constant=float(at_one @ fit.estimate),
        log_constant_stderr=math.sqrt(at_one @ fit.covariance @ at_one),
        p_value=fit.p_value,
    )


def fit_sum_of_powers(
    points: Sequence[Point], statistic: str, exponents: Sequence[float] = (-0.5, -1.0)
) -> LinearFit:
    """Fit E = Σ_j c_j N^{p_j} for given exponents p_j by weighted least squares.

    Relative variances are pooled where they agree; `analysis.least_squares.fit_relative` has the rest.

    Parameters
    ----------
    points
        At least as many as exponents, at distinct N, not all of spread 0.
    statistic
        A key of `STATISTICS`.
    exponents
        Distinct exponents p_j of N.

    Examples
    --------
    >>> noise = np.array([0.99, 1.0, 1.01])
    >>> points = [summarise(N, noise * (2 / N**0.5 + 3 / N), "mean") for N in (10, 100, 1000)]
    >>> [round(float(c), 9) for c in fit_sum_of_powers(points, "mean").estimate]
    [2.0, 3.0]
    """
    variance, freedom, pooled = relative_variances(points)
    N = np.array([point.N for point in points])
    design = np.column_stack([N**p for p in exponents])
    # E q^(1/k) lies (k−1)/2 relative variances below its limit (second-order delta method).
    shift = 1 + (STATISTICS[statistic] - 1) / 2 * variance
    seen = np.array([point.value for point in points]) * shift
    return fit_relative(design, seen, variance, freedom, pooled=pooled)


def relative_variances(points: Sequence[Point]) -> tuple[Floats, Floats, bool]:
    """Return variances of the logarithms, degrees of freedom of each, and whether they share one estimate."""
    counts = np.array([float(point.n) for point in points])
    own = np.array([point.spread for point in points])
    pooled = spreads_agree(points) >= HOMOGENEITY_LEVEL
    spread = np.full_like(own, np.average(own, weights=counts - 1)) if pooled else own
    return spread / counts, counts - 1, pooled
