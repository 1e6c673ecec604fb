"""The residual-life norm V = sup_{r≥0} |⟨ϑ^r, μ − ν⟩|, ϑ^r(x) = Ḡ(x+r)/Ḡ(x), of two measures of ages."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.arguments import real
from sweep.distances import kernels
from sweep.distances.cdfs import kolmogorov
from sweep.distances.measures import Atoms, Measure, Vertices, check_measures
from sweep.laws import Law
from sweep.wording import shown

Floats = NDArray[np.float64]

_CELLS = 512  # between age 0 and the greatest age, equal in log(1 + age)
_QUANTILES = 128  # atoms among the nodes; all of them if they are fewer than _FEW
_FEW = 1024
_FIRST = 2.0**-6  # least r > 0 of the first grid, which doubles from there
_NOTHING = 2.0**-40  # share of the mass that is left out of the search at large r
_HALVINGS = 28  # of the cells at either end of the support
_EVALUATIONS = 512  # at most, of ⟨ϑ^r, ·⟩


@dataclass(frozen=True)
class ResidualNorm:
    """The norm V and a bound on its error: the supremum lies in [value − error, value + error]."""

    value: float
    error: float


@dataclass(frozen=True)
class _At:
    """Both integrals of ϑ^r, and ϑ^r at the nodes."""

    r: float
    mu: float
    nu: float
    row: Floats

    @property
    def difference(self) -> float:
        return abs(self.mu - self.nu)


def residual_norm(law: Law, mu: Measure, nu: Measure, *, tolerance: float = 0.01) -> ResidualNorm:
    """Return V = sup_{r≥0} |∫ Ḡ(x+r)/Ḡ(x) (μ − ν)(dx)|, with its error.

    ⟨ϑ^r, ν_ℓ⟩ is the mass of jobs in service at queues of length ≥ ℓ that will still be served r later.

    Parameters
    ----------
    law
        The service law G.
    mu, nu
        Measures of ages ≥ 0, such as ν^N_ℓ/N and ν_ℓ.
    tolerance
        Refine the grid of r until the supremum between its points exceeds that on them by no more than this
        share, or 512 points are used.

    Raises
    ------
    TypeError
        No law, no measures, or a tolerance that is no number.
    ValueError
        A negative age, or a tolerance that is not positive.

    Notes
    -----
    Aghajani & Ramanan, "The hydrodynamic limit of a randomized load balancing network", (3.1). Three bounds
    make the error; K is the Kolmogorov distance of μ and ν.

    - Between two r both integrals fall, so |⟨ϑ^r, μ−ν⟩| ≤ max(μ_0 − ν_1, ν_0 − μ_1), 0 and 1 for either end.
    - By parts |∫ φ d(μ−ν)| ≤ |φ(∞)| |μ(V)−ν(V)| + K TV(φ), with φ = ϑ^{r_0} − ϑ^{r_1}; TV is taken to be
      additive along the step, which holds to first order in its length. The lesser of the two bounds counts.
    - Measures are gathered onto nodes in age, mass and mean of each cell kept: ϑ^r is in effect replaced by
      chords. A cell adds the lesser of K TV(ϑ^r − chord) and its mass times |ϑ^r − chord|, both estimated
      from the node midway (by half of what leaving it out would cost).

    Ages where Ḡ = 0 belong to jobs just leaving: ϑ^r = 0 there for r > 0. With deterministic service
    ϑ^r(x) = 1{x + r < 1}, V = max(|μ(V)−ν(V)|, sup_{y≤1} |μ[0,y) − ν[0,y)|) and is exact. Mass at infinity is
    put at the greatest age and counted as error.

    Examples
    --------
    >>> from sweep.laws import Exponential
    >>> residual_norm(Exponential(), Atoms([0.5, 2.0], 0.25), Atoms([1.0], 0.25)).value  # of masses alone
    0.25
    """
    if not isinstance(law, Law):
        raise TypeError(f"law must be a law of `sweep.laws`, got {shown(law)}")
    check_measures(mu, nu)
    share = real("tolerance", tolerance)
    if not 0.0 < share < math.inf:
        raise ValueError(f"tolerance must be positive and finite, got {shown(tolerance)}")
    for measure in (mu, nu):
        positions = measure.vertices.positions
        if positions.size and positions[0] < 0.0:
            raise ValueError(f"ages must not be negative, got {positions[0]:g}")
    unplaced = mu.mass_at_infinity + nu.mass_at_infinity
    if len(law.atoms) == 1 and law.atoms[0][1] == 1.0:
        greatest, _ = kernels.compare_functions(*mu.vertices, *nu.vertices, law.atoms[0][0])
        return ResidualNorm(max(float(greatest), abs(mu.mass - nu.mass)), unplaced)
    if mu.vertices.positions.size == 0 and nu.vertices.positions.size == 0:
        return ResidualNorm(abs(mu.mass - nu.mass), unplaced)
    found = _Search(law, mu, nu).run(share)
    return ResidualNorm(found.value, found.error + unplaced)


class _Search:
    """Branch and bound on r over measures gathered onto nodes."""

    def __init__(self, law: Law, mu: Measure, nu: Measure) -> None:
        self.law = law
        self.nodes = _nodes(law, mu, nu)
        self.mu, self.nu = _gathered(mu, self.nodes), _gathered(nu, self.nodes)
        self.log_survival = _log_survival(law)
        self.log_now = self.log_survival(self.nodes)
        self.kolmogorov, self.missing = kolmogorov(mu, nu), abs(mu.mass - nu.mass)
        self.masses, self.chords, self.count = self.mu + self.nu, 0.0, 0

    def at(self, r: float) -> _At:
        row = np.ones(self.nodes.size)
        if r == 0.0:
            point = _At(r, float(_total(self.mu)), float(_total(self.nu)), row)
        else:
            log_later = self.log_survival(self.nodes + r)
            integrals = kernels.residual_survival(log_later, self.log_now, self.mu, self.nu, row)
            point = _At(r, float(integrals[0]), float(integrals[1]), row)
        self.chords = max(self.chords, float(kernels.chord_error(row, self.masses, self.kolmogorov)))
        self.count += 1
        return point

    def bound(self, start: _At, end: _At) -> float:
        """Return a bound on |⟨ϑ^r, μ−ν⟩| for r from start to end."""
        monotone = max(start.mu - end.nu, start.nu - end.mu)
        change = self.kolmogorov * kernels.variation(start.row, end.row)
        change += self.missing * abs(float(start.row[-1] - end.row[-1]))
        smooth = 0.5 * (start.difference + end.difference + change)
        return max(start.difference, end.difference, min(monotone, smooth))

    def run(self, tolerance: float) -> ResidualNorm:
        start = self.at(0.0)
        value, r = start.difference, _FIRST
        nothing = _NOTHING * max(start.mu, start.nu)
        steps: list[tuple[float, float, _At, _At]] = []
        done = 0.0

        def keep(left: _At, right: _At) -> float:
            """Keep a step to be split, or return the bound on it if it needs no splitting: rows are large."""
            bound = self.bound(left, right)
            if bound <= max(value * (1.0 + tolerance), nothing):
                return bound
            heapq.heappush(steps, (-bound, left.r, left, right))
            return 0.0

        while max(start.mu, start.nu) > max(value, nothing):
            end = self.at(r)
            value = max(value, end.difference)
            done = max(done, keep(start, end))
            start, r = end, 2.0 * r
        beyond = max(start.mu, start.nu)
        while steps and -steps[0][0] > max(value * (1.0 + tolerance), nothing):
            _, _, left, right = steps[0]
            r = left.r + (right.r - left.r) / 2.0
            if self.count >= _EVALUATIONS or not left.r < r < right.r:
                break
            heapq.heappop(steps)
            middle = self.at(r)
            value = max(value, middle.difference)
            done = max(done, keep(left, middle), keep(middle, right))
        between = max(beyond, done, -steps[0][0] if steps else 0.0) - value
        return ResidualNorm(value, max(between, 0.0) + self.chords)


def _log_survival(law: Law) -> Callable[[Floats], Floats]:
    """Return log Ḡ, of a step function by a table of its values between the jumps."""
    if not law.atoms or abs(math.fsum(mass for _, mass in law.atoms) - 1.0) > 1e-9:
        return law.log_survival
    jumps = np.array([age for age, _ in law.atoms])
    values = law.log_survival(np.append(0.0, jumps))
    return lambda ages: np.asarray(values[np.searchsorted(jumps, ages, side="right")])


def _nodes(law: Law, mu: Measure, nu: Measure) -> Floats:
    """Ages: where cdfs bend, breakpoints, some or all atoms, a grid from 0; then the middle of each cell."""
    ages = [np.zeros(1)]
    for measure in (mu, nu):
        positions = measure.vertices.positions
        if isinstance(measure, Atoms):
            positions = measure.positions
            if positions.size > _FEW:
                positions = positions[(np.arange(_QUANTILES + 1) * (positions.size - 1)) // _QUANTILES]
        ages.append(positions)
    last = max(float(some[-1]) for some in ages if some.size)
    step = math.log1p(last) / _CELLS
    ages.append(np.array([min(math.expm1(k * step), last) for k in range(_CELLS + 1)]))
    # ϑ^r may be steep at age 0 (an infinite density) and towards the end of the support.
    near = [step * 0.5**k for k in range(1, _HALVINGS)]
    special = [*law.breakpoints, *near, *(law.support_end - width for width in near)]
    ages.append(np.array([age for age in special if 0.0 < age < last]))
    coarse = np.unique(np.concatenate(ages))
    if coarse[-1] == 0.0:
        coarse = np.array([0.0, 1.0])
    # Nodes within rounding of the next would leave no room for one midway.
    apart = coarse[1:] - coarse[:-1] > 2.0**-50 * coarse[1:]
    coarse = coarse[np.append(apart, True)]
    nodes = np.empty(2 * coarse.size - 1)
    nodes[::2] = coarse
    nodes[1::2] = coarse[:-1] + (coarse[1:] - coarse[:-1]) / 2.0
    return nodes


def _gathered(measure: Measure, nodes: Floats) -> Floats:
    masses = np.zeros(nodes.size)
    if isinstance(measure, Atoms):
        kernels.gather_atoms(measure.positions, measure.weights, nodes, masses)
        return masses
    left, right = _limits(measure.vertices, nodes)
    inside = left[1:] - right[:-1]  # spread evenly, for every bend is a node
    masses += right - left
    masses[:-1] += inside / 2.0
    masses[1:] += inside / 2.0
    masses[-1] += measure.mass_at_infinity
    return masses


def _limits(vertices: Vertices, at: Floats) -> tuple[Floats, Floats]:
    """Return left and right limits of a cumulative function."""
    sides = []
    for side in ("left", "right"):
        k = np.searchsorted(vertices.positions, at, side="left" if side == "left" else "right") - 1
        inner = np.maximum(k, 0)
        value = vertices.values[inner] + vertices.slopes[inner] * (at - vertices.positions[inner])
        ceiling = vertices.values[np.minimum(inner + 1, vertices.values.size - 1)]
        sides.append(np.where(k < 0, 0.0, np.minimum(value, ceiling)))
    return sides[0], sides[1]


def _total(masses: Floats) -> float:
    return math.fsum(masses.tolist())
