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
