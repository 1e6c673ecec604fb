"""The mean queue length Σ S_ℓ of the invariant state, the levels that are not solved included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from sweep.cell import Limit
from sweep.fluid.ladder import Ladder
from sweep.fluid.panels import moments_between

#: Ratio of the levels at which partial sums are taken for extrapolation.
_SPACING = 1.3
#: Highest power of 1/ℓ in the extrapolation, and the fewest levels that it needs.
_ORDER, _LEAST = 3, 60


@final
@dataclass(frozen=True)
class Estimate:
    """A value with a bound or an estimate of its absolute error."""

    value: float
    error: float

    @property
    def settled(self) -> bool:
        """Whether the error is below 1e-10 of the value, or the value infinite."""
        return not self.value < math.inf or self.error <= 1e-10 * self.value


def uniform_share(limit: Limit) -> float:
    """Return q in φ(x) = q x + o(x): the share of arrivals that does not avoid long queues."""
    return 1.0 if limit.d == 1 else 1.0 - limit.fraction


def tail_power(limit: Limit) -> float | None:
    """Return γ if S_ℓ ~ C ℓ^{−γ}, else None: γ = β − 1 if q > 0, or (β−1)/(1 − (d−1)(β−1)) if β < d/(d−1).

    Decay of tails: Bramson, Lu & Prabhakar, 2013. β = d/(d−1), to rounding, is geometric.
    """
    beta = limit.G.tail_exponent
    if beta is None:
        return None
    if uniform_share(limit) > 0.0:
        return beta - 1.0
    room = 1.0 - (limit.d - 1) * (beta - 1.0)
    return (beta - 1.0) / room if room > 1e-9 else None


def mean_length(ladder: Ladder) -> Estimate:
    """Return Σ_{ℓ≥1} S_ℓ from the levels solved so far, with an error that says whether they suffice."""
    limit = ladder.limit
    power = tail_power(limit)
    if power is not None and power <= 1.0 + 1e-12:
        return Estimate(math.inf, 0.0)
    if uniform_share(limit) > 0.0:
        return Estimate(math.inf, 0.0) if limit.G.variance == math.inf else _by_residual_lives(ladder)
    sums = _partial_sums(ladder)
    return _by_ratio(sums) if power is None else extrapolate(sums, power - 1.0)


def _partial_sums(ladder: Ladder) -> list[float]:
    sums, total = [], 0.0
    for step in ladder.steps:
        total += math.exp(step.log_S)
        sums.append(total)
    return sums


def _by_ratio(sums: Sequence[float]) -> Estimate:
    """Aitken's process, exact for a geometric tail of ratio r; the error is its last step over 1 − r.

    Where S_ℓ falls faster than that, S_n over 1 − r, for the last level n, is the smaller estimate.
    """
    if len(sums) < 2:
        return Estimate(sums[-1], math.inf)
    since_idle = [-1.0, 0.0, *sums]  # S_0 = 1 is a level too
    guesses, ratio, last = [], 0.0, 0.0
    for three in (since_idle[-4:-1], since_idle[-3:]):
        before, last = three[1] - three[0], three[2] - three[1]
        ratio = last / before if last > 0.0 else 0.0
        guesses.append(three[2] + last * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf)
    if max(guesses) == math.inf:
        return Estimate(sums[-1], math.inf)
    step = min(abs(guesses[1] - guesses[0]), last)
    return Estimate(guesses[1], step / (1.0 - ratio) + 4e-16 * guesses[1])


def _by_residual_lives(ladder: Ladder) -> Estimate:
    """Add T_n = Σ_{ℓ>n} S_ℓ = λq R_n / (1 − λq), R_n = ∫ f_n(a) ∫_a^∞ Ḡ; Pollaczek–Khinchine for n = d = 1.

    F = Σ_{ℓ>n} f_ℓ has F' = Σ c_ℓ (f_{ℓ−1} − f_ℓ), F(0) = Σ λφ(S_ℓ) and ∫ F Ḡ = T_n, where c_ℓ and
    λφ(S_ℓ)/S_ℓ lie between λq and λφ'(S_n). With these for λq the formula bounds T_n on both sides; the lower
    end is taken, which misses O(Σ_{ℓ>n} S_ℓ^d).
    """
    limit, sums = ladder.limit, _partial_sums(ladder)
    least, most = limit.lam * uniform_share(limit), limit.lam
    residuals = _residual_lives(ladder)
    lows = [total + least * residual / (1.0 - least) for total, residual in zip(sums, residuals, strict=True)]
    rounding = 1e-15 * lows[-1]
    if limit.d == 1:
        return Estimate(lows[-1], rounding)
    choosing = limit.fraction * limit.d * math.exp((limit.d - 1) * ladder.steps[-1].log_S)
    most *= 1.0 - limit.fraction + choosing
    high = sums[-1] + most * residuals[-1] / (1.0 - most) if most < 1.0 else math.inf
    bounded = Estimate(lows[-1], high - lows[-1] + rounding)
    power = tail_power(limit)
    if power is None or bounded.settled:
        return bounded
    beyond = extrapolate(lows, limit.d * power - 1.0)
    return beyond if beyond.error < bounded.error else bounded


def _residual_lives(ladder: Ladder) -> list[float]:
    """R_n = ∫ f_n(a) ∫_a^∞ Ḡ da for every level solved."""
    from sweep.fluid.invariant_kernels import weigh

    law, edges = ladder.limit.G, ladder.panels.edges
    moments = moments_between(law.integrated_tail, law.breakpoints, edges[:-1], edges[1:])
    beyond = max((1.0 + law.variance) / 2.0 - math.fsum(moments[:, 0].tolist()), 0.0)
    return [
        math.exp(step.log_S) * (weigh(coefficients, moments)[0] + end * beyond)
        for step, coefficients, end in zip(ladder.steps, ladder.coefficients, ladder.ends, strict=True)
    ]


def extrapolate(sums: Sequence[float], power: float) -> Estimate:
    """Return the limit of s_n = s + n^{−power} Σ_{j ≥ i ≥ 0} k_ij (log n)^i / n^j from its first values.

    Orders j ≤ 2 and j ≤ 3 at n, and j ≤ 3 at n/1.3, are compared for the error.

    Examples
    --------
    >>> sums = [2.0 - 1.0 / n**0.5 + 3.0 / n**1.5 for n in range(1, 201)]
    >>> abs(extrapolate(sums, 0.5).value - 2.0) < 1e-9
    True
    """
    last = len(sums)
    if last < _LEAST:
        return Estimate(sums[-1], math.inf)
    value = _extrapolated(sums, power, last, _ORDER)
    others = [
        _extrapolated(sums, power, last, _ORDER - 1),
        _extrapolated(sums, power, round(last / _SPACING), _ORDER),
    ]
    return Estimate(value, max(abs(value - other) for other in others))


def _extrapolated(sums: Sequence[float], power: float, last: int, order: int) -> float:
    terms = [(j, i) for j in range(order + 1) for i in range(j + 1)]
    points = [round(last / _SPACING**k) for k in range(len(terms) + 1)]
    rows = np.array(
        [
            [*((n / last) ** -(power + j) * math.log(n / last) ** i for j, i in terms), 1.0, sums[n - 1]]
            for n in points
        ]
    )
    # Gaussian elimination, the limit last among the unknowns: LAPACK's bits depend on the processor.
    size = len(points)
    for k in range(size):
        best = k + int(np.argmax(np.abs(rows[k:, k])))
        rows[[k, best]] = rows[[best, k]]
        for i in range(k + 1, size):
            rows[i] -= rows[i, k] / rows[k, k] * rows[k]
    return float(rows[-1, -1] / rows[-1, -2])
