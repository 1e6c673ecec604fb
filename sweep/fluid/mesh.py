"""The time grid of the solver: a base step that meets breakpoints and output times, and where kinks lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.age_profile import AgeProfile
from sweep.arrivals import Profile
from sweep.cell import Limit
from sweep.laws import Law

Floats = NDArray[np.float64]
#: Longest base step, in mean service times; it is halved until the tolerance is met.
_LONGEST = 0.125
#: Most base steps that are spent on meeting breakpoints at nodes, and on meeting output times too.
_MOST = 2048
_MOST_FOR_TIMES = 400
#: How much finer the base grid is if values between nodes are asked for.
_FINER = 4
#: More breakpoints than these, as of a trace, are not met one by one.
_MANY = 16
#: A kink of generation m, at a sum of m breakpoints, is a jump of the derivative of order m or m + 1.
_GENERATIONS = 6
#: Relative distance below which two times are one.
_SAME = 1e-9
#: Base steps of the graded layer are `power` times as many as the uniform ones it replaces; at least so many.
_LAYER = 32
_HIGHEST_POWER = 60
#: An early age and the slope of log G from there on below which a law of smooth density is steep all the
#: same.
_EARLY = 0.01
_STEEP = 0.75
#: A slope that calls for the highest power, as any smaller one does.
_FLATTEST = 1e-3


@dataclass(frozen=True)
class Mesh:
    """Base grid of `count` steps from 0 to the horizon or a little further, and the kinks of the solution.

    The first `layer` steps are graded, t = τ (i / layer)^power, and join the uniform ones smoothly, since
    layer = power · τ / step; without a layer all are uniform. Refinement halves steps in the index i.
    `aligned` says whether all breakpoints of the law are nodes.
    """

    step: float
    count: int
    kinks: tuple[float, ...] = ()
    layer: int = 0
    power: int = 1
    aligned: bool = True

    @property
    def depth(self) -> float:
        """The time τ at which the graded layer ends."""
        return self.step * self.layer / self.power

    @property
    def horizon(self) -> float:
        """The time of the last node."""
        return self.depth + self.step * (self.count - self.layer)

    def nodes(self, halvings: int) -> Floats:
        """Return the times of all nodes, shape (count · 2^halvings + 1,)."""
        parts = 2**halvings
        index = np.arange(self.count * parts + 1) / parts
        times = self.depth + (index - self.layer) * self.step
        if self.layer:
            inside = index < self.layer
            ratio = index[inside] / self.layer
            graded = np.full(ratio.shape, self.depth)
            for _ in range(self.power):
                graded *= ratio
            times[inside] = graded
        return np.asarray(times)

    def position(self, time: float) -> float:
        """Return the index i, not whole between nodes, of a time on the base grid."""
        if time >= self.depth:
            return self.layer + (time - self.depth) / self.step
        return float(self.layer * (time / self.depth) ** (1.0 / self.power))


def plan_mesh(limit: Limit, horizon: float, marks: Iterable[float], between: bool = False) -> Mesh:
    """Return a base grid with the law's breakpoints, and `marks` where possible, at nodes.

    Parameters
    ----------
    limit
        Parameters of the limit.
    horizon
        Least end of the grid, > 0.
    marks
        Output times.
    between
        Whether other values between nodes will be asked for; then, as when marks are not nodes, steps are
        finer.

    Breakpoints come first: trapezoid and extrapolation keep their orders only if kinks of the solution,
    which lie at sums of breakpoints, are nodes. What has no common step of at least horizon / 2048 is left
    inside cells: weights stay exact, and the order falls in the single cells concerned.
    """
    breakpoints = [age for age in limit.G.breakpoints if age < horizon]
    met = breakpoints if len(breakpoints) <= _MANY else []
    first = first_kinks(limit, horizon)
    must = [*met, *(first if len(first) <= _MANY * _MANY else ())]
    wanted = [*must, *(mark for mark in marks if mark > 0.0)]
    steepest = limit.lam * (limit.arrivals.most if isinstance(limit.arrivals, Profile) else 1.0)
    steepest *= 1.0 - limit.fraction + limit.fraction * limit.d
    longest = min(_LONGEST, max(1.0 / steepest, horizon / _MOST), horizon / 16.0)
    step = _base_step((wanted, must, met, met[:1]), horizon, longest)
    if between or not _are_nodes(wanted, step):
        step /= _FINER
    count = math.ceil(horizon / step - _SAME)
    power = layer_power(limit)
    replaced = min(math.ceil(_LAYER / power), count - 1) if power > 1 else 0
    layer = power * replaced
    kinks = find_kinks(limit, met, horizon)
    aligned = _are_nodes([*breakpoints, *first], step)
    return Mesh(step, count - replaced + layer, kinks, layer, power, aligned)


def first_kinks(limit: Limit, horizon: float) -> list[float]:
    """Return the times in (0, horizon) of kinks that do not follow from others.

    The rate of arrivals jumps, or ages at which those at time 0 jump meet breakpoints of the law.
    """
    times = set(limit.arrivals.breakpoints(horizon)) if isinstance(limit.arrivals, Profile) else set()
    if isinstance(limit.initial, AgeProfile):
        ages = {*limit.initial.ages, *(age for age, _ in limit.initial.atoms)}
        times |= {mark - age for mark in limit.G.breakpoints for age in ages if 0.0 < mark - age < horizon}
    return _distinct(sorted(times))


def _base_step(groups: Sequence[Sequence[float]], horizon: float, longest: float) -> float:
    """Return the step of the first group, the one with output times, that has a common step long enough."""
    for group, most in zip(groups, (_MOST_FOR_TIMES, _MOST, _MOST, _MOST), strict=True):
        common = common_step(group)
        if group and common >= min(horizon / most, longest):
            return common / math.ceil(common / longest - _SAME)
    return horizon / math.ceil(horizon / longest - _SAME)


def _are_nodes(times: Sequence[float], step: float) -> bool:
    return all(abs(time / step - round(time / step)) <= 1e-6 for time in times)


def layer_power(limit: Limit) -> int:
    """Return the power of the graded layer at t = 0, 1 if none is needed.

    From fresh ages D ~ G(t) at first. Where G ~ t^k with k < 1, or behaves so at the ages of a base step,
    the power 2/k makes it a square in the index, and what the first cell gets wrong, of order G², a fourth
    power. Atoms need even steps, which their ages are counted in; and G has no slope between them.
    """
    if not limit.initial.fresh or limit.G.atoms:
        return 1
    k = limit.G.origin_exponent
    if float(k).is_integer():
        k = _slope(limit.G)
    return min(math.ceil(2.0 / max(k, _FLATTEST)), _HIGHEST_POWER) if k < 1.0 else 1


def was_graded(limit: Limit) -> bool:
    """Return whether a law with atoms is steep at the fresh ages from which it starts.

    Earlier versions graded the layer then, and the solution was wrong.
    """
    # A list of the atoms of a trace is long to make.
    return limit.initial.fresh and _slope(limit.G) < 1.0 and bool(limit.G.atoms)


def _slope(law: Law) -> float:
    """Return the slope of log G at early ages where G is steep there, 1 elsewhere."""
    early, later = 1.0 - float(law.survival(_EARLY)), 1.0 - float(law.survival(10.0 * _EARLY))
    slope = math.log10(later / early) if early > _EARLY else 1.0
    return slope if slope < _STEEP else 1.0


def common_step(values: Sequence[float]) -> float:
    """Return the largest step of which all values are multiples, by Euclid's algorithm, 0 if there is none.

    Examples
    --------
    >>> round(common_step([0.5, 1.25, 10.0]), 12)
    0.25
    """
    if not values:
        return 0.0
    smallest = _SAME * max(values)
    step = values[0]
    for value in values[1:]:
        while value > smallest:
            rest = math.fmod(step, value)
            if value - rest <= smallest:
                rest = 0.0
            step, value = value, rest
    # Euclid's remainders carry rounding: take the step from the largest value.
    return max(values) / round(max(values) / step)


def find_kinks(limit: Limit, breakpoints: Sequence[float], horizon: float) -> tuple[float, ...]:
    """Return the times in (0, horizon] where a derivative of the solution jumps: sums of breakpoints.

    Those of `first_kinks` are such times too, and others follow from them as from 0. Each service smooths a
    kink by one order, but an atom of the law passes it on as it is. Sums of many breakpoints without a common
    step are too many to follow: kinks of later generations are then left out.
    """
    generations = _GENERATIONS if len(breakpoints) <= 3 else 2
    if limit.G.atoms and common_step(breakpoints) >= horizon / _MOST:
        generations = math.ceil(horizon / min(breakpoints))
    found = first_kinks(limit, horizon)
    latest = [0.0, *found]
    for _ in range(generations):
        sums = sorted({time + age for time in latest for age in breakpoints if time + age <= horizon + _SAME})
        latest = _distinct(sums)
        found.extend(latest)
    return tuple(_distinct(sorted(found)))


def _distinct(times: Sequence[float]) -> list[float]:
    kept: list[float] = []
    for time in times:
        if not kept or time - kept[-1] > _SAME * max(1.0, time):
            kept.append(time)
    return kept
