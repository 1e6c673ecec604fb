"""The limit N → ∞ of a statistic that is C + C₂/N to leading orders."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from analysis.evidence import CONFIDENCE
from analysis.least_squares import LinearFit, fit_linear
from analysis.moments import Estimate
from analysis.rate_models import DROP_LEVEL, LEAST_SIZES


@dataclass(frozen=True, kw_only=True)
class LargeN:
    """Fitted C + C₂/N: `value` is C with its standard error and 95 % interval, `second` is C₂.

    `p_value` is that of the lack of fit at N ≥ `N_min`, `p_value_all` at all N, of which `dropped` were left
    out.
    """

    value: float
    value_stderr: float
    value_lo: float
    value_hi: float
    second: float
    p_value: float
    p_value_all: float
    N_min: float
    dropped: int

    def root(self) -> LargeN:
        """Return the root of C, by the delta method; its interval is that of C, cut at 0.

        NaN where C is not two standard errors above 0: its root is then nothing the data tell.
        """
        if not self.value > 2 * self.value_stderr:
            return replace(self, value=math.nan, value_stderr=math.nan, value_lo=math.nan, value_hi=math.nan)
        value = math.sqrt(self.value)
        return replace(
            self,
            value=value,
            value_stderr=self.value_stderr / (2 * value),
            value_lo=math.sqrt(max(self.value_lo, 0.0)),
            value_hi=math.sqrt(max(self.value_hi, 0.0)),
        )


def extrapolate(found: Mapping[float, Estimate]) -> LargeN | None:
    """Fit C + C₂/N; None with fewer than two N.

    The smallest N are left out one by one while the test of lack of fit rejects at 5 % and three or more
    remain: they need C₃/N².

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
    low, high = fit.interval(CONFIDENCE)
    return LargeN(
        value=float(fit.estimate[0]),
        value_stderr=float(fit.stderr[0]),
        value_lo=float(low[0]),
        value_hi=float(high[0]),
        second=float(fit.estimate[1]),
        p_value=fit.p_value,
        p_value_all=p_value_all,
        N_min=kept[0],
        dropped=len(sizes) - len(kept),
    )


def _fit(found: Mapping[float, Estimate], sizes: list[float]) -> LinearFit:
    chosen = [found[N] for N in sizes]
    return fit_linear(
        np.column_stack([np.ones(len(sizes)), 1 / np.array(sizes)]),
        np.array([one.value for one in chosen]),
        np.array([one.variance for one in chosen]),
        [one.freedom for one in chosen],
        pooled=False,
    )
