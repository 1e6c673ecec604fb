"""Norms of the difference between a joint law and a product, the test that it is 0, and its sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.joint import Dependence, Floats

#: Norms of joint law minus product.
NORMS: Mapping[str, str] = {
    "frobenius": "root of the sum of squares over all tuples of events",
    "sup": "largest absolute value over all tuples of events",
    "total_variation": "total variation distance of the laws, levels above the last pooled",
}


@dataclass(frozen=True, kw_only=True)
class Norm:
    """A norm of joint law minus product, its standard error, and a bound of its bias (see `norm_of`)."""

    value: float
    stderr: float
    bias: float


def norm_of(found: Dependence, kind: str) -> Norm:
    """Estimate a norm of joint law minus product; no unbiased estimate of a norm exists.

    - "frobenius" is `euclidean`.
    - "sup" and "total_variation" are those of the estimates. Noise makes them too large, by at most
      `bias`: the root of the sum of variances, and ½ Σ √(2/π) s.e. over the cells.

    Standard errors are by the delta method.

    Raises
    ------
    ValueError
        An unknown kind.
    """
    if kind not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, got {kind!r}")
    if kind == "frobenius":
        return euclidean(found.difference, found.covariance, found.weight)
    if kind == "sup":
        largest = int(np.argmax(np.abs(found.difference)))
        return Norm(
            value=abs(float(found.difference[largest])),
            stderr=float(found.stderr[largest]),
            bias=math.sqrt(float(np.trace(found.covariance))),
        )
    to_cells = _cell_matrix(found)
    cells = to_cells @ found.difference
    gradient = np.sign(cells) @ to_cells / 2
    variances = np.einsum("ij,jk,ik->i", to_cells, found.covariance, to_cells)
    return Norm(
        value=float(np.sum(np.abs(cells))) / 2,
        stderr=_root(float(gradient @ found.covariance @ gradient)),
        bias=math.sqrt(2 / math.pi) / 2 * float(np.sum(np.sqrt(np.maximum(variances, 0.0)))),
    )


def p_of_zero(
    difference: Floats, covariance: Floats, weight: Floats | None = None, freedom: float = math.inf
) -> float:
    """p-value of "no difference": Σ w δ̂² against g χ²_f with its mean and variance (Satterthwaite, Box).

    With `freedom` degrees of freedom in the covariance the ratio to that mean is held against F(f, freedom).

    Parameters
    ----------
    difference, covariance
        Unbiased estimates, shape (term,), and their covariance, (term, term).
    weight
        Weights of the squares; ones by default.
    freedom
        Degrees of freedom of the covariance.

    Examples
    --------
    With a single term this is the two-sided test of z = 1.96.

    >>> round(p_of_zero(np.array([1.96]), np.eye(1)), 3)
    0.05
    >>> round(p_of_zero(np.array([2.365]), np.eye(1), freedom=7), 3)
    0.05
    """
    weight = np.ones_like(difference) if weight is None else weight
    square = float(weight @ difference**2)
    mean, half_variance = _noise(covariance, weight)
    if mean == 0.0:
        return 0.0 if square > 0.0 else 1.0
    terms = mean**2 / half_variance
    if freedom == math.inf:
        return float(special.chdtrc(terms, terms * square / mean))
    return float(special.fdtrc(terms, freedom, square / mean))


def euclidean(difference: Floats, covariance: Floats, weight: Floats | None = None) -> Norm:
    """Root of Σ w δ̂² less its noise, 0 if that is negative; the square is unbiased.

    The root has a bias of about −Var(square)/(8 norm³), the `bias` stated.

    Parameters
    ----------
    difference, covariance, weight
        As `p_of_zero`.

    Examples
    --------
    >>> round(euclidean(np.array([3.0, 4.0]), np.diag([0.5, 0.5])).value ** 2, 9)
    24.0
    """
    weight = np.ones_like(difference) if weight is None else weight
    mean, half_variance = _noise(covariance, weight)
    square = float(weight @ difference**2) - mean
    slope = weight * difference
    variance = 4 * float(slope @ covariance @ slope) + 2 * half_variance
    if square <= 0.0:
        return Norm(value=0.0, stderr=variance**0.25, bias=variance**0.25)
    value = math.sqrt(square)
    return Norm(value=value, stderr=math.sqrt(variance) / (2 * value), bias=variance / (8 * value**3))


def queue_covariance(found: Dependence) -> tuple[float, float]:
    """Sum of `difference` over all tuples, unbiased, and its standard error.

    For two queues and levels 1 … L it is Cov(min(X¹, L), min(X², L)), X¹ and X² their lengths.
    """
    value = float(found.weight @ found.difference)
    return value, _root(float(found.weight @ found.covariance @ found.weight))


def _noise(covariance: Floats, weight: Floats) -> tuple[float, float]:
    """Mean of Σ w δ̂² where there is no difference, and half of its variance: tr WΣ and tr (WΣ)²."""
    root = np.sqrt(weight)
    weighted = root[:, None] * covariance * root
    return float(np.trace(weighted)), float(np.sum(weighted**2))


def _cell_matrix(found: Dependence) -> Floats:
    """Matrix from the tuples to the differences of the laws of the k cells, all orders of them."""
    one = found.events.cells()
    full: Floats = one
    for _ in range(found.k - 1):
        full = np.asarray(np.kron(full, one), dtype=np.float64)
    matrix = np.zeros((full.shape[0], len(found.tuples)))
    places = found.tensor(np.arange(len(found.tuples), dtype=np.float64)).astype(np.intp).ravel()
    np.add.at(matrix.T, places, full.T)
    return matrix


def _root(square: float) -> float:
    return math.sqrt(max(square, 0.0))
