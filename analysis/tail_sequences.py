"""Local exponents of a tail, level by level, their limits, and what they say for each regime."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Fewest levels from which a verdict may come.
LEAST_LEVELS = {"double_exponential": 5, "geometric": 9, "power": 24}
#: S_{ℓ+1}/S_ℓ must fall below this for a tail to count as double exponential: time scales of levels apart.
SEPARATED = 0.1
#: Bounds: of |κ| in the deeper half of the levels for a geometric tail, and for a power law of the
#: uncertainty of the limit of `Sequences.bend`, with the distance from 0 that always passes.
NEAR_GEOMETRIC, SHARP_POWER, NEAR_POWER = 0.05, 0.05, 0.01
#: |κ| must shrink by this factor over the deeper half for a geometric tail.
SHRINKS = 0.5
#: Rates that a regime may have.
POSSIBLE = {"double_exponential": (1.0, math.inf), "geometric": (0.0, 1.0), "power": (0.0, math.inf)}
#: Differences below this are rounding.
ROUNDING = 1e-9
#: Ratio of successive steps that extrapolation goes up to; beyond it a sequence does not count as convergent.
_SLOWEST = 0.8


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A regime on trial: its local rate at the deepest level, the limit of that, and its criterion's slack.

    `error` is how uncertain the limit `rate` is without noise, what extrapolation adds to `local` included.
    The levels support the regime where `slack` ≥ 0 and the interval of the rate lies within `POSSIBLE`.
    """

    regime: str
    local: float
    rate: float
    error: float
    slack: float


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Local exponents of S_ℓ, ℓ = 1 … L: each tends to the rate in its own regime.

    Attributes
    ----------
    steps
        Δ_ℓ = log S_ℓ/S_{ℓ+1}, shape (L − 1,).
    growth
        Δ_{ℓ+1}/Δ_ℓ → r, shape (L − 2,); 1 in the other regimes.
    ratio
        S_{ℓ+1}/S_ℓ → ρ, shape (L − 1,).
    power
        1/(1/Δ_{ℓ+1} − 1/Δ_ℓ) → γ, shape (L − 2,): exact for Δ_ℓ = γ/(ℓ + a), whatever the shift a.
    index
        κ_ℓ = d log Δ/d log ℓ, shape (L − 2,): → −1 for a power law, 0 for a geometric tail, or ~ ℓ log r.
    bend
        q_ℓ = y y''/y'² for y = 1/Δ, shape (L − 3,): how fast γ falls with log(ℓ + a). It is 0 for
        Δ_ℓ = γ/(ℓ + a), whatever the shift a, and 1 − 1/s for y ~ ℓ^s. It tends to 1 for a double
        exponential, and has no limit for a geometric tail.
    """

    steps: Floats
    growth: Floats
    ratio: Floats
    power: Floats
    index: Floats
    bend: Floats

    @classmethod
    def of(cls, log_S: Floats) -> Sequences:
        """Take the sequences of log S_ℓ, ℓ = 1 … L, strictly decreasing, L ≥ 3."""
        steps = -np.diff(log_S)
        middle = np.arange(1.0, steps.size + 1.0) + 0.5
        growth = steps[1:] / steps[:-1]
        rise = np.diff(1.0 / steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            power = 1.0 / rise
            slope = (rise[1:] + rise[:-1]) / 2.0
            bend = np.diff(rise) / slope / (steps[1:-1] * slope)
        return cls(
            steps=steps,
            growth=growth,
            ratio=np.exp(-steps),
            power=power,
            index=np.log(growth) / np.diff(np.log(middle)),
            bend=bend,
        )


def candidates(log_S: Floats, *, d: int = 2, fraction: float = 1.0) -> tuple[Candidate, ...]:
    """Put the three regimes on trial on log S_ℓ, ℓ = 1 … L, strictly decreasing; none below five levels.

    Parameters
    ----------
    log_S
        log S_ℓ, shape (L,).
    d, fraction
        Choices of an arrival and the share of arrivals that have them, which tell how small S_L must be for a
        power law. The terms of d = 2 bound those of d > 2.

    Notes
    -----
    A limit is Aitken's from three terms: successive ones for r and ρ, those at L/4, L/2 and L for γ and q,
    since their errors fall like a power of 1/ℓ. Its uncertainty covers what is still to come below level L.
    For r and ρ it is the larger of what the extrapolation adds and of the drift over the deeper half of the
    levels. For γ and q it is the sum of these, with twice the last step where steps turn, or half the
    distance to the limit from L/8, L/4 and L/2 if larger. The largest second difference comes on top, since
    it shows noise. Terms that the levels seen need not show are bounded by theory and covered as well:

    - power: terms in S itself may hide behind a local exponent that hardly moves, see `_crowding`;
    - double exponential: scales that overlap leave Δ_{ℓ+1} = r Δ_ℓ + O(r − 1), so that r errs by (r − 1)/Δ_L
      (measured: 0.74 of that for lomax with β = 2.02 and 3) unless the growth is constant to rounding.

    The criteria:

    - double exponential: S_L/S_{L−1} ≤ 0.1, and r exceeds 1 by more than its uncertainty;
    - geometric: |κ| ≤ 0.05 over the deeper half of the levels, and halved over it;
    - power: q and γ are uncertain by at most 0.05 and 5 %, q's limit is 0 within half of that (or 0.01), and
      at L q is no farther from 0 than at L/2 (or 0.01).

    Examples
    --------
    >>> [c.regime for c in candidates(np.log(0.7) * (2.0 ** np.arange(1, 7) - 1)) if c.slack >= 0]
    ['double_exponential']
    """
    if log_S.size < min(LEAST_LEVELS.values()):
        return ()
    found = Sequences.of(log_S)
    tried = (_double_exponential(found), _geometric(found), _power(found, float(log_S[-1]), d, fraction))
    return tuple(one for one in tried if log_S.size >= LEAST_LEVELS[one.regime])


def aitken(first: float, second: float, third: float) -> tuple[float, float]:
    """Return the limit of a sequence whose steps shrink by a constant factor, and how uncertain that is.

    The uncertainty is what extrapolation adds, and twice the steps besides where they do not shrink by 0.8.

    Examples
    --------
    >>> aitken(2.0, 1.5, 1.25)
    (1.0, 0.25)
    """
    before, last = second - first, third - second
    if abs(last) <= ROUNDING * abs(third):
        return third, abs(last)
    shrinks = abs(last) <= _SLOWEST * abs(before)
    factor = last / before if shrinks else math.copysign(_SLOWEST, last * before)
    added = last * factor / (1.0 - factor)
    error = max(abs(added), abs(last) if factor < 0.0 else 0.0)
    return third + added, error if shrinks else error + 2.0 * (abs(before) + abs(last))


def _double_exponential(found: Sequences) -> Candidate:
    growth = found.growth
    rate, error = aitken(*growth[-3:].tolist())
    # A few levels, or r near 1, hide a term in 1/Δ from extrapolation, but not in a growth that is constant.
    if abs(growth[-1] - growth[-2]) > ROUNDING * rate:
        error += abs(rate - 1.0) / float(found.steps[-1])
    # Neighbouring time scales overlap by a power of S_ℓ/S_{ℓ−1} that is unknown: twice its square root here.
    overlap = 2.0 * abs(rate - 1.0) * math.sqrt(float(found.ratio[-1]))
    error = max(error, _drift(growth), overlap, ROUNDING * rate)
    slack = 1.0 - float(found.ratio[-1]) / SEPARATED
    return Candidate(
        regime="double_exponential", local=float(growth[-1]), rate=rate, error=error, slack=slack
    )


def _geometric(found: Sequences) -> Candidate:
    ratio, index = found.ratio, np.abs(found.index)
    rate, error = aitken(*ratio[-3:].tolist())
    half = _deeper(index)
    error = max(error, _drift(ratio), ROUNDING * rate)
    most, last = float(half.max()), float(half[-1])
    shrunk = SHRINKS - last / most if most > ROUNDING else SHRINKS
    slack = min(1.0 - most / NEAR_GEOMETRIC, shrunk)
    return Candidate(regime="geometric", local=float(ratio[-1]), rate=rate, error=error, slack=slack)


def _power(found: Sequences, log_S: float, d: int, fraction: float) -> Candidate:
    rate, error = _over_scales(found.power)
    bend, doubt = _over_scales(found.bend)
    error = max(error, (_crowding(abs(rate), log_S, d, fraction) + ROUNDING) * abs(rate))
    half, last = (abs(float(found.bend[at])) for at in (found.bend.size // 2 - 1, -1))
    slack = min(
        1.0 - doubt / SHARP_POWER,
        (max(doubt / 2.0, NEAR_POWER) - abs(bend)) / SHARP_POWER,
        (max(half, NEAR_POWER) - last) / SHARP_POWER,
        1.0 - error / max(SHARP_POWER * abs(rate), ROUNDING),
    )
    return Candidate(regime="power", local=float(found.power[-1]), rate=rate, error=error, slack=slack)


def _crowding(gamma: float, log_S: float, d: int, fraction: float) -> float:
    """Bound the share of γ that terms in S_L make of its local exponent `Sequences.power`.

    Notes
    -----
    With u = d − 1 ages scale like T_ℓ = Σ 1/c_k, c_k = λ φ'(S_k), and S_ℓ − λ φ(S_ℓ) ~ C T_ℓ^{1−β}. The terms
    of next order in S shift the exponent by u λ S^u of itself for p = 1. A uniform stream leaves a term in S,
    and one in u γ a S^u with a = d p/(1 − p), which is small only where that stream rules.
    """
    u = d - 1
    choices = u * math.exp(u * log_S)
    if fraction == 1.0 and d > 1:
        return choices
    return math.exp(log_S) + choices * gamma * d * fraction / max(1.0 - fraction, ROUNDING)


def _deeper(sequence: Floats) -> Floats:
    return sequence[(sequence.size - 1) // 2 :]


def _drift(sequence: Floats) -> float:
    """Range of a sequence over its deeper half."""
    return float(np.ptp(_deeper(sequence)))


def _over_scales(sequence: Floats) -> tuple[float, float]:
    """Limit and uncertainty of a sequence whose error falls like a power of 1/ℓ; 0 ± ∞ if not finite."""
    size, deeper = sequence.size, _deeper(sequence)
    scales = size / np.array([8.0, 4.0, 2.0, 1.0])
    terms = np.interp(scales, np.arange(1.0, size + 1.0), sequence).tolist()
    if not np.isfinite([*terms, *deeper]).all():
        return 0.0, math.inf
    (limit, error), (before, _) = aitken(*terms[1:]), aitken(*terms[:3])
    _, earlier, last = np.diff(terms).tolist()
    if earlier * last < 0.0:  # the limit may lie beyond the turn, not between the terms
        error += 2.0 * abs(last)
    rough = float(np.abs(np.diff(deeper, 2)).max(initial=0.0))
    return limit, max(error + _drift(sequence), abs(earlier) / 2.0, abs(limit - before) / 2.0) + rough
