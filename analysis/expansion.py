"""Estimates at several N expanded in inverse powers of N, and their leading power."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.least_squares import Floats, LinearFit, fit_linear


def fit_inverse_powers(
    N: ArrayLike, values: ArrayLike, stderr: ArrayLike, n: ArrayLike, powers: tuple[int, ...] = (1, 2)
) -> LinearFit:
    """Fit values = Σ_j c_j N^(−p_j) for given powers p_j.

    Parameters
    ----------
    N, values, stderr, n
        Numbers of servers, estimates there, their standard errors > 0 and the replicas behind each, shape
        (N,).
    powers
        The p_j ≥ 0, no more of them than values of N.

    Examples
    --------
    >>> fit = fit_inverse_powers([10, 20, 40], [0.11, 0.0525, 0.025625], [0.01, 0.005, 0.002], [32, 32, 32])
    >>> [round(float(c), 9) for c in fit.estimate]
    [1.0, 1.0]
    """
    servers, variance = _array(N), _array(stderr) ** 2
    design = np.column_stack([1.0 / servers**power for power in powers])
    return fit_linear(design, _array(values), variance, _array(n) - 1.0, pooled=False)


def fit_leading_power(
    N: ArrayLike, values: ArrayLike, stderr: ArrayLike, n: ArrayLike, *, corrected: bool = True
) -> LinearFit:
    """Fit log values = p log N + log a [+ b/N], that is values ≈ a N^p (1 + b/N): estimates (p, log a[, b]).

    Parameters
    ----------
    N, values, stderr, n
        Numbers of servers, positive estimates there, their standard errors > 0 and the replicas behind each,
        shape (N,). Logarithms are corrected for their bias, half of the relative variance.
    corrected
        Whether the term b/N is there.

    Examples
    --------
    >>> N = np.array([10.0, 20.0, 40.0])
    >>> fit = fit_leading_power(N, 3.0 / N, 1e-9 / N, [9, 9, 9])
    >>> round(float(fit.estimate[0]), 6)
    -1.0
    """
    servers, positive = _array(N), _array(values)
    variance = (_array(stderr) / positive) ** 2
    columns = [np.log(servers), np.ones_like(servers)] + ([1.0 / servers] if corrected else [])
    response = np.log(positive) + variance / 2
    return fit_linear(np.column_stack(columns), response, variance, _array(n) - 1.0, pooled=False)


def fisher(p_values: ArrayLike) -> float:
    """Combine independent p-values (Fisher): −2 Σ log p ~ χ² with two degrees of freedom each; NaN of none.

    Examples
    --------
    >>> round(fisher([0.1, 0.1]), 4)
    0.0561
    """
    present = [p for p in np.ravel(p_values).tolist() if not math.isnan(p)]
    if not present:
        return math.nan
    statistic = sum(-2.0 * math.log(p) if p > 0.0 else math.inf for p in present)
    return float(special.chdtrc(2 * len(present), statistic))


def two_sided(score: ArrayLike, freedom: ArrayLike) -> Floats:
    """Two-sided p-values of Student's t, for estimates over their standard errors and degrees of freedom.

    Examples
    --------
    >>> two_sided([2.365, -12.706], [7, 1]).round(3).tolist()
    [0.05, 0.05]
    """
    return np.asarray(2 * special.stdtr(_array(freedom), -np.abs(_array(score))), dtype=np.float64)


def _array(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
