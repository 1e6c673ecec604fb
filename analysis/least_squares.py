"""Weighted linear least squares with honest small-sample inference from the replicas behind each point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

#: Rounds of reweighting by a fitted curve; each gains about two digits.
ROUNDS = 8


@dataclass(frozen=True, kw_only=True)
class LinearFit:
    """Fitted response = design · estimate, with the joint covariance of the coefficients.

    `estimate` has shape (k,), `covariance` (k, k), `freedom` (k,): degrees of freedom behind the error of
    each coefficient. `p_value` is that of the lack of fit, NaN with no more points than coefficients.
    """

    estimate: Floats
    covariance: Floats
    freedom: Floats
    p_value: float

    @property
    def stderr(self) -> Floats:
        """Standard errors of the coefficients, shape (k,)."""
        return np.sqrt(np.diagonal(self.covariance))

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Two-sided t interval of each coefficient: lower and upper ends, shape (k,)."""
        half = special.stdtrit(self.freedom, 0.5 + confidence / 2) * self.stderr
        return self.estimate - half, self.estimate + half


def fit_linear(
    design: Floats, response: Floats, variance: Floats, freedom: Sequence[float] | Floats, *, pooled: bool
) -> LinearFit:
    """Fit response = design · coefficients by weighted least squares.

    Parameters
    ----------
    design
        Shape (n, k), of full column rank.
    response
        Shape (n,).
    variance
        Variances of the responses as estimated, shape (n,), positive.
    freedom
        Degrees of freedom behind each of the variances, shape (n,), positive.
    pooled
        Whether the variances share one estimate: their ratios are then exact, and the degrees of freedom add
        up to those of t intervals and of an F test. Otherwise each point has its own estimate, and the
        covariance and the degrees of freedom are those of Kenward & Roger (1997), the test of lack of fit is
        Johansen's (1980) Welch–James test.

    Raises
    ------
    ValueError
        Fewer points than coefficients.

    Examples
    --------
    >>> N = np.array([10.0, 20.0, 40.0])
    >>> fit = fit_linear(np.column_stack([np.ones(3), 1 / N]), 3 + 5 / N, np.full(3, 0.01), [31] * 3,
    ...                  pooled=False)
    >>> [round(float(c), 9) for c in fit.estimate]
    [3.0, 5.0]
    """
    points, terms = design.shape
    if points < terms:
        raise ValueError(f"points must be at least the coefficients, {terms}, got {points}")
    own = np.asarray(freedom, dtype=np.float64)
    size = np.sqrt(np.sum(design**2 / variance[:, None], axis=0))  # columns of one size invert more exactly
    scaled = design / size
    covariance = np.linalg.inv(scaled.T @ (scaled / variance[:, None]))
    estimate = covariance @ (scaled.T @ (response / variance))
    residual = response - scaled @ estimate
    chi2, excess = float(np.sum(residual**2 / variance)), points - terms
    if pooled:
        degrees = np.full(terms, float(np.sum(own)))
        p_value = float(special.fdtrc(excess, degrees[0], chi2 / excess)) if excess else math.nan
    else:
        leverage = np.einsum("ij,jk,ik->i", scaled, covariance, scaled) / variance
        degrees = _satterthwaite(scaled, covariance, variance, own)
        p_value = welch_lack_of_fit(chi2, excess, leverage, own)
        covariance = _kenward_roger(scaled, covariance, variance, leverage, own)
    return LinearFit(
        estimate=estimate / size,
        covariance=covariance / np.outer(size, size),
        freedom=degrees,
        p_value=p_value,
    )


def fit_relative(
    design: Floats, response: Floats, variance: Floats, freedom: Sequence[float] | Floats, *, pooled: bool
) -> LinearFit:
    """Fit positive responses whose errors are in proportion to what they estimate.

    Relative variances are turned into absolute ones by the fitted curve, which is found by iteration: weights
    by the values seen would favour those that happen to be small, and bias the fit downwards.

    Parameters
    ----------
    design, response, freedom, pooled
        As in `fit_linear`.
    variance
        Relative variances of the responses, shape (n,), positive.

    Examples
    --------
    >>> N = np.array([10.0, 20.0, 40.0])
    >>> fit = fit_relative(np.column_stack([np.ones(3), 1 / N]), 3 + 5 / N, np.full(3, 0.01), [31] * 3,
    ...                    pooled=True)
    >>> [round(float(c), 9) for c in fit.estimate]
    [3.0, 5.0]
    """
    curve = response
    for _ in range(ROUNDS):
        fit = fit_linear(design / curve[:, None], response / curve, variance, freedom, pooled=pooled)
        fitted = design @ fit.estimate
        # A curve that is nowhere near the data, even of another sign, is no measure of their errors.
        curve = np.where(fitted > 0.1 * response, fitted, response)
    return fit


def welch_lack_of_fit(chi2: float, excess: int, leverage: Floats, freedom: Floats) -> float:
    """Return the p-value of Johansen's (1980) Welch–James test of weighted residuals.

    With leverages h, degrees of freedom ν and q residual contrasts, A = Σ (1−h)²/ν and
    χ²/(q + 2A − 6A/(q+2)) ~ F(q, q(q+2)/(3A)). NaN for q = 0.
    """
    if not excess:
        return math.nan
    A = float(np.sum((1 - leverage) ** 2 / freedom))
    scale = excess + 2 * A - 6 * A / (excess + 2)
    return float(special.fdtrc(excess, excess * (excess + 2) / (3 * A), chi2 / scale))


def _satterthwaite(design: Floats, covariance: Floats, variance: Floats, freedom: Floats) -> Floats:
    """Degrees of freedom of the variance of each coefficient when each point brings its own variance."""
    share = (design @ covariance) ** 2 / variance[:, None]
    degrees: Floats = np.sum(share, axis=0) ** 2 / np.sum(share**2 / freedom[:, None], axis=0)
    return degrees


def _kenward_roger(
    design: Floats, covariance: Floats, variance: Floats, leverage: Floats, freedom: Floats
) -> Floats:
    """Covariance of the estimates enlarged for the error of the estimated weights."""
    loss = design.T @ (design * ((1 - leverage) / variance / freedom)[:, None])
    return np.asarray(covariance + 4 * covariance @ loss @ covariance)
