"""Values of the limit at any time and age: extrapolation at base nodes, interpolation between nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Limit
from sweep.fluid.ages import age_distribution
from sweep.fluid.extrapolation import error_exponents, extrapolate
from sweep.fluid.interpolation import Stencil, stencil
from sweep.fluid.mesh import Mesh, was_graded
from sweep.fluid.path import Path
from sweep.fluid.start import Start
from sweep.fluid.waiting import virtual_wait

Floats = NDArray[np.float64]
#: Rounding of sums over cells.
_ROUNDING = 2e-14
#: Nodes of an interpolation in time, on the finest and on the base grid; its error is taken as the change
#: that one node less makes, times a factor, since near t = 0 the solution may only have one or two
#: derivatives.
_POINTS = 6
_SAFETY = 3.0
#: Changes as steps are halved fall slowly where G is steep and its atoms are not nodes: errors of traces of
#: 30 to 30 000 numbers from gamma laws of shapes 0.1 to 0.5 were up to 23 times the last one.
_OF_STEEP = 25.0
#: Nodes of an interpolation in age of what extrapolation changes.
_AGE_POINTS = 4


def keep_nodes(mesh: Mesh, halvings: int, snapshots: Floats) -> set[int]:
    """Return the nodes of one resolution that age distributions at `snapshots` need."""
    nodes: set[int] = set()
    for time in snapshots.tolist():
        nodes |= set(stencil(time, mesh, halvings, _POINTS).nodes)
        nodes |= {node * 2**halvings for node in stencil(time, mesh, 0, _POINTS).nodes}
    return nodes


@dataclass(frozen=True)
class Series:
    """One quantity on the finest nodes, what extrapolation adds on base nodes, and left limits at jumps."""

    finest: Floats
    finest_before: Mapping[int, Floats]
    added: Floats
    added_before: Mapping[int, Floats]
    error: Floats

    def at(self, stencils: tuple[Stencil, Stencil]) -> Floats:
        """Return the extrapolated value, shape (level,), at the time of a fine and a base stencil."""
        fine, base = stencils
        return fine.apply(self.finest, self.finest_before) + base.apply(self.added, self.added_before)


@final
class Readout:
    """What a sequence of resolutions says at any time.

    A value is that of the finest path, interpolated on its own nodes, plus what extrapolation adds to it,
    known at base nodes and interpolated on those: it is small and smooth.

    Parameters
    ----------
    limit
        Parameters of the limit.
    mesh
        The base grid.
    paths
        Paths on `mesh` with steps halved 0, 1, 2, … times; `ages` kept at `keep_nodes`.
    start
        The initial state.
    """

    def __init__(self, limit: Limit, mesh: Mesh, paths: Sequence[Path], start: Start) -> None:
        self.limit, self.mesh, self.paths, self.start = limit, mesh, paths, start
        self.exponents = error_exponents(limit)
        self._factor = _OF_STEEP if not mesh.aligned and was_graded(limit) else 1.0
        self._S = self._series([path.S for path in paths], [path.S_before for path in paths])
        self._D = self._series([path.D for path in paths], [path.D_before for path in paths])
        waits = [virtual_wait(limit, start, path) for path in paths]
        self._waits = self._series([at for at, _ in waits], [before for _, before in waits])
        refused = 0.0 if start.endless else paths[-1].overflow[:: 2 ** (len(paths) - 1), None]
        self._error = _neighbours(self._S.error) + refused + (paths[-1].merging + _ROUNDING)

    def _series(self, values: Sequence[Floats], before: Sequence[Mapping[int, Floats]]) -> Series:
        at_base = [value[:: 2**r] for r, value in enumerate(values)]
        best = extrapolate(at_base, self.exponents, self.mesh.aligned)
        added_before = {}
        for node in before[0]:
            left = [found[node * 2**r] for r, found in enumerate(before)]
            added_before[node] = extrapolate(left, self.exponents).value - left[-1]
        return Series(
            values[-1], before[-1], best.value - at_base[-1], added_before, self._factor * best.error
        )

    def _stencils(self, time: float, fewer: int = 0) -> tuple[Stencil, Stencil]:
        fine = stencil(time, self.mesh, len(self.paths) - 1, _POINTS - fewer)
        return fine, stencil(time, self.mesh, 0, _POINTS - fewer)

    def S(self, times: Floats) -> Floats:
        """Return S_ℓ at any times, shape (t, level)."""
        return _in_order(np.array([self._S.at(self._stencils(time)) for time in times.tolist()]))

    def D(self, times: Floats) -> Floats:
        """Return D_ℓ at any times, shape (t, level)."""
        values = np.array([self._D.at(self._stencils(time)) for time in times.tolist()])
        return np.asarray(np.maximum(values, 0.0))

    def waits(self, times: Floats) -> Floats:
        """Return the mean virtual waiting time at any times, shape (t,)."""
        values = np.array([self._waits.at(self._stencils(time))[0] for time in times.tolist()])
        levels = self.paths[-1].S.shape[1]
        return np.asarray(np.maximum(values, 0.0) + self.start.waits_beyond(levels - 1))

    def error(self, times: Floats) -> Floats:
        """Return the estimated error of S_ℓ at any times, shape (t, level)."""
        rows = []
        for time in times.tolist():
            stencils = self._stencils(time)
            at_nodes = np.max(self._error[list(stencils[1].nodes)], axis=0)
            between = np.abs(self._S.at(stencils) - self._S.at(self._stencils(time, fewer=1)))
            rows.append(at_nodes + _SAFETY * between)
        return np.array(rows)

    def nu(self, time: float, ages: Floats) -> Floats:
        """Return ν_ℓ[0, a] at one time, shape (level, age), for increasing ages.

        As accurate as S at ages that are differences of base nodes; at others with an error of order 3 in
        the finest step (5e-8 as measured for smooth laws at the default tolerance).
        """
        fine, base = self._stencils(time)
        last = self.S(np.array([time]))[0][:, None]
        total = np.zeros((last.size, ages.size))
        for node, weight in zip(fine.nodes, fine.weights, strict=True):
            total += weight * self._distribution(len(self.paths) - 1, node, ages)
        for node, weight in zip(base.nodes, base.weights, strict=True):
            total += weight * self._age_correction(node, ages)
        total[:, np.isinf(ages)] = last
        return np.asarray(np.minimum(np.maximum.accumulate(np.maximum(total, 0.0), axis=1), last))

    def _distribution(self, resolution: int, node: int, ages: Floats) -> Floats:
        return age_distribution(self.limit.G, self.paths[resolution], node, ages, self.start)

    def _age_correction(self, base_node: int, ages: Floats) -> Floats:
        nodes = self.paths[0].nodes[: base_node + 1]
        time = float(nodes[-1])
        older = ages[ages > time]
        grid = np.append((time - nodes)[::-1], older)
        values = [self._distribution(r, base_node * 2**r, grid) for r in range(len(self.paths))]
        added = extrapolate(values, self.exponents).value - values[-1]
        by_birth = added[:, nodes.size - 1 :: -1].T
        # In the moment of birth, kinks are those of the solution and those of the law, seen from now.
        seen = (time - age for age in self.limit.G.breakpoints if age < time)
        kinks = tuple(sorted({*self.mesh.kinks, *seen}))
        births = replace(self.mesh, count=base_node, kinks=kinks)
        rows = np.zeros((by_birth.shape[1], ages.size))
        rows[:, ages > time] = added[:, nodes.size :]
        for index, age in enumerate(ages[ages <= time].tolist()):
            rows[:, index] = stencil(time - age, births, 0, _AGE_POINTS).apply(by_birth, {})
        return rows


def _neighbours(error: Floats) -> Floats:
    """Return the largest of each estimate and those beside it: a zero crossing is not accuracy."""
    wide = error.copy()
    wide[1:] = np.maximum(wide[1:], error[:-1])
    wide[:-1] = np.maximum(wide[:-1], error[1:])
    return wide


def _in_order(S: Floats) -> Floats:
    """Put S back into [0, 1] and the order of levels, which extrapolation may leave by its error."""
    return np.asarray(np.minimum.accumulate(np.clip(S, 0.0, 1.0), axis=1))
