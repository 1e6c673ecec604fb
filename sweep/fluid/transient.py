"""The hydrodynamic limit in time: `solve_fluid`, for any service law, with an error estimate of its own.

Scheme. Births into service in one time step form a cell, which moves along its characteristic: Q_{ℓ,j}(t) is the
number born in step j and now at queues of length ≥ ℓ, as if none had been completed. It changes by arrivals alone,
Q_ℓ' = c_ℓ (Q_{ℓ−1} − Q_ℓ) with c_ℓ = λ P(S_{ℓ−1}, S_ℓ), by the trapezoidal rule. The rest is exact:
S_ℓ = Σ_j W_{n−j} Q_{ℓ,j} with W the mean of Ḡ over an age cell (from ∫Ḡ, never from a hazard), completions by mass
balance, positive by construction, births as increments. Jobs with ages of positive probability (a start with fresh
ages, and what atoms of the law make of it) are cells of zero width that weigh Ḡ itself.

Order. Second in the step h. Errors expand in h^e (`extrapolation.error_exponents`), and are eliminated in turn:

    law at age 0                   from empty             from fresh ages
    smooth, whole k                2, 4, 6                2, 4, 6
    Ḡ = 1 − c a^k + …, other k     2, 2 + k, 2 + 2k, …    2k, 1 + k, 2, …

provided that breakpoints are nodes; a breakpoint inside a cell leaves O(h³) there, and the estimate shows it.

Closure. Levels are added until the arrivals refused at the top level are below 1e-11 per server; those refused are
counted in X, so that X = X(0) + λt − D_1 to rounding.

Error. `S_error` comes from the last changes in the tableau of extrapolations (`extrapolation.extrapolate`), the
largest over neighbouring base nodes, plus the closure error and that of interpolation to times that are not nodes.
Steps are halved until it is below the tolerance, or until the work allowed is spent, which raises `AccuracyError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.ages import age_distribution
from sweep.fluid.extrapolation import error_exponents, extrapolate
from sweep.fluid.interpolation import Stencil, stencil
from sweep.fluid.mesh import Mesh, plan_mesh
from sweep.fluid.path import Path, trace
from sweep.routing import phi

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
#: Arrivals per server that may be refused at the top internal level over the whole horizon.
_CLOSURE = 1e-11
#: Internal levels above the longest initial queue at first.
_LEVELS = 12
#: Cell updates that one resolution may spend, about 10 s, and what weighing one graded cell costs in them.
_WORK = 5e9
_WEIGHING = 700.0
#: Resolutions that are always computed: an estimate needs changes along two rows of the tableau.
_RESOLUTIONS = 3
#: Rounding of sums over cells.
_ROUNDING = 2e-14
#: Nodes of an interpolation on the finest and on the base grid; its error is taken as the change that one node less
#: makes, times a factor, since near t = 0 the solution may only have one or two derivatives.
_POINTS = 6
_AGE_POINTS = 4
_SAFETY = 3.0


def solve(
    limit: Limit,
    *,
    times: Floats,
    levels: int | None,
    snapshots: Floats,
    ages: Floats,
    tolerance: float,
) -> dict[str, Floats]:
    """Solve the hydrodynamic equations and return plain arrays.

    Parameters
    ----------
    limit
        Parameters d, lam, G, initial, fraction of the limit; `arrivals` enter by their rate alone.
    times
        Increasing, shape (t,).
    levels
        Levels to return, None for those that exceed `tolerance` at some time.
    snapshots
        Times of age distributions, shape (snapshot,).
    ages
        Increasing, the last inf, shape (age,).
    tolerance
        Largest `S_error` accepted.

    Returns
    -------
    dict
        S, S_error, D of shape (t, level), X, E of shape (t,) and, with snapshots, nu_cdf (snapshot, level, age).

    Raises
    ------
    AccuracyError
        The tolerance was not reached within the work allowed.
    """
    horizon = max(float(times[-1]), float(snapshots[-1]) if snapshots.size else 0.0)
    if horizon == 0.0:
        horizon = 1.0
    mesh = plan_mesh(limit, horizon, [*times.tolist(), *snapshots.tolist()], between=snapshots.size > 0)
    inner = internal_levels(limit, mesh)
    paths = [trace(limit, mesh, 0, inner, keep_nodes(mesh, 0, snapshots))]
    while True:
        refined = _refine(limit, mesh, inner, paths, snapshots)
        if refined.overflow[-1] > 10.0 * _CLOSURE:
            inner = inner + max(4, inner // 4)
            paths = [trace(limit, mesh, 0, inner, keep_nodes(mesh, 0, snapshots))]
            continue
        if len(paths) < _RESOLUTIONS:
            continue
        result = _Output(limit, mesh, paths)
        error = result.error(times)
        reached = float(error.max())
        if reached <= tolerance:
            break
        if _next_work(refined) > _WORK:
            raise AccuracyError(
                f"tolerance must be at least {reached:.1e} for {limit.text}, got {tolerance:g}: "
                f"the estimate after {len(paths)} resolutions; pass a larger tolerance or a shorter horizon",
                reached,
            )
    shown = levels if levels is not None else result.visible_levels(times, tolerance)
    return result.arrays(times, shown, snapshots, ages, error)


def keep_nodes(mesh: Mesh, halvings: int, snapshots: Floats) -> set[int]:
    """Return the nodes of one resolution that age distributions at `snapshots` need."""
    nodes: set[int] = set()
    for time in snapshots.tolist():
        nodes |= set(stencil(time, mesh, halvings, _POINTS).nodes)
        nodes |= {node * 2**halvings for node in stencil(time, mesh, 0, _POINTS).nodes}
    return nodes


def internal_levels(limit: Limit, mesh: Mesh) -> int:
    """Return the least number of levels at which arrivals refused at the top stay below the closure error."""
    levels = limit.initial.longest + _LEVELS
    while True:
        path = trace(limit, mesh, 0, levels)
        refused = np.zeros(levels)
        steps = (path.nodes[1:] - path.nodes[:-1]).tolist()
        for level in range(levels):
            rates = [phi(x, limit.d, limit.fraction) for x in path.S[:, level].tolist()]
            refused[level] = limit.lam * sum(x * h for x, h in zip(rates[1:], steps, strict=True))
        enough = np.flatnonzero(refused <= _CLOSURE)
        if enough.size:
            return max(int(enough[0]) + 1, limit.initial.longest + 1, 2)
        levels *= 2


def _next_work(path: Path) -> float:
    """Return the cost of the resolution after that of `path`, in cell updates."""
    nodes, levels = path.S.shape
    updates = nodes * min(path.weights.alive, nodes / 2) * levels
    return 4.0 * (updates + _WEIGHING * path.weights.layer.size)


def _refine(limit: Limit, mesh: Mesh, levels: int, paths: list[Path], snapshots: Floats) -> Path:
    halvings = len(paths)
    keep = keep_nodes(mesh, halvings, snapshots)
    paths.append(trace(limit, mesh, halvings, levels, keep))
    return paths[-1]


class _Output:
    """Extrapolated values at base nodes, and their interpolation to any time."""

    def __init__(self, limit: Limit, mesh: Mesh, paths: Sequence[Path]) -> None:
        self.limit, self.mesh, self.paths = limit, mesh, paths
        self.exponents = error_exponents(limit)
        self.finest = paths[-1]
        self.stride = 2 ** (len(paths) - 1)
        at_base = [path.S[:: 2**r] for r, path in enumerate(paths)]
        S = extrapolate(at_base, self.exponents, mesh.aligned)
        D = extrapolate([path.D[:: 2**r] for r, path in enumerate(paths)], self.exponents)
        self.corrections = (S.value - at_base[-1], D.value - self.finest.D[:: self.stride])
        self.estimate = _neighbours(S.error) + self.finest.overflow[:: self.stride, None] + _ROUNDING
        self.before = (
            {node: pair[0] for node, pair in self.finest.before.items()},
            {node: pair[1] for node, pair in self.finest.before.items()},
        )
        self.corrections_before = self._left_corrections()

    def _left_corrections(self) -> tuple[dict[int, Floats], dict[int, Floats]]:
        found: tuple[dict[int, Floats], dict[int, Floats]] = ({}, {})
        for node in self.paths[0].before:
            for part in (0, 1):
                values = [path.before[node * 2**r][part] for r, path in enumerate(self.paths)]
                found[part][node] = extrapolate(values, self.exponents).value - values[-1]
        return found

    def stencils(self, time: float, fewer: int = 0) -> tuple[Stencil, Stencil]:
        """Return the stencils of a time on the finest grid and on the base grid."""
        fine = stencil(time, self.mesh, len(self.paths) - 1, _POINTS - fewer)
        return fine, stencil(time, self.mesh, 0, _POINTS - fewer)

    def values(self, times: Floats, part: int, fewer: int = 0) -> Floats:
        """Return S (part 0) or D (part 1) at any times, shape (t, level)."""
        history = (self.finest.S, self.finest.D)[part]
        rows = []
        for time in times.tolist():
            fine, base = self.stencils(time, fewer)
            row = fine.apply(history, self.before[part])
            rows.append(row + base.apply(self.corrections[part], self.corrections_before[part]))
        return np.array(rows)

    def error(self, times: Floats) -> Floats:
        """Return the estimated error of S at any times, shape (t, level)."""
        rows = []
        for time in times.tolist():
            _, base = self.stencils(time)
            rows.append(np.max(self.estimate[list(base.nodes)], axis=0))
        between = np.abs(self.values(times, 0) - self.values(times, 0, fewer=1))
        return np.array(rows) + _SAFETY * between

    def visible_levels(self, times: Floats, tolerance: float) -> int:
        """Return the number of levels that exceed the tolerance at some time, at least 1."""
        return max(1, int(np.count_nonzero(self.values(times, 0).max(axis=0) > tolerance)))

    def arrays(
        self, times: Floats, shown: int, snapshots: Floats, ages: Floats, error: Floats
    ) -> dict[str, Floats]:
        """Return everything on the output grid."""
        S, D = _tidy(self.values(times, 0)), np.maximum(self.values(times, 1), 0.0)
        X0 = float(self.limit.initial.tails(S.shape[1]).sum())
        E = self.limit.lam * times
        output = {
            "S": _levels(S, shown, 0.0),
            "S_error": _levels(error, shown, _CLOSURE),
            "D": _levels(D, shown, 0.0),
            "X": X0 + E - D[:, 0],
            "E": E,
        }
        if snapshots.size:
            output["nu_cdf"] = np.array(
                [_levels(self.nu(t, ages).T, shown, 0.0).T for t in snapshots.tolist()]
            )
        return output

    def nu(self, time: float, ages: Floats) -> Floats:
        """Return ν_ℓ[0, a] at one time, shape (level, age)."""
        fine, base = self.stencils(time)
        total = np.zeros((self.finest.S.shape[1], ages.size))
        for node, weight in zip(fine.nodes, fine.weights, strict=True):
            total += weight * self._distribution(len(self.paths) - 1, node, ages)
        for node, weight in zip(base.nodes, base.weights, strict=True):
            total += weight * self._age_correction(node, ages)
        last = _tidy(self.values(np.array([time]), 0))[0][:, None]
        total[:, np.isinf(ages)] = last
        return np.minimum(np.maximum.accumulate(np.maximum(total, 0.0), axis=1), last)

    def _distribution(self, resolution: int, node: int, ages: Floats) -> Floats:
        return age_distribution(self.limit.G, self.paths[resolution], node, ages)

    def _age_correction(self, base_node: int, ages: Floats) -> Floats:
        nodes = self.paths[0].nodes[: base_node + 1]
        time = float(nodes[-1])
        grid = (time - nodes)[::-1]
        values = [self._distribution(r, base_node * 2**r, grid) for r in range(len(self.paths))]
        by_birth = (extrapolate(values, self.exponents).value - values[-1])[:, ::-1].T
        # In the moment of birth, kinks are those of the solution and those of the law, seen from now.
        seen = (time - age for age in self.limit.G.breakpoints if age < time)
        kinks = tuple(sorted({*self.mesh.kinks, *seen}))
        births = replace(self.mesh, count=base_node, kinks=kinks)
        rows = np.zeros((self.finest.S.shape[1], ages.size))
        for index, age in enumerate(ages.tolist()):
            rows[:, index] = stencil(max(time - age, 0.0), births, 0, _AGE_POINTS).apply(by_birth, {})
        return rows


def _neighbours(error: Floats) -> Floats:
    """The largest of each estimate and those of the nodes beside it: a zero crossing is not accuracy."""
    wide = error.copy()
    wide[1:] = np.maximum(wide[1:], error[:-1])
    wide[:-1] = np.maximum(wide[:-1], error[1:])
    return wide


def _tidy(S: Floats) -> Floats:
    """Extrapolation may leave [0, 1] or the order of levels by its error: put S back."""
    return np.minimum.accumulate(np.clip(S, 0.0, 1.0), axis=1)


def _levels(values: Floats, shown: int, beyond: float) -> Floats:
    """Cut or extend the level axis."""
    held = values.shape[1]
    if shown <= held:
        return values[:, :shown].copy()
    return np.concatenate([values, np.full((values.shape[0], shown - held), beyond)], axis=1)


def solve_fluid(
    *,
    d: int,
    lam: float,
    G: str,
    times: ArrayLike,
    levels: int | None = None,
    arrivals: str = "exponential",
    initial: str = "empty",
    fraction: float = 1.0,
    snapshots: ArrayLike = (),
    ages: ArrayLike | None = None,
    tolerance: float = 1e-8,
) -> xr.Dataset:
    """Solve the hydrodynamic equations of SQ(d): the limit of `simulate` as N → ∞.

    Examples
    --------
    >>> fluid = solve_fluid(d=2, lam=0.9, G="lomax(beta=1.5)", times=[1.0, 10.0])
    >>> fluid.S.sel(level=1).round(6).values.tolist()
    """
    from sweep import grids
    from sweep.schema import dataset

    limit = Limit(d=d, lam=lam, G=G, arrivals=arrivals, initial=initial, fraction=fraction)  # type: ignore[arg-type]
    t = grids.check_times(times)
    at = grids.check_snapshots(snapshots, float(t[-1]))
    age = grids.check_ages(ages, at)
    arrays = solve(
        limit, times=t, levels=grids.check_levels(levels), snapshots=at, ages=age,
        tolerance=check_tolerance(tolerance),
    )  # fmt: skip
    coordinates: dict[str, Any] = {
        "t": t,
        "level": np.arange(1, arrays["S"].shape[1] + 1),
        "snapshot": at,
        "age": age,
    }
    return dataset("fluid", arrays, coordinates)


def check_tolerance(tolerance: Any) -> float:
    """Return the tolerance as a float if a solve can be asked for it."""
    if isinstance(tolerance, (bool, str)) or not hasattr(tolerance, "__float__"):
        raise TypeError(f"tolerance must be a number, got {tolerance!r}")
    if not 1e-12 <= float(tolerance) < 1.0:
        raise ValueError(f"tolerance must lie in [1e-12, 1), got {tolerance!r}")
    return float(tolerance)
