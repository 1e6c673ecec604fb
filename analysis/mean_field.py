"""Exact O(1/N) constants of SQ(d) with exponential service in equilibrium: covariances and biases of S_ℓ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Levels are kept while S_ℓ is above this, and at most so many (the equations are dense).
SMALLEST, MOST_LEVELS = 1e-17, 800


@dataclass(frozen=True, kw_only=True)
class MeanFieldConstants:
    """Fixed point S of the limit and the first-order terms around it, for levels ℓ = 1 … L.

    `covariance` is lim N Cov(S_ℓ^(N)/N, S_m^(N)/N), shape (L, L); `bias` is lim N (E S_ℓ^(N)/N − S_ℓ), shape
    (L,). Both are accurate to about 1e-12 absolutely, so relative digits are lost at levels that are rarer.
    """

    d: int
    lam: float
    replacement: bool
    fraction: float
    S: Floats
    covariance: Floats
    bias: Floats

    @property
    def sd(self) -> Floats:
        """Limit of √N sd(S_ℓ^(N)/N), shape (L,)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))

    @property
    def mean_queue(self) -> float:
        """Mean queue length of the limit, Σ S_ℓ."""
        return math.fsum(self.S)

    @property
    def mean_queue_bias(self) -> float:
        """Limit of N (E X^(N)/N − Σ S_ℓ)."""
        return math.fsum(self.bias)

    @property
    def mean_queue_variance(self) -> float:
        """Limit of N Var(X^(N)/N)."""
        return math.fsum(self.covariance.ravel())


def mean_field_constants(
    *, d: int, lam: float, replacement: bool = True, fraction: float = 1.0
) -> MeanFieldConstants:
    """Compute lim N Cov and lim N bias of the shares S_ℓ of queues of length ≥ ℓ in equilibrium.

    Parameters
    ----------
    d
        Queues sampled by an arrival, ≥ 1.
    lam
        Poisson arrival rate per server, 0 < λ < 1; services are exponential of mean 1.
    replacement
        Whether the d queues are sampled with replacement.
    fraction
        Share p of arrivals that use d choices, the others joining one uniform queue.

    Raises
    ------
    TypeError, ValueError
        A parameter of the wrong type or outside its range.

    Notes
    -----
    With s = S/N, level ℓ gains 1/N at rate Nλ(φ(s_{ℓ−1}) − φ(s_ℓ)) and loses it at rate N(s_ℓ − s_{ℓ+1}),
    φ(x) = (1−p)x + p x^d. At the fixed point S_ℓ = λφ(S_{ℓ−1}) of the drift F let A be its Jacobian,
    B its second derivative and Q = diag 2(S_ℓ − S_{ℓ+1}) the noise. Then (N. Gast, B. Van Houdt, A refined
    mean field approximation, 2017, theorem 3)

        A W + W Aᵀ + Q = 0,        A V + ½ B·W + C = 0,

    W = lim N Cov, V = lim N bias. C is what the rates differ by from N times a function of s, to first order:
    0 with replacement. Without it all of d distinct queues have length ≥ ℓ with probability
    Π_{i<d} (S_ℓ − i)/(N − i) = s^d − d(d−1)/(2N) s^{d−1}(1−s) + O(N⁻²), so C_ℓ = λ(ψ(s_{ℓ−1}) − ψ(s_ℓ)),
    ψ(s) = −½ p d(d−1) s^{d−1}(1−s).

    Examples
    --------
    >>> constants = mean_field_constants(d=1, lam=0.5)  # independent M/M/1 queues: λ/(1−λ)²
    >>> round(constants.mean_queue_variance, 10), abs(round(constants.mean_queue_bias, 10))
    (2.0, 0.0)
    """
    from scipy.linalg import solve_continuous_lyapunov

    from sweep.arguments import check_count
    from sweep.cell import check_fraction, check_rate

    d, lam, fraction = check_count("d", d), check_rate(lam), check_fraction(fraction)
    if lam >= 1.0:
        raise ValueError(f"lam must be below 1 for an equilibrium to exist, got {lam:g}")
    S = _fixed_point(d, lam, fraction)
    below, above = np.concatenate([[1.0], S[:-1]]), np.concatenate([S[1:], [0.0]])
    slope, curvature = _derivatives(S, d, fraction)
    jacobian = np.diag(-lam * slope - 1.0) + np.diag(lam * slope[:-1], -1) + np.diag(np.ones(S.size - 1), 1)
    W = solve_continuous_lyapunov(jacobian, -np.diag(2.0 * (S - above)))
    bent = lam * curvature * np.diagonal(W)
    pull = 0.5 * (np.concatenate([[0.0], bent[:-1]]) - bent)
    if not replacement:
        pull += lam * (_distinct(below, d, fraction) - _distinct(S, d, fraction))
    V = np.linalg.solve(jacobian, -pull)
    return MeanFieldConstants(
        d=d,
        lam=lam,
        replacement=bool(replacement),
        fraction=fraction,
        S=S,
        covariance=np.asarray(W, dtype=np.float64),
        bias=np.asarray(V, dtype=np.float64),
    )


def _fixed_point(d: int, lam: float, fraction: float) -> Floats:
    """S_ℓ = λφ(S_{ℓ−1}) until it is negligible."""
    levels: list[float] = []
    share = 1.0
    while len(levels) < MOST_LEVELS and (share > SMALLEST or not levels):
        share = lam * ((1.0 - fraction) * share + fraction * share**d)
        levels.append(share)
    if share > SMALLEST:
        raise ValueError(
            f"lam must leave at most {MOST_LEVELS} levels with S_ℓ > {SMALLEST:g}, got {lam:g} with d = {d} "
            f"and fraction = {fraction:g}"
        )
    return np.array(levels)


def _derivatives(S: Floats, d: int, fraction: float) -> tuple[Floats, Floats]:
    """φ′ and φ″ at S."""
    slope = [(1.0 - fraction) + fraction * d * s ** (d - 1) for s in S.tolist()]
    curvature = [fraction * d * (d - 1) * s ** (d - 2) if d > 1 else 0.0 for s in S.tolist()]
    return np.array(slope), np.array(curvature)


def _distinct(S: Floats, d: int, fraction: float) -> Floats:
    """ψ(S): N times what d distinct queues lack in probability to be all of length ≥ ℓ."""
    return np.array([-0.5 * fraction * d * (d - 1) * s ** (d - 1) * (1.0 - s) for s in S.tolist()])
