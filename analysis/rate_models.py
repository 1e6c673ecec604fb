"""Models of a distance along N at one place of the grid, and the rule that leaves out small N."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from analysis.evidence import CONFIDENCE
from analysis.regression import Point, fit_power_law, fit_sum_of_powers

#: Models: one free power of N, or a sum of two given ones.
MODELS = ("power", "two-term")

#: Which N are used: all, or all but the smallest ones, left out one by one while `DROP_LEVEL` rejects the fit
#: and at least `LEAST_SIZES` remain.
SIZES = ("all", "asymptotic")
DROP_LEVEL, LEAST_SIZES = 0.05, 3

#: Variables of one row.
Row: TypeAlias = dict[str, Any]

#: Row of a place that cannot be fitted: every other variable is NaN.
EMPTY: Row = {"n": 0, "dropped": 0}


def fit_row(points: Sequence[Point], statistic: str, model: str, sizes: str, terms: Sequence[float]) -> Row:
    """Fit a model to the points of one place.

    Parameters
    ----------
    points
        Statistics by increasing N.
    statistic
        A key of `analysis.regression.STATISTICS`.
    model, sizes
        One of `MODELS` and one of `SIZES`.
    terms
        Exponents of the model "two-term".

    Returns
    -------
    dict
        What `analysis.rates.fit_rate` returns over (d, lam, G), as scalars and arrays; `EMPTY` with fewer
        than two points or without any spread.

    Examples
    --------
    >>> import numpy as np
    >>> from analysis.regression import summarise
    >>> points = [summarise(N, np.array([0.9, 1.1]) / N, "mean") for N in (10, 100, 1000)]
    >>> round(fit_row(points, "mean", "power", "all", ())["exponent"], 9)
    -1.0
    """
    if not _has_error(points):
        return EMPTY

    def fit(chosen: Sequence[Point]) -> Row:
        return _power(chosen, statistic) if model == "power" else _two_terms(chosen, statistic, terms)

    return _select(points, fit, sizes)


def _has_error(points: Sequence[Point]) -> bool:
    """Whether a line and its error can be told."""
    return len(points) >= 2 and any(point.spread > 0 for point in points)


def _select(points: Sequence[Point], fit: Callable[[Sequence[Point]], Row], sizes: str) -> Row:
    """Fit all N, or leave out the smallest as long as the test of lack of fit rejects."""
    row = fit(points)
    p_value_all, kept = row["p_value"], list(points)
    while sizes == "asymptotic" and row["p_value"] < DROP_LEVEL and len(kept) > LEAST_SIZES:
        if not _has_error(kept[1:]):
            break
        kept = kept[1:]
        row = fit(kept)
    return row | {
        "n": sum(point.n for point in kept),
        "N_min": kept[0].N,
        "dropped": len(points) - len(kept),
        "p_value_all": p_value_all,
    }


def _power(points: Sequence[Point], statistic: str) -> Row:
    """Variables of one row of the model of one power."""
    law = fit_power_law(points, statistic)
    low, high = law.interval(CONFIDENCE)
    constant = math.exp(law.log_constant)
    return {
        "exponent": law.exponent,
        "exponent_stderr": law.exponent_stderr,
        "exponent_lo": low,
        "exponent_hi": high,
        "constant": constant,
        "constant_stderr": constant * law.log_constant_stderr,
        "p_value": law.p_value,
    }


def _two_terms(points: Sequence[Point], statistic: str, terms: Sequence[float]) -> Row:
    """Variables of one row of the model of two terms."""
    law = fit_sum_of_powers(points, statistic, terms)
    low, high = law.interval(CONFIDENCE)
    return {
        "coefficient": law.estimate,
        "coefficient_stderr": law.stderr,
        "coefficient_lo": low,
        "coefficient_hi": high,
        "covariance": law.covariance,
        "p_value": law.p_value,
    }
