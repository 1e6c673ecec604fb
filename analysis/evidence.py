"""What counts as evidence, in every analysis: confidence, significance, and how far is far."""

from __future__ import annotations

#: Probability that an interval covers.
CONFIDENCE = 0.95
#: p-values below this count as evidence: a table has many rows.
SIGNIFICANT = 0.01
#: Standard errors from what was expected beyond which a result is at odds with it: a 95 % interval alone
#: misses one time in twenty.
FAR = 4.0
#: Standard errors by which a norm must exceed 0 at every N for an exponent to be fitted to it.
SEEN = 4.0
#: Smaller N are left out of expansions in 1/N: their corrections of higher order show.
LEAST_N = 30


def far(freedom: float) -> float:
    """Return how many estimated standard errors are as unlikely as `FAR` known ones.

    Parameters
    ----------
    freedom
        Degrees of freedom of the standard error.

    Examples
    --------
    >>> import math
    >>> [round(far(freedom), 1) for freedom in (2.0, 30.0, math.inf)]
    [125.6, 4.6, 4.0]
    """
    from scipy import special

    return float(special.stdtrit(freedom, float(special.ndtr(FAR))))


def is_far(value: float, stderr: float, interval: tuple[float, float], expected: float) -> bool:
    """Whether a fitted number is at odds with what was expected of it, outside its 95 % interval.

    The interval is Student's: its half-width, in standard errors, tells the degrees of freedom.

    Examples
    --------
    >>> is_far(-0.47, 0.01, (-0.49, -0.45), -0.5), is_far(-0.4, 0.01, (-0.42, -0.38), -0.5)
    (False, True)
    """
    from scipy import special

    half = value - interval[0] if expected < value else interval[1] - value
    freedom = float(special.stdtridf(0.5 + CONFIDENCE / 2, half / stderr))
    return abs(value - expected) > far(freedom) * stderr
