"""Masses in cells through time: the steps, and a domain that doubles as the mass spreads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep.diffusion import kernels
from sweep.diffusion.model import Diffusion
from sweep.diffusion.start import Start

Floats = NDArray[np.float64]

#: Cells of the coarsest resolution; each finer one has twice as many cells and half the steps.
_CELLS, _MOST_CELLS = 128, 1 << 14
#: Cells that the scale of a law of X_0 needs at least.
_OF_SCALE = 8.0
#: Steps of the coarsest resolution, over the horizon and before the first output.
_STEPS, _FIRST_STEPS = 64, 16
#: Earliest output: steps before it are a millionth of it and less. Least width, whose square still has digits
#: when it is halved a few times.
_EARLIEST, _NARROWEST = 1e-280, 1e-156


@dataclass(frozen=True)
class Cells:
    """Masses u of cells of width h on [0, nh], shape (n,)."""

    u: Floats
    h: float

    def doubled(self) -> Cells:
        """Return the same masses on twice the domain: cells merge in pairs, and v at their nodes is kept."""
        half = self.u.size // 2
        return Cells(np.concatenate([self.u[0::2] + self.u[1::2], np.zeros(half)]), 2.0 * self.h)

    @property
    def v(self) -> Floats:
        """Mass from each node 0, h, …, nh on, shape (n + 1,), never increasing."""
        v = np.empty(self.u.size + 1)
        kernels.cumulate(self.u, v)
        return v


@dataclass(frozen=True)
class Schedule:
    """What all resolutions share: roots t^{1/4} of the coarsest nodes, outputs, and when domains double.

    Nodes are equally spaced in t^{1/4} between outputs. From a point the solution varies on the scale of t
    itself, and the steps next to t = 0 contribute to later errors like the fourth power of the step.
    """

    roots: tuple[float, ...]
    outputs: frozenset[int]
    domain: float
    cells: int
    doublings: tuple[int, ...] = ()
    spilled: float = 0.0

    @property
    def last_domain(self) -> float:
        """Domain at the horizon."""
        return self.domain * 2.0 ** sum(self.doublings)


def plan_steps(times: list[float]) -> tuple[tuple[float, ...], frozenset[int]]:
    """Return the roots of the coarsest nodes for increasing output times > 0, and which nodes are outputs."""
    ends = [math.sqrt(math.sqrt(time)) for time in times]
    length = ends[-1] / _STEPS
    roots, outputs = [0.0], []
    for end in ends:
        first = roots[-1]
        count = max(math.ceil((end - first) / length), 1 if first else _FIRST_STEPS)
        roots += [first + (end - first) * (i + 1) / count for i in range(count - 1)] + [end]
        outputs.append(len(roots) - 1)
    return tuple(roots), frozenset(outputs)


def pilot(model: Diffusion, start: Start, times: list[float], spill: float) -> tuple[Schedule, list[Cells]]:
    """Run the coarsest resolution, and note when its domain must double; return its cells at `times` as well.

    A step after which more than `spill` lies in the last quarter is taken back and repeated on twice the
    domain.

    Raises
    ------
    ValueError
        A time so early, or a variance so small, that steps or squares of widths underflow.
    """
    if times[0] < _EARLIEST:
        raise ValueError(f"times must be 0 or at least {_EARLIEST:g}, got {times[0]:g}")
    roots, outputs = plan_steps(times)
    reach = start.reach(0.5 * spill)
    domain = max(8.0 * math.sqrt(model.D) * roots[1] * roots[1], reach * 1.5)
    count = coarsest_cells(start, domain)
    if domain / count < _NARROWEST:
        raise ValueError(
            f"sigma2 must be such that squares of lengths do not underflow, got {model.sigma2:g} "
            f"with t = {times[0]:g}: scale time and length"
        )
    cells = Cells(start.masses(count, domain / count), domain / count)
    found, doublings, spilled = [], [], 0.0
    for node in range(1, len(roots)):
        steps = substeps(roots[node - 1], roots[node], 1)
        times_doubled, after = 0, advanced(model, cells, steps)
        while after.v[3 * count // 4] > spill:
            cells, times_doubled = cells.doubled(), times_doubled + 1
            after = advanced(model, cells, steps)
        cells = after
        spilled = max(spilled, float(after.v[3 * count // 4]))
        doublings.append(times_doubled)
        if node in outputs:
            found.append(cells)
    return Schedule(roots, outputs, domain, count, tuple(doublings), spilled), found


def coarsest_cells(start: Start, domain: float) -> int:
    """Return the cells of the coarsest resolution: more where a heavy tail makes the domain wide."""
    count = _CELLS
    while start.law is not None and count < _MOST_CELLS and domain / count > start.scale / _OF_SCALE:
        count *= 2
    return count


def trace(model: Diffusion, start: Start, schedule: Schedule, refinement: int) -> Iterator[Cells]:
    """Yield the cells at each output with 2^refinement times the cells and steps of the pilot."""
    parts = 1 << refinement
    count = schedule.cells * parts
    cells = Cells(start.masses(count, schedule.domain / count), schedule.domain / count)
    for node in range(1, len(schedule.roots)):
        for _ in range(schedule.doublings[node - 1]):
            cells = cells.doubled()
        cells = advanced(model, cells, substeps(schedule.roots[node - 1], schedule.roots[node], parts))
        if node in schedule.outputs:
            yield cells


def substeps(first: float, last: float, parts: int) -> Floats:
    """Return the lengths of `parts` steps between two roots t^{1/4}, equal in the root."""
    roots = [first + (last - first) * i / parts for i in range(parts)] + [last]
    return np.diff([root * root * root * root for root in roots])


def advanced(model: Diffusion, cells: Cells, steps: Floats) -> Cells:
    """Return the cells after `steps`."""
    u, n = cells.u.copy(), cells.u.size
    rows = (np.empty(n + (name in ("v", "guess"))) for name in kernels.Scratch._fields)
    arguments = kernels.Model(model.b1, model.b0, model.ell, model.D)
    kernels.march(arguments, u, cells.h, steps, kernels.Scratch(*rows))
    return Cells(u, cells.h)


def work(schedule: Schedule, refinement: int) -> float:
    """Return the number of cell updates of a run; a refinement costs four times the one before."""
    return float(schedule.cells * len(schedule.roots)) * 4.0**refinement
