"""How an arrival chooses: φ, the probability that it joins a queue of length ≥ ℓ, and its slope P.

A share p (`fraction`) of arrivals joins the shortest of d sampled queues, the others one uniform queue, so
φ(x) = (1 − p) x + p x^d with x = S_ℓ.
"""

from __future__ import annotations


def phi(x: float, d: int, fraction: float = 1.0) -> float:
    """Return φ(x) = (1 − p) x + p x^d.

    Examples
    --------
    >>> phi(0.5, d=2), phi(0.5, d=2, fraction=0.5)
    (0.25, 0.375)
    """
    return (1.0 - fraction) * x + fraction * x**d


def chord_slope(x: float, y: float, d: int, fraction: float = 1.0) -> float:
    """Return P(x, y) = (φ(x) − φ(y)) / (x − y) as 1 − p + p Σ_{m<d} x^m y^{d−1−m}, without that division.

    Examples
    --------
    >>> chord_slope(0.5, 0.25, d=2), chord_slope(0.5, 0.5, d=2)
    (0.75, 1.0)
    """
    total, power = 0.0, 1.0
    for _ in range(d):
        total = total * y + power
        power *= x
    return (1.0 - fraction) + fraction * total
