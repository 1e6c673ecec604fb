"""What theory says of the tail of queue lengths in the N → ∞ limit, from d, λ, the law and the mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from sweep.cell import Limit
from sweep.fluid.mean_length import tail_power, uniform_share
from sweep.laws import Law, as_law

#: Regimes of the tail, with the symbol and the words of the rate that belongs to each.
REGIMES = {
    "double_exponential": ("r", "log 1/S_ℓ grows like r^ℓ"),
    "geometric": ("ρ", "S_ℓ falls like ρ^ℓ"),
    "power": ("γ", "S_ℓ falls like ℓ^(−γ)"),
}
#: The regime, without a rate, of queues with a uniform stream and a law between power and exponential.
BETWEEN = "between"
#: Regimes in words.
NAMES = {
    "double_exponential": "double exponential",
    "geometric": "geometric",
    "power": "power law",
    BETWEEN: "between geometric and power law",
}

#: Distance of β from d/(d−1) that is rounding.
_ROUNDING = 1e-9
#: Ages at which the far tail of a law is looked at, and its oldest.
_FAR, _OLDEST = 1e10, 1e12
#: d log(−log Ḡ)/d log x from which on a tail counts as exponential or lighter.
_LIGHT = 0.98
#: First panel of an integral over ages: densities may be infinite at 0.
_FINEST = 1e-9
#: Exponents of e that are nothing, and beyond which an integral counts as infinite.
_NOTHING, _INFINITE = -45.0, 700.0


@dataclass(frozen=True, kw_only=True)
class TailPrediction:
    """Regime of the tail with its rate: r, ρ or γ as `REGIMES` tells; NaN for the regime between.

    Examples
    --------
    >>> print(TailPrediction(regime="double_exponential", rate=2.0))
    double exponential with r = 2
    """

    regime: str
    rate: float

    def __str__(self) -> str:
        if self.regime == BETWEEN:
            return NAMES[BETWEEN]
        return f"{NAMES[self.regime]} with {REGIMES[self.regime][0]} = {self.rate:.6g}"


def predict_tail(*, d: int, lam: float, G: str | Law, fraction: float = 1.0) -> TailPrediction:
    """Tell how S_ℓ decays in the invariant state.

    Parameters
    ----------
    d
        Queues sampled by an arrival.
    lam
        Arrival rate per server λ < 1; only the ratio of a geometric tail depends on it.
    G
        Service law of mean 1.
    fraction
        Share p of arrivals that use d choices.

    Raises
    ------
    TypeError, ValueError
        A parameter of the wrong type or value; λ ≥ 1.

    Notes
    -----
    With Ḡ(x) ~ c x^{−β}, p = 1 and d ≥ 2 (regimes: Bramson, Lu & Prabhakar, 2013):

    - β < d/(d−1): power law, γ = (β−1)/(1 − (d−1)(β−1));
    - β > d/(d−1): double exponential, r > 1 the root of r^{k+1} = (d−1)(r^k + … + r + β − 1 − k), k = ⌊β−1⌋;
      lighter tails: r = d;
    - β = d/(d−1): geometric. On the time scale 1/c_ℓ the age profile f_ℓ/λ is the cdf of Y = Σ_i q^i E_i,
      E_i exponential of mean 1, q = ρ^{d−1}; with K = (1−ρ^d)/(1−ρ), S_ℓ = ∫ f_ℓ Ḡ makes ρ the root of

          ρ = λ^β c K^{β−1} E[Y^{1−β}]/(β−1),   E[Y^s] = Γ(1+s) Π_{i≥1} (1 − q^{i+s})/(1 − q^i).

    A share p < 1, or d = 1, leaves a uniform stream of rate μ = λ(1−p), or λ, which rules the tail:
    γ = β − 1, or for exponential and lighter laws ρ = μ/(μ+θ), ∫ e^{θa} Ḡ(a) da = 1/μ. Other laws, as the
    lognormal, give neither. A law whose tail exponent is not known counts as lighter than any power.

    Examples
    --------
    >>> print(predict_tail(d=2, lam=0.7, G="lomax(beta=1.75)"))
    power law with γ = 3
    >>> print(predict_tail(d=2, lam=0.7, G="lomax(beta=2.5)"))
    double exponential with r = 1.36603
    >>> print(predict_tail(d=2, lam=0.7, G="exponential", fraction=0.5))
    geometric with ρ = 0.35
    """
    limit = Limit(d=d, lam=lam, G=as_law(G, "G"), fraction=fraction)
    if limit.lam >= 1.0:
        raise ValueError(f"lam must be below 1 for an invariant state to exist, got {limit.lam:g}")
    law, beta, share = limit.G, limit.G.tail_exponent, uniform_share(limit)
    power = tail_power(limit)
    if power is not None:
        return TailPrediction(regime="power", rate=power)
    if share > 0.0:
        if not _is_light(law):
            return TailPrediction(regime=BETWEEN, rate=math.nan)
        return TailPrediction(regime="geometric", rate=_uniform_ratio(law, limit.lam * share))
    if beta is None:
        return TailPrediction(regime="double_exponential", rate=float(limit.d))
    if abs((limit.d - 1) * (beta - 1.0) - 1.0) <= _ROUNDING:
        return TailPrediction(regime="geometric", rate=_critical_ratio(law, beta, limit.lam, limit.d))
    return TailPrediction(regime="double_exponential", rate=characteristic_root(beta, limit.d))


def characteristic_root(beta: float, d: int) -> float:
    """Return the root r > 1 of r^{k+1} = (d−1)(r^k + … + r + β − 1 − k), k = ⌊β−1⌋, for β > d/(d−1).

    Raises
    ------
    ValueError
        β ≤ d/(d−1), where no root exceeds 1.

    Examples
    --------
    >>> round(characteristic_root(2.5, 2), 12) == round((1 + 3**0.5) / 2, 12)
    True
    """
    if not (d - 1) * (beta - 1.0) > 1.0:
        raise ValueError(f"beta must exceed d/(d−1) for a root above 1, got beta = {beta:g} with d = {d}")
    k = math.floor(beta - 1.0)

    def excess(r: float) -> float:
        # Divided by r^{k+1}: decreasing in 1/r, so that the root is one, and d has the sign of r > root.
        y = 1.0 / r
        powers = y * (1.0 - y**k) / (1.0 - y) if y < 1.0 else float(k)
        return 1.0 - (d - 1) * (powers + (beta - 1.0 - k) * y ** (k + 1))

    # S_ℓ falls no faster than d^ℓ lets it, so r ≤ d, with equality only to rounding.
    return float(d) if excess(float(d)) <= 0.0 else float(brentq(excess, 1.0, float(d), xtol=1e-15))


def _critical_ratio(law: Law, beta: float, lam: float, d: int) -> float:
    """Return ρ of the geometric tail at β = d/(d−1)."""
    s = beta - 1.0
    log_c = float(law.log_survival(_FAR)) + beta * math.log(_FAR)
    known = beta * math.log(lam) + log_c - math.log(s)

    def excess(rho: float) -> float:
        log_K = math.log((1.0 - rho**d) / (1.0 - rho))
        return known + s * log_K + _log_moment(s, (d - 1) * math.log(rho)) - math.log(rho)

    return float(brentq(excess, 1e-12, 0.9999, xtol=1e-15))


def _log_moment(s: float, log_q: float) -> float:
    """Logarithm of E[Y^{−s}] for Y = Σ_i q^i E_i for 0 < s ≤ 1; E[1/Y] = log 1/q is the limit s → 1."""
    if s > 1.0 - _ROUNDING:
        return math.log(-log_q)
    i = np.arange(1.0, math.ceil(_NOTHING / log_q) + 2.0)
    terms = np.log(np.expm1((i - s) * log_q) / np.expm1(i * log_q))
    return math.lgamma(1.0 - s) + float(np.sum(terms))


def _is_light(law: Law) -> bool:
    """Whether Ḡ falls exponentially or faster."""
    if law.support_end < math.inf:
        return True
    far = _FAR
    while (deep := -float(law.log_survival(far))) == math.inf and far > 10.0:
        far /= 10.0
    near = -float(law.log_survival(far / 10.0))
    return math.log(deep / near) >= _LIGHT * math.log(10.0)


@lru_cache(maxsize=256)
def _uniform_ratio(law: Law, mu: float) -> float:
    """Return ρ = μ/(μ+θ) with ∫ e^{θa} Ḡ(a) da = 1/μ: long queues see uniform arrivals only, as M/G/1.

    It takes a fair part of a second, and many states of a store share it.
    """

    def excess(theta: float) -> float:
        return _log_transform(law, theta) + math.log(mu)

    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    theta = float(brentq(excess, 0.0, high, xtol=1e-14))
    return mu / (mu + theta)


def _log_transform(law: Law, theta: float) -> float:
    """Logarithm of ∫ e^{θa} Ḡ(a) da, Gauss–Legendre on panels that double; 700 where infinite or larger."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    breaks, total, left, width = [*law.breakpoints, math.inf], -math.inf, 0.0, _FINEST
    while left < min(law.support_end, _OLDEST):
        while breaks[0] <= left:
            breaks.pop(0)
        right = min(left + width, breaks[0])
        ages = left + (right - left) * (nodes + 1.0) / 2.0
        exponents = theta * ages + law.log_survival(ages)
        total = float(logsumexp([total, logsumexp(exponents, b=weights * (right - left) / 2.0)]))
        if exponents[-1] + math.log(right) < _NOTHING + min(total, 0.0) and exponents[-1] < exponents[0]:
            return min(total, _INFINITE)
        left, width = right, max(width, right / 2.0)
    return min(total, _INFINITE) if law.support_end < math.inf else _INFINITE
