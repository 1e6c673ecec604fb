"""The limit N → ∞ of a statistic that is C + C₂/N to leading orders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from analysis.evidence import CONFIDENCE
from analysis.least_squares import Floats, LinearFit, fit_linear, fit_relative
from analysis.moments import Estimate, VarianceEstimate
from analysis.rate_models import DROP_LEVEL, LEAST_SIZES
from analysis.regression import Point, excess_kurtosis, relative_variances


@dataclass(frozen=True, kw_only=True)
class LargeN:
    """Fitted C + C₂/N: `value` is C with its standard error and 95 % interval, `second` is C₂.

    `freedom` are the degrees of freedom of the standard error. `p_value` is that of the lack of fit at
    N ≥ `N_min`, `p_value_all` at all N, of which `dropped` were left out.
    """

    value: float
    value_stderr: float
    value_lo: float
    value_hi: float
    freedom: float
    second: float
    p_value: float
    p_value_all: float
    N_min: float
    dropped: int

    def root(self) -> LargeN:
        """Return the root of C, by the delta method; its interval is that of C, cut at 0.

        An estimate of C with relative variance r² has a root that is r²/8 too small on average, which is
        made good. NaN where C is not two standard errors above 0: its root is then nothing the data tell.
        """
        if not self.value > 2 * self.value_stderr:
            return replace(self, value=math.nan, value_stderr=math.nan, value_lo=math.nan, value_hi=math.nan)
        root = math.sqrt(self.value)
        return replace(
            self,
            value=root * (1 + (self.value_stderr / self.value) ** 2 / 8),
            value_stderr=self.value_stderr / (2 * root),
            value_lo=math.sqrt(max(self.value_lo, 0.0)),
            value_hi=math.sqrt(max(self.value_hi, 0.0)),
        )


def extrapolate(found: Mapping[float, Estimate]) -> LargeN | None:
    """Fit C + C₂/N; None with fewer than two N.

    The smallest N are left out one by one while the test of lack of fit rejects at 5 % and three or more
    remain: they need C₃/N².

    Errors of variances are in proportion to what they estimate: relative errors are pooled over N where they
    agree, the fitted curve makes them absolute, and the interval is `variance_interval`. Where C is less than
    one standard error, its upper end is that of an estimate of one standard error, and its lower end goes
    over to that of t at C = 0. Pooling presumes that values of a replica are alike correlated at all N: with
    one N of much noisier replicas, few of them, the test may not see it, and the interval covers less.

    Errors that are not pooled have `with_least_freedom`.

    Examples
    --------
    >>> one = extrapolate({N: Estimate(value=3 + 5 / N, variance=0.01, freedom=31, n=32)
    ...                    for N in (10.0, 20.0, 40.0)})
    >>> round(one.value, 9), round(one.second, 9), one.dropped
    (3.0, 5.0, 0)
    """
    sizes = sorted(found)
    if len(sizes) < 2:
        return None
    fit = _fit(found, sizes)
    p_value_all, kept = fit.p_value, sizes
    while fit.p_value < DROP_LEVEL and len(kept) > LEAST_SIZES:
        kept = kept[1:]
        fit = _fit(found, kept)
    value, stderr, freedom = float(fit.estimate[0]), float(fit.stderr[0]), float(fit.freedom[0])
    low, high = (float(ends[0]) for ends in fit.interval(CONFIDENCE))
    if isinstance(found[kept[0]], VarianceEstimate):
        lowest, high = variance_interval(max(value, stderr), stderr, freedom)
        share = min(max(value / stderr, 0.0), 1.0)
        low = share * lowest + (1 - share) * low
    return LargeN(
        value=value,
        value_stderr=stderr,
        value_lo=low,
        value_hi=high,
        freedom=freedom,
        second=float(fit.estimate[1]),
        p_value=fit.p_value,
        p_value_all=p_value_all,
        N_min=kept[0],
        dropped=len(sizes) - len(kept),
    )


def with_least_freedom(fit: LinearFit, freedom: Sequence[float] | Floats) -> LinearFit:
    """Return a fit that was not pooled, with the least of its points' degrees of freedom.

    Those of Satterthwaite are estimated from the same few replicas, and are too many where variances happen
    to be unequal. With the least, intervals and tests of a sum of independent means with fixed weights are
    safe whatever the variances (Hájek 1962).

    Parameters
    ----------
    fit
        What `analysis.least_squares.fit_linear` returns.
    freedom
        Degrees of freedom behind the variance of each point, shape (n,).
    """
    return replace(fit, freedom=np.full_like(fit.freedom, min(freedom)))


def variance_interval(value: float, stderr: float, freedom: float) -> tuple[float, float]:
    """Return the 95 % interval of a variance from an estimate of it, through the cube root.

    The estimate is taken as the variance times χ²/f, f = 2 value²/stderr² (Satterthwaite 1946), whose cube
    root is nearly normal with mean 1 − 2/(9f) and variance 2/(9f) (Wilson & Hilferty 1931). The t interval
    about the estimate misses a variance above it too often: the error is small where the estimate is.

    Parameters
    ----------
    value, stderr
        The estimate and its standard error, both positive.
    freedom
        Degrees of freedom of the standard error.

    Examples
    --------
    With f = 10, where 10/χ² at its quantiles .975 and .025 is 0.488 and 3.08:

    >>> [round(end, 2) for end in variance_interval(1.0, 0.2**0.5, math.inf)]
    [0.49, 3.1]
    """
    spread = (stderr / value) ** 2 / 9
    half = float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * math.sqrt(spread)
    high = 1 - spread - half
    return value / (1 - spread + half) ** 3, value / high**3 if high > 0 else math.inf


def _fit(found: Mapping[float, Estimate], sizes: list[float]) -> LinearFit:
    chosen = [found[N] for N in sizes]
    design = np.column_stack([np.ones(len(sizes)), 1 / np.array(sizes)])
    values = np.array([one.value for one in chosen])
    variances = [one for one in chosen if isinstance(one, VarianceEstimate)]
    if len(variances) == len(chosen):
        return _fit_variances(design, values, sizes, variances)
    freedom = [one.freedom for one in chosen]
    fit = fit_linear(design, values, np.array([one.variance for one in chosen]), freedom, pooled=False)
    return with_least_freedom(fit, freedom)


def _fit_variances(
    design: Floats, values: Floats, sizes: list[float], chosen: list[VarianceEstimate]
) -> LinearFit:
    points = []
    for N, one in zip(sizes, chosen, strict=True):
        spread = one.n * one.variance / one.value**2
        points.append(
            Point(N=N, log_value=math.log(one.value), spread=spread, n=one.n, cv2=spread, fourth=one.fourth)
        )
    variance, freedom, pooled = relative_variances(points)
    if pooled:  # a variance of skewed numbers is known as one of fewer Gaussian numbers
        freedom = freedom / (1 + excess_kurtosis(points) / 2)
    # The square of an estimate is 1 + variance times that of what it estimates.
    fit = fit_relative(design, values, variance * (1 + variance), freedom, pooled=pooled)
    return fit if pooled else with_least_freedom(fit, freedom)
