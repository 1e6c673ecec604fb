"""The invariant state of the hydrodynamic equations, level by level, for any service law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.panels import DEGREE, Floats, Panels

#: Ratio of a panel's width to its left end at first; halved until polynomials of `DEGREE` follow every level.
_GROWTH = 0.5
#: Share of a level's mass that may lie in the last two Legendre coefficients, and beyond the oldest age in doubt.
_RESOLVED = 1e-12
_UNCERTAIN = 1e-13
#: log Ḡ beyond which doubles no longer hold the product of Ḡ and f.
_DEEPEST = -650.0


@dataclass(frozen=True)
class Step:
    """One level: with u_ℓ = f_ℓ / S_ℓ, u_ℓ' = feed · u_{ℓ−1} − decay · u_ℓ and u_ℓ(0) = start."""

    log_S: float
    decay: float
    feed: float
    start: float

    @classmethod
    def at(cls, limit: Limit, log_below: float, log_ratio: float) -> Step:
        """Return the coefficients for log S_{ℓ−1} and a trial value of log S_ℓ/S_{ℓ−1} < 0."""
        d, p = limit.d, limit.fraction
        chords = math.expm1(d * log_ratio) / math.expm1(log_ratio)  # Σ_{m<d} (S_ℓ/S_{ℓ−1})^m
        log_decay = _log_mix(limit, (d - 1) * log_below + math.log(chords))
        log_S = log_below + log_ratio
        start = limit.lam * (1.0 - p + p * math.exp((d - 1) * log_S))
        return cls(log_S, math.exp(log_decay), math.exp(log_decay - log_ratio), start)


def _log_mix(limit: Limit, log_power: float) -> float:
    """Return log λ(1 − p + p e^{log_power}), exact where the power underflows and p = 1."""
    p = limit.fraction
    if p == 1.0:
        return math.log(limit.lam) + log_power
    return math.log(limit.lam) + math.log1p(-p + p * math.exp(log_power))


class Ladder:
    """Levels solved so far, on panels that are extended as they demand."""

    def __init__(self, limit: Limit, growth: float) -> None:
        self.limit = limit
        self.panels = Panels.start(limit.G, growth, first=2.0 * growth / limit.d)
        self.steps = [Step(math.log(limit.lam), 0.0, 0.0, 1.0)]
        self.coefficients = [self._ones(self.panels)]
        self.ends = [1.0]
        self.unresolved = 0.0

    @staticmethod
    def _ones(panels: Panels) -> Floats:
        ones = np.zeros((panels.edges.size - 1, DEGREE + 1))
        ones[:, 0] = 1.0
        return ones

    def climb(self) -> None:
        """Solve the next level.

        Raises
        ------
        AccuracyError
            The level needs ages at which Ḡ leaves the range of doubles.
        """
        while True:
            step, coefficients, end, unresolved = self._root()
            doubt = self._doubt(step, end)
            if doubt <= _UNCERTAIN:
                break
            self._extend(doubt)
        self.steps.append(step)
        self.coefficients.append(coefficients)
        self.ends.append(end)
        self.unresolved = max(self.unresolved, unresolved)

    def _root(self) -> tuple[Step, Floats, float, float]:
        from scipy.optimize import brentq

        from sweep.fluid.invariant_kernels import advance, weigh

        log_below, below = self.steps[-1].log_S, self.coefficients[-1]
        widths, tail = self.panels.widths, float(self.limit.G.integrated_tail(self.panels.end))
        coefficients, ends = np.empty_like(below), np.empty(widths.size)
        pivots = np.empty(DEGREE + 1)

        def mass(decay: float, feed: float, start: float) -> tuple[float, float]:
            advance(below, widths, decay, feed, start, coefficients, ends, pivots)
            inside, last = weigh(coefficients, self.panels.moments)
            return inside + ends[-1] * tail, last

        def excess(log_ratio: float) -> float:
            step = Step.at(self.limit, log_below, log_ratio)
            return math.log(mass(step.decay, step.feed, step.start)[0])

        # S_ℓ → ∫ f_ℓ Ḡ increases, so its value at S_ℓ = 0 is below the root.
        log_decay = _log_mix(self.limit, (self.limit.d - 1) * log_below)
        low = log_decay + math.log(mass(math.exp(log_decay), 1.0, 0.0)[0])
        low -= 1e-9 * max(1.0, -low)
        high, stride = low / 2.0 if low > -1.0 else low + 0.5, 1.0
        while excess(high) > 0.0:
            low, high, stride = high, max(high / 2.0, high + stride), 2.0 * stride
        root = brentq(excess, low, high, xtol=1e-16, rtol=4.0 * np.finfo(float).eps)
        step = Step.at(self.limit, log_below, root)
        total, last = mass(step.decay, step.feed, step.start)
        return step, coefficients, float(ends[-1]), last / total

    def _doubt(self, step: Step, end: float) -> float:
        """Bound of the share of the mass beyond the oldest age A that u(A) ∫_A^∞ Ḡ misses.

        f_ℓ increases to λ, and f_ℓ(a) a^{−(ℓ−1)} decreases.
        """
        if self.panels.complete:
            return 0.0
        law, age, level = self.limit.G, self.panels.end, len(self.steps) + 1
        log_most = math.log(self.limit.lam) - step.log_S  # log u(∞)
        tail = float(law.integrated_tail(age))
        limit_gap = (math.exp(log_most) - end) * tail if log_most < 700.0 else math.inf
        ratio = 2.0**0.25
        ages = age * ratio ** np.arange(80)
        log_bound = -math.inf
        total = 0.0
        for k, (point, log_survival) in enumerate(zip(ages.tolist(), law.log_survival(ages).tolist(), strict=True)):
            log_growth = min(math.log(end) + (k + 1) * (level - 1) * math.log(ratio), log_most)
            log_bound = log_growth + log_survival + math.log(point * (ratio if k == 79 else ratio - 1.0))
            total += math.exp(min(log_bound, 700.0))
        if law.tail_exponent is not None or log_bound > -100.0:
            return max(limit_gap, 0.0)
        return max(min(limit_gap, total), 0.0)

    def _extend(self, doubt: float) -> None:
        from sweep.fluid.invariant_kernels import advance

        law, level = self.limit.G, len(self.steps) + 1
        if float(law.log_survival(self.panels.end)) < _DEEPEST:
            raise AccuracyError(
                f"levels must be below {level} for {law} with d = {self.limit.d}, lam = {self.limit.lam:g}, "
                f"got {level}: it needs ages beyond {self.panels.end:.3g}, where log P(S > age) < {_DEEPEST:g}",
                doubt,
            )
        old = self.panels.edges.size - 1
        self.panels = self.panels.extended(2.0 * self.panels.end)
        widths = self.panels.widths[old:]
        ends, pivots = np.empty(widths.size), np.empty(DEGREE + 1)
        below = self._ones(self.panels)
        self.coefficients[0] = below
        for i in range(1, len(self.steps)):
            step, added = self.steps[i], np.empty((widths.size, DEGREE + 1))
            advance(below[old:], widths, step.decay, step.feed, self.ends[i], added, ends, pivots)
            below = np.concatenate([self.coefficients[i], added])
            self.coefficients[i], self.ends[i] = below, float(ends[-1])
