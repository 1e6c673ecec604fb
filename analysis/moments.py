"""Means and variances of equilibrium runs at one N, with standard errors from independent replicas."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.least_squares import Floats

#: Fewest replicas that an error is taken from.
LEAST_REPLICAS = 3
#: A standard deviation below this share of the mean is rounding, and counts as 0.
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number from n replicas, with the variance of its error and the degrees of freedom behind that."""

    value: float
    variance: float
    freedom: float
    n: int

    @property
    def stderr(self) -> float:
        """Standard error."""
        return math.sqrt(self.variance)


@dataclass(frozen=True, kw_only=True)
class VarianceEstimate(Estimate):
    """An estimate of a variance, whose error grows with it.

    `fourth` is the mean fourth power of the replicas' jackknife deviations, relative to `value`.
    """

    fourth: float


def controlled_mean(values: Floats, control: Floats) -> Estimate:
    """Estimate E values with a control variate of known mean 0.

    The intercept of the regression of values on the control: with ρ their correlation its variance is
    1 − ρ² times that of the mean. Unbiased for Gaussian pairs, which averages over long runs are nearly. A
    control that does not vary leaves the plain mean.

    Parameters
    ----------
    values, control
        One number a replica, shape (n,), n ≥ 3.

    Examples
    --------
    >>> control = np.array([-0.2, 0.1, 0.3, -0.1])
    >>> estimate = controlled_mean(5 + 2 * control, control)
    >>> round(estimate.value, 12), estimate.stderr < 1e-12
    (5.0, True)
    """
    n = values.size
    mean = float(np.mean(control))
    centred = control - mean
    square = float(np.sum(centred**2))
    varies = square > ROUNDING**2 * n * mean**2
    slope = float(np.sum(centred * values)) / square if varies else 0.0
    value = float(np.mean(values)) - slope * mean
    residual = values - value - slope * control
    leverage = 1 / n + (mean**2 / square if varies else 0.0)
    return Estimate(
        value=value, variance=float(np.sum(residual**2)) / (n - 2) * leverage, freedom=n - 2.0, n=n
    )


def stationary_variance(values: Floats) -> VarianceEstimate:
    """Estimate the variance of a stationary quantity seen several times in each of independent replicas.

    The mean of squares less the mean of products of different replicas' means, unbiased whatever the
    correlation within a replica; its error is the jackknife's over replicas.

    Parameters
    ----------
    values
        Shape (replica, batch), 3 replicas or more.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> estimate = stationary_variance(3 * rng.standard_normal((50, 40)))
    >>> abs(estimate.value - 9) < 4 * estimate.stderr < 2
    True
    """
    n = values.shape[0]
    centred = values - np.mean(values)  # near 0, lest the difference of squares lose its digits
    square, mean = np.mean(centred**2, axis=1), np.mean(centred, axis=1)
    left_out = _variance(np.sum(square) - square, np.sum(mean) - mean, np.sum(mean**2) - mean**2, n - 1)
    total = float(_variance(np.sum(square), np.sum(mean), np.sum(mean**2), n))
    deviation = (n - 1) * (left_out - np.mean(left_out))
    return VarianceEstimate(
        value=total,
        variance=float(np.sum(deviation**2)) / (n - 1) / n,
        freedom=n - 1.0,
        n=n,
        fourth=float(np.mean((deviation / total) ** 4)) if total > 0 else 0.0,
    )


def _variance(square: Floats, mean: Floats, mean_square: Floats, n: int) -> Floats:
    """Mean square less the mean product of two replicas' means, from sums over n replicas."""
    return square / n - (mean**2 - mean_square) / (n * (n - 1))
