"""Weighted regression of a replica statistic on a power of N, with honest small-sample inference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

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
    pooled: bool

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
    counts = freedom + 1
    fourth = float(np.average([point.fourth for point in points], weights=counts))
    second = float(np.average(spread * freedom / counts, weights=counts))
    excess = max(fourth / second**2 - 3.0, 0.0)
    return float(special.chdtrc(groups, max(statistic, 0.0) / (1 + excess / 2)))


def fit_power_law(points: Sequence[Point], statistic: str) -> PowerLaw:
    """Fit log E = a + p log N by weighted least squares of the logarithms.

    Spreads that agree are pooled: weights n, t and F with Σ(n−1) degrees of freedom. Otherwise weights
    n/spread with the covariance and the degrees of freedom of Kenward & Roger (1997), and Johansen's (1980)
    Welch–James test of lack of fit.

    Parameters
    ----------
    points
        At least two, at distinct N, not all of spread 0.
    statistic
        A key of `STATISTICS`.
    """
    counts = np.array([float(point.n) for point in points])
    own = np.array([point.spread for point in points])
    pooled = spreads_agree(points) >= HOMOGENEITY_LEVEL
    spread = np.full_like(own, np.average(own, weights=counts - 1)) if pooled else own
    variance = spread / counts
    # E log q^(1/k) lies k/2 variances below its limit (second-order delta method).
    response = np.array([point.log_value for point in points]) + STATISTICS[statistic] / 2 * variance
    log_N = np.log([point.N for point in points])
    centre = float(np.average(log_N, weights=1 / variance))
    design = np.column_stack([np.ones_like(log_N), log_N - centre])
    covariance = np.linalg.inv(design.T @ (design / variance[:, None]))
    estimate = covariance @ (design.T @ (response / variance))
    residual = response - design @ estimate
    leverage = np.einsum("ij,jk,ik->i", design, covariance, design) / variance
    chi2 = float(np.sum(residual**2 / variance))
    if pooled:
        freedom = float(np.sum(counts - 1))
        p_value = _pooled_lack_of_fit(chi2, len(points) - 2, freedom)
    else:
        freedom = _satterthwaite(design, covariance, variance, counts)
        p_value = _welch_lack_of_fit(chi2, len(points) - 2, leverage, counts)
        covariance = _kenward_roger(design, covariance, variance, leverage, counts)
    at_one = np.array([1.0, -centre])  # log N = 0
    return PowerLaw(
        exponent=float(estimate[1]),
        exponent_stderr=math.sqrt(covariance[1, 1]),
        freedom=freedom,
        log_constant=float(at_one @ estimate),
        log_constant_stderr=math.sqrt(at_one @ covariance @ at_one),
        p_value=p_value,
        pooled=pooled,
    )


def _pooled_lack_of_fit(chi2: float, excess: int, freedom: float) -> float:
    """F test of the residuals against the pooled spread."""
    return float(special.fdtrc(excess, freedom, chi2 / excess)) if excess else math.nan


def _welch_lack_of_fit(chi2: float, excess: int, leverage: Floats, counts: Floats) -> float:
    """Johansen's test: A = Σ (1−h)²/(n−1) and q contrasts, χ²/(q + 2A − 6A/(q+2)) ~ F(q, q(q+2)/(3A))."""
    if not excess:
        return math.nan
    A = float(np.sum((1 - leverage) ** 2 / (counts - 1)))
    scale = excess + 2 * A - 6 * A / (excess + 2)
    return float(special.fdtrc(excess, excess * (excess + 2) / (3 * A), chi2 / scale))


def _satterthwaite(design: Floats, covariance: Floats, variance: Floats, counts: Floats) -> float:
    """Degrees of freedom of the variance of the slope when each point brings its own variance."""
    share = (design @ covariance[1]) ** 2 / variance
    return float(np.sum(share) ** 2 / np.sum(share**2 / (counts - 1)))


def _kenward_roger(
    design: Floats, covariance: Floats, variance: Floats, leverage: Floats, counts: Floats
) -> Floats:
    """Covariance of the estimates enlarged for the error of the estimated weights."""
    loss = design.T @ (design * ((1 - leverage) / variance / (counts - 1))[:, None])
    return np.asarray(covariance + 4 * covariance @ loss @ covariance)
