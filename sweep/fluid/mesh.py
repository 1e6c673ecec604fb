"""The time grid of the solver: a base step that meets breakpoints and output times, and where kinks lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweep.cell import Limit

#: Longest base step, in mean service times; it is halved until the tolerance is met.
_LONGEST = 0.125
#: Most base steps that are spent on meeting breakpoints and output times at nodes.
_MOST = 2048
#: A kink of generation m, at a sum of m breakpoints, is a jump of the derivative of order m + 1 at most.
_GENERATIONS = 5
#: Relative distance below which two times are one.
_SAME = 1e-9


@dataclass(frozen=True)
class Mesh:
    """Base grid t = 0, step, …, count · step ≥ horizon, and the kinks of the solution in (0, horizon]."""

    step: float
    count: int
    kinks: tuple[float, ...]


def plan_mesh(limit: Limit, horizon: float, marks: Iterable[float]) -> Mesh:
    """Return a base grid with the law's breakpoints, and `marks` where possible, at nodes.

    Breakpoints come first: trapezoid and extrapolation keep their orders only if kinks of the solution, which lie
    at sums of breakpoints, are nodes. What has no common step of at least horizon / 2048 is left inside cells:
    weights stay exact, and the order falls to 3 in the single cells concerned.
    """
    breakpoints = [age for age in limit.G.breakpoints if age < horizon]
    steepest = limit.lam * (1.0 - limit.fraction + limit.fraction * limit.d)
    longest = min(_LONGEST, max(1.0 / steepest, horizon / _MOST), horizon / 16.0)
    wanted = [*breakpoints, *(mark for mark in marks if mark > 0.0)]
    for group in (wanted, breakpoints, breakpoints[:1]):
        common = common_step(group)
        if common >= horizon / _MOST:
            step = common / math.ceil(common / longest - _SAME)
            break
    else:
        step = horizon / math.ceil(horizon / longest - _SAME)
    return Mesh(step, math.ceil(horizon / step - _SAME), find_kinks(limit, breakpoints, horizon))


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

    Each service smooths a kink by one order, but an atom of the law passes it on as it is.
    """
    generations = math.ceil(horizon / min(breakpoints)) if limit.G.atoms and breakpoints else _GENERATIONS
    found: list[float] = []
    latest = [0.0]
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
