"""An invariant state as found: queue lengths, the age law of each level, and servers drawn from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from sweep.arguments import check_count, numbers, row
from sweep.cell import Limit
from sweep.fluid.mean_length import Estimate
from sweep.fluid.panels import Floats, Integers, Panels, moments_between
from sweep.laws import Law
from sweep.wording import shown

#: Cells of a panel in the table of quantiles.
_CELLS = 64
#: Further cells of the first panel, and the ratio of their ends.
_ORIGIN_CELLS, _ORIGIN_RATIO = 700, 0.95


@final
@dataclass(frozen=True, eq=False)
class InvariantState:
    """Solution of f_ℓ' = c_ℓ (f_{ℓ−1} − f_ℓ), f_ℓ(0) = λφ(S_ℓ), S_ℓ = ∫ f_ℓ Ḡ da, with S_1 = λ, f_1 ≡ λ.

    Attributes
    ----------
    limit
        The parameters d, λ, G and the fraction.
    log_S
        log S_ℓ for ℓ = 1, 2, …, shape (level,).
    panels
        Panels of age, and the moments of Ḡ on them.
    coefficients
        Legendre coefficients of f_ℓ/S_ℓ on each panel, shape (level, panel, DEGREE + 1).
    length
        Mean queue length, all levels included, and its error.
    """

    limit: Limit
    log_S: Floats
    panels: Panels
    coefficients: Floats
    length: Estimate

    @property
    def levels(self) -> int:
        """How many levels are held."""
        return self.log_S.size

    @cached_property
    def S(self) -> Floats:
        """S_ℓ for ℓ = 1, 2, …, shape (level,); 0 where it underflows."""
        return np.array([math.exp(value) for value in self.log_S.tolist()])

    @property
    def mean_time_in_system(self) -> float:
        """Σ S_ℓ / λ, by Little's law."""
        return self.length.value / self.limit.lam

    @property
    def mean_virtual_waiting_time(self) -> float:
        """Mean wait Σ_{ℓ≥2} S_ℓ / λ of a job that arrives now.

        It joins a queue of length k with probability φ(S_k) − φ(S_{k+1}), and waits for k − 1 services and
        the residual life of the one under way: Σ_{k≥2} φ(S_k) + Σ_k P(S_k, S_{k+1}) (R_k − R_{k+1}) with
        R_k = ∫ f_k(a) ∫_a^∞ Ḡ da. Since c_{k+1} (f_k − f_{k+1}) = f_{k+1}', the k-th term of the second sum
        is S_{k+1}/λ − φ(S_{k+1}), by parts.
        """
        return (self.length.value - self.limit.lam) / self.limit.lam

    def scaled(self, level: int, ages: ArrayLike) -> Floats:
        """Return f_ℓ(a)/S_ℓ at ages of any shape: the age density at queues of length ≥ ℓ is this times Ḡ(a).

        Raises
        ------
        ValueError
            A level that is not held, or an age below 0.
        """
        from sweep.fluid.invariant_kernels import evaluate

        coefficients = self._held(level)
        given = _checked("ages", ages, math.inf)
        flat = np.minimum(given.ravel(), self.panels.end)
        values = np.empty(flat.size)
        evaluate(coefficients, self.panels.edges, self.panels.holding(flat), flat, values)
        # f ≥ 0; below 0 it is rounding, at ages that carry no mass.
        return np.maximum(values, 0.0).reshape(given.shape)

    def age_cdf(self, level: int, ages: ArrayLike) -> Floats:
        """Return the share ∫_0^a f_ℓ Ḡ / S_ℓ of ages at most a, at ages of any shape, inf included.

        Raises
        ------
        ValueError
            A level that is not held, or an age below 0.
        """
        self._held(level)
        given = _checked("ages", ages, math.inf)
        return self._age_cdfs(range(level, level + 1), given.ravel()).reshape(given.shape)

    def age_cdfs(self, ages: ArrayLike) -> Floats:
        """Return `age_cdf` of every level at ages of shape (age,), shape (level, age).

        Raises
        ------
        ValueError
            No row of ages, or one below 0.
        """
        return self._age_cdfs(range(1, self.levels + 1), _checked("ages", row("ages", ages), math.inf))

    def _age_cdfs(self, levels: range, ages: Floats) -> Floats:
        from sweep.fluid.invariant_kernels import masses

        law, edges = self.limit.G, self.panels.edges
        inside = np.minimum(ages, self.panels.end)
        places = self.panels.holding(inside)
        left, right = edges[places], edges[places + 1]
        weights = moments_between(law.survival, law.breakpoints, left, inside, left, right)
        beyond = law.integrated_tail(inside) - law.integrated_tail(ages)
        part, whole = np.empty(ages.size), np.empty(edges.size - 1)
        cdfs = np.empty((len(levels), ages.size))
        for cdf, level in zip(cdfs, levels, strict=True):
            coefficients = self._held(level)
            masses(coefficients, places, weights, part)
            masses(coefficients, np.arange(whole.size), self.panels.moments, whole)
            before = np.cumsum(np.append(0.0, whole))
            last = float(self.scaled(level, self.panels.end))
            cdf[:] = np.minimum(before[places] + part + last * np.where(ages > inside, beyond, 0.0), 1.0)
        return cdfs

    def quantile(self, level: int, shares: ArrayLike) -> Floats:
        """Return the age below which each given share of the ages at queues of length ≥ ℓ lies.

        The inverse of `age_cdf`, from a table of 64 cells a panel in which the density is linear; it meets
        the cdf to 1e-6. Shares and the result have any one shape.

        Raises
        ------
        ValueError
            A level that is not held, or a share outside [0, 1].
        """
        from sweep.fluid.invariant_kernels import masses

        coefficients = self._held(level)
        given = _checked("shares", shares, 1.0)
        cells, flat = self._cells, given.ravel()
        mass = np.empty(cells.panels.size)
        masses(coefficients, cells.panels, cells.weights, mass)
        mass = np.maximum(mass, 0.0)
        cdf = np.cumsum(np.append(0.0, mass))
        place = np.clip(np.searchsorted(cdf, flat, side="right") - 1, 0, mass.size - 1)
        left = self.scaled(level, cells.edges[:-1]) * cells.survival_left
        right = self.scaled(level, cells.edges[1:]) * cells.survival_right
        share = np.clip((flat - cdf[place]) / np.maximum(mass[place], 1e-300), 0.0, 1.0)
        width = np.diff(cells.edges)[place]
        ages = cells.edges[place] + width * _linear_quantile(left[place], right[place], share)
        beyond = flat > cdf[-1]
        if beyond.any() and not self.panels.complete:
            tail = (1.0 - flat[beyond]) / float(self.scaled(level, self.panels.end))
            ages[beyond] = _tail_inverse(self.limit.G, tail, self.panels.end)
        return ages.reshape(given.shape)

    def draw(self, rng: np.random.Generator, size: int) -> tuple[Floats, Integers]:
        """Draw `size` independent servers: ages of the jobs in service and queue lengths, each (size,).

        A busy server has age density Ḡ, and given its age a length ≥ ℓ with probability f_ℓ(a)/λ. Idle
        servers have age 0; a length above the levels held comes out as their number. A server takes three
        uniform numbers, whatever becomes of it.
        """
        uniforms = rng.random((size, 3))
        busy = uniforms[:, 0] < self.limit.lam
        ages, lengths = np.zeros(size), np.zeros(size, dtype=np.int64)
        ages[busy] = self.quantile(1, uniforms[busy, 1])
        lengths[busy] = self.lengths(ages[busy], uniforms[busy, 2])
        return ages, lengths

    def lengths(self, ages: Floats, uniforms: Floats) -> Integers:
        """Return queue lengths at busy servers of given ages: ≥ ℓ where the uniform number is below f_ℓ(a)/λ.

        All of shape (server,). A length above the levels held comes out as their number.
        """
        lengths, still = np.ones(ages.size, dtype=np.int64), np.arange(ages.size)
        for level in range(2, self.levels + 1):
            share = self.scaled(level, ages[still]) * (self.S[level - 1] / self.limit.lam)
            still = still[uniforms[still] < share]
            if not still.size:
                break
            lengths[still] = level
        return lengths

    def _held(self, level: int) -> Floats:
        held = check_count("level", level)
        if held > self.levels:
            raise ValueError(f"level must lie between 1 and the {self.levels} held, got {shown(level)}")
        return np.asarray(self.coefficients[held - 1])

    @cached_property
    def _cells(self) -> _Cells:
        return _Cells.of(self.panels)


@final
@dataclass(frozen=True, eq=False)
class _Cells:
    """Panels cut into cells, at breakpoints too, with the moments of Ḡ on each and Ḡ inside both ends."""

    edges: Floats
    panels: Integers
    weights: Floats
    survival_left: Floats
    survival_right: Floats

    @classmethod
    def of(cls, panels: Panels) -> _Cells:
        law = panels.law
        cuts = panels.edges[:-1, None] + panels.widths[:, None] * (np.arange(_CELLS) / _CELLS)
        # In the first panel Ḡ may vary like a small power of age.
        origin = panels.edges[1] * np.cumprod(np.full(_ORIGIN_CELLS, _ORIGIN_RATIO))
        breaks = [age for age in law.breakpoints if age < panels.end]
        edges = np.unique(np.concatenate([cuts.ravel(), origin, breaks, [panels.end]]))
        places = panels.holding(edges[:-1])
        left, right = panels.edges[places], panels.edges[places + 1]
        weights = moments_between(law.survival, law.breakpoints, edges[:-1], edges[1:], left, right)
        return cls(edges, places, weights, law.survival(edges[:-1]), law.survival_left(edges[1:]))


def _checked(name: str, values: ArrayLike, most: float) -> Floats:
    array = numbers(name, values)
    refused = array[~((array >= 0.0) & (array <= most))]
    if refused.size:
        raise ValueError(f"{name} must lie in [0, {most:g}], got {float(refused.flat[0])!r}")
    return array


def _linear_quantile(left: Floats, right: Floats, share: Floats) -> Floats:
    """Solve left t + (right − left) t²/2 = share (left + right)/2 for t in [0, 1]."""
    area = share * (left + right)
    root = np.sqrt(left * left + (right - left) * area)
    return np.where(area > 0.0, area / np.maximum(left + root, 1e-300), 0.0)


def _tail_inverse(law: Law, tail: Floats, start: float) -> Floats:
    """Age x ≥ `start` with ∫_x^∞ Ḡ = `tail`, by bisection after doubling."""
    low, high = np.full(tail.size, start), np.full(tail.size, 2.0 * start)
    while (short := (law.integrated_tail(high) > tail) & (high < 1e300)).any():
        low[short], high[short] = high[short], 2.0 * high[short]
    for _ in range(60):
        middle = (low + high) / 2.0
        older = law.integrated_tail(middle) > tail
        low, high = np.where(older, middle, low), np.where(older, high, middle)
    return high
