"""A power c N^p fitted to signed numbers that may be zero within their errors, with profile intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize, special

from analysis.expansion import fisher, two_sided
from analysis.least_squares import Floats, LinearFit, fit_linear
from analysis.moments import Estimate

#: Exponents that are looked at: nothing near a limit grows or falls faster.
LEAST, MOST = -4.0, 2.0
_GRID = 121


@dataclass(frozen=True, kw_only=True)
class SignedPower:
    """Fitted c N^p: `exponent` p with `exponent_lo` and `exponent_hi`, `constant` c, signed.

    An end of the interval at `LEAST` or `MOST` says that the data do not bound it. `p_value` is that of the
    lack of fit, NaN with two N.
    """

    exponent: float
    exponent_stderr: float
    exponent_lo: float
    exponent_hi: float
    constant: float
    constant_stderr: float
    p_value: float


def p_of_zero(estimates: Sequence[Estimate]) -> float:
    """Return the p-value of zero at every N: Student's t test at each, combined by Fisher's method.

    Exact for Gaussian replicas, however few and whatever their variances. A test of the weighted sum of
    squares, as that of Welch and James, is not: of 3 replicas at 4 N without bias it rejects .12 at .05.

    Examples
    --------
    >>> p_of_zero([Estimate(value=0.1, variance=0.01, freedom=31, n=32)] * 3) > 0.3
    True
    """
    scores = [one.value / one.stderr for one in estimates]
    return fisher(two_sided(scores, [one.freedom for one in estimates]))


def fit_signed_power(N: Sequence[float], estimates: Sequence[Estimate], confidence: float) -> SignedPower:
    """Fit c N^p by weighted least squares in c and p.

    For each p the best c is linear; p minimises the profile χ²(p), and the interval holds all p with
    χ²(p) − min χ² ≤ t², t the quantile with the degrees of freedom (Satterthwaite) of the error of p.

    Parameters
    ----------
    N
        Two or more, distinct.
    estimates
        One for each N, of positive variance, not all of value 0.
    confidence
        That the interval covers p.

    Raises
    ------
    ValueError
        All values are 0.

    Examples
    --------
    >>> fit = fit_signed_power([10, 100, 1000], [Estimate(value=-3 / N, variance=1e-8 / N, freedom=31, n=32)
    ...                                          for N in (10, 100, 1000)], 0.95)
    >>> round(fit.exponent, 6), round(fit.constant, 4)
    (-1.0, -3.0)
    """
    if not any(one.value for one in estimates):
        raise ValueError(
            "estimates must not all be 0 to have an exponent, got 0 at every N: ask p_of_zero before fitting"
        )
    points = _Points(
        log_N=np.array([math.log(size) for size in N]),
        values=np.array([one.value for one in estimates]),
        variance=np.array([one.variance for one in estimates]),
        freedom=np.array([one.freedom for one in estimates]),
    )
    grid = np.linspace(LEAST, MOST, _GRID)
    lowest = int(np.argmin([points.profile(p)[0] for p in grid]))
    bracket = grid[max(lowest - 1, 0)], grid[min(lowest + 1, _GRID - 1)]
    found = optimize.minimize_scalar(lambda p: points.profile(p)[0], bounds=bracket, options={"xatol": 1e-10})
    best = float(found.x)
    linear, (least, c) = points.linearised(best), points.profile(best)
    bound = least + float(special.stdtrit(linear.freedom[1], 0.5 + confidence / 2)) ** 2
    scale = math.exp(-best * points.centre)  # c is that at the centre, the constant that at N = 1
    slope = np.array([1.0, -c * points.centre])
    return SignedPower(
        exponent=best,
        exponent_stderr=float(linear.stderr[1]),
        exponent_lo=points.crossing(bound, best, LEAST),
        exponent_hi=points.crossing(bound, best, MOST),
        constant=scale * c,
        constant_stderr=scale * math.sqrt(float(slope @ linear.covariance @ slope)),
        p_value=linear.p_value,
    )


@dataclass(frozen=True, kw_only=True)
class _Points:
    """Signed numbers along log N; powers are 1 at a centre, where errors of c and p hardly depend."""

    log_N: Floats
    values: Floats
    variance: Floats
    freedom: Floats

    @cached_property
    def centre(self) -> float:
        return float(np.average(self.log_N, weights=self.values**2 / self.variance))

    def power(self, p: float) -> Floats:
        """N^p, 1 at the centre."""
        return np.exp(p * (self.log_N - self.centre))

    def profile(self, p: float) -> tuple[float, float]:
        """Least χ² for this exponent, and the c that has it."""
        power = self.power(p)
        c = float(np.sum(power * self.values / self.variance) / np.sum(power**2 / self.variance))
        return float(np.sum((self.values - c * power) ** 2 / self.variance)), c

    def linearised(self, p: float) -> LinearFit:
        """Gauss–Newton step from the best fit: its covariance is that of (c, p), its estimate (c, 0)."""
        power, c = self.power(p), self.profile(p)[1]
        design = np.column_stack([power, c * power * (self.log_N - self.centre)])
        return fit_linear(design, self.values, self.variance, self.freedom, pooled=False)

    def crossing(self, bound: float, best: float, end: float) -> float:
        """Where the profile first exceeds the bound between the best exponent and an end, or that end."""
        for p in np.linspace(best, end, _GRID)[1:]:
            if self.profile(p)[0] > bound:
                return float(optimize.brentq(lambda x: self.profile(x)[0] - bound, best, p))
        return end
