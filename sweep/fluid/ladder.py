"""The equations of the invariant state, climbed level by level in log space."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.panels import DEGREE, Floats, Panels

#: Share of a level's mass in the last two Legendre coefficients of its panels at which they are fine enough.
#: The mass itself, by superconvergence, is then good to 1e-14.
_RESOLVED = 1e-8
#: Share of a level's mass that may be in doubt beyond the oldest age.
_DOUBT = 1e-15
#: Relative distance of u from its limit that is rounding.
_ROUNDING = 4e-14
#: log Ḡ beyond which doubles no longer hold the product of Ḡ and f, and log S beyond which differences of
#: neighbouring levels lose their digits.
_DEEPEST, _LOWEST = -650.0, -1e12
#: Oldest ages, as multiples of the last edge, at which the mass beyond it is bounded.
_RATIO, _POINTS = 2.0**0.25, 80


@final
@dataclass(frozen=True)
class Step:
    """One level: with u_ℓ = f_ℓ / S_ℓ, u_ℓ' = feed · u_{ℓ−1} − decay · u_ℓ and u_ℓ(0) = start.

    decay = c_ℓ = λP(S_{ℓ−1}, S_ℓ), feed = c_ℓ S_{ℓ−1}/S_ℓ, start = λφ(S_ℓ)/S_ℓ; level 1 has u_1 ≡ 1.
    """

    log_S: float
    decay: float
    feed: float
    start: float

    @classmethod
    def at(cls, limit: Limit, log_below: float, log_ratio: float) -> Step:
        """Return the coefficients for log S_{ℓ−1} and a trial value of log S_ℓ/S_{ℓ−1} < 0."""
        d, log_S = limit.d, log_below + log_ratio
        chords = math.expm1(d * log_ratio) / math.expm1(log_ratio)  # Σ_{m<d} (S_ℓ/S_{ℓ−1})^m
        log_decay = _log_mix(limit, (d - 1) * log_below + math.log(chords))
        start = limit.lam * (1.0 - limit.fraction + limit.fraction * math.exp((d - 1) * log_S))
        return cls(log_S, math.exp(log_decay), math.exp(log_decay - log_ratio), start)


def _log_mix(limit: Limit, log_power: float) -> float:
    """Return log λ(1 − p + p e^{log_power}), exact where the power underflows and p = 1."""
    p = limit.fraction
    if p == 1.0:
        return math.log(limit.lam) + log_power
    return math.log(limit.lam) + math.log((1.0 - p) + p * math.exp(log_power))


@final
class Ladder:
    """Levels solved so far, on panels of age that are extended as far as each level demands.

    Parameters
    ----------
    limit
        d, λ < 1, G and the fraction; its initial state and arrivals play no part.
    growth
        Width of a panel as a share of its left end.
    """

    def __init__(self, limit: Limit, growth: float) -> None:
        self.limit = limit
        self.panels = Panels.start(limit.G, growth, first=2.0 * growth / limit.d)
        self.steps = [Step(math.log(limit.lam), 0.0, 0.0, 1.0)]
        self.coefficients = [_ones(self.panels)]
        self.ends = [1.0]
        self.fine = True

    @property
    def levels(self) -> int:
        """How many levels are solved."""
        return len(self.steps)

    def climb(self) -> None:
        """Solve the next level; `fine` turns false if the panels are too coarse for it.

        Raises
        ------
        AccuracyError
            The level needs ages at which Ḡ leaves the range of doubles, or log S_ℓ is below −1e12.
        """
        if self.limit.d * self.steps[-1].log_S < _LOWEST and self.limit.fraction == 1.0:
            deep = f"log S below {_LOWEST:g}, of which doubles cannot hold the digits"
            raise self._out_of_reach(deep, math.inf)
        step, coefficients, end, last = self._root()
        while (doubt := self._doubt(step, end, coefficients[-1])) > _DOUBT:
            self._extend(doubt)
            step, coefficients, end, last = self._root()
        self.steps.append(step)
        self.coefficients.append(coefficients)
        self.ends.append(end)
        self.fine = self.fine and last <= _RESOLVED

    def _root(self) -> tuple[Step, Floats, float, float]:
        """Solve ∫ u_ℓ Ḡ da = 1 for log S_ℓ/S_{ℓ−1} on the present panels."""
        from scipy.optimize import brentq

        from sweep.fluid.invariant_kernels import advance, weigh

        log_below, below = self.steps[-1].log_S, self.coefficients[-1]
        widths, moments = self.panels.widths, self.panels.moments
        tail = float(self.limit.G.integrated_tail(self.panels.end))
        coefficients, ends, work = np.empty_like(below), np.empty(widths.size), np.empty(DEGREE + 1)

        def mass(decay: float, feed: float, start: float) -> tuple[float, float]:
            advance(below, widths, decay, feed, start, coefficients, ends, work)
            inside, last = weigh(coefficients, moments)
            return inside + ends[-1] * tail, last

        def log_mass(log_ratio: float) -> float:
            step = Step.at(self.limit, log_below, log_ratio)
            return math.log(mass(step.decay, step.feed, step.start)[0])

        # ∫ f_ℓ Ḡ increases with S_ℓ, so its value at S_ℓ = 0 lies below the root.
        log_decay = _log_mix(self.limit, (self.limit.d - 1) * log_below)
        low = log_decay + math.log(mass(math.exp(log_decay), 1.0, 0.0)[0])
        low -= 1e-9 * max(1.0, -low)
        high = min(low / 2.0, low + 0.5)
        while log_mass(high) > 0.0:
            low, high = high, min(high / 2.0, high + 1.0)
        root = float(brentq(log_mass, low, high, xtol=1e-16, rtol=1e-15))
        step = Step.at(self.limit, log_below, root)
        total, last = mass(step.decay, step.feed, step.start)
        # Where log S is large, log S_ℓ/S_{ℓ−1} cannot be rounded finely enough for a mass of 1.
        step = replace(step, feed=step.feed / total, start=step.start / total)
        return step, coefficients / total, float(ends[-1]) / total, last / total

    def _doubt(self, step: Step, end: float, last: Floats) -> float:
        """Bound what u(A) ∫_A^∞ Ḡ misses of the mass beyond the last edge A, where u(A) = `end`.

        f_ℓ increases to λ, so u to u(∞) = λ/S_ℓ; and u(a) a^{−(ℓ−1)} decreases, by induction over levels. The
        second bound starts from the absolute sum of `last`, the coefficients of the last panel: ages of no
        weight may be resolved badly.
        """
        law, age = self.limit.G, self.panels.end
        if self.panels.complete:
            return 0.0
        log_most = math.log(self.limit.lam) - step.log_S
        rise = math.inf
        if log_most < 700.0:
            most = math.exp(log_most)
            rise = most - end if end < most * (1.0 - _ROUNDING) else 0.0
            rise *= float(law.integrated_tail(age))
        if law.tail_exponent is not None or rise <= _DOUBT:
            return rise
        ages, total = age * _powers(), 0.0
        slope, base = self.levels * math.log(_RATIO), math.log(math.fsum(np.abs(last).tolist()))
        for k, (left, log_survival) in enumerate(zip(ages, law.log_survival(ages).tolist(), strict=True)):
            log_bound = min(base + (k + 1) * slope, log_most) + log_survival + math.log(left)
            total += math.exp(min(log_bound, 700.0))
        return min(rise, total)

    def _extend(self, doubt: float) -> None:
        """Double the ages covered, and carry every level solved so far over them."""
        from sweep.fluid.invariant_kernels import advance

        if float(self.limit.G.log_survival(self.panels.end)) < _DEEPEST:
            ages = f"ages beyond {self.panels.end:.2g}, of which doubles cannot hold the probability"
            raise self._out_of_reach(ages, doubt)
        old = self.panels.edges.size - 1
        self.panels = self.panels.extended(2.0 * self.panels.end)
        widths, below = self.panels.widths[old:], _ones(self.panels)
        ends, work = np.empty(widths.size), np.empty(DEGREE + 1)
        self.coefficients[0] = below
        for i in range(1, self.levels):
            step, added = self.steps[i], np.empty((widths.size, DEGREE + 1))
            advance(below[old:], widths, step.decay, step.feed, self.ends[i], added, ends, work)
            below = np.concatenate([self.coefficients[i], added])
            self.coefficients[i], self.ends[i] = below, float(ends[-1])

    def _out_of_reach(self, what: str, reached: float) -> AccuracyError:
        return AccuracyError(
            f"level {self.levels + 1} must be within reach for {self.limit.G}, d = {self.limit.d}, "
            f"lam = {self.limit.lam:g}, got {what}: ask for at most {self.levels} levels",
            reached,
        )


def _ones(panels: Panels) -> Floats:
    ones = np.zeros((panels.edges.size - 1, DEGREE + 1))
    ones[:, 0] = 1.0
    return ones


def _powers() -> Floats:
    """1, q, q², … with q = `_RATIO`, by products (whose bits do not depend on the processor)."""
    return np.cumprod(np.append(1.0, np.full(_POINTS - 1, _RATIO)))
