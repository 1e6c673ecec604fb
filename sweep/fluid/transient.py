"""The hydrodynamic limit in time: `solve_fluid`, for any service law, with an error estimate of its own.

Scheme. Births into service in one time step form a cell, which moves along its characteristic: Q_{ℓ,j}(t) is
the number born in step j and now at queues of length ≥ ℓ, as if none had been completed. It changes by
arrivals alone, Q_ℓ' = c_ℓ (Q_{ℓ−1} − Q_ℓ) with c_ℓ = λ P(S_{ℓ−1}, S_ℓ), by the trapezoidal rule. The rest is
exact: S_ℓ = Σ_j W_{n−j} Q_{ℓ,j} with W the mean of Ḡ over an age cell (from ∫Ḡ, never from a hazard),
completions by mass balance, positive by construction, births as increments. Jobs with ages of positive
probability (a start with fresh ages, and what atoms of the law make of it) are cells of zero width that
weigh Ḡ itself.

Order. Second in the step h. Errors expand in h^e (`extrapolation.error_exponents`), and are eliminated in
turn:

    law at age 0                   from empty             from fresh ages
    smooth, whole k                2, 4, 6                2, 4, 6
    Ḡ = 1 − c a^k + …, k < 1       2, 2 + k, 2 + 2k, …    the same, on a graded layer (`mesh`)
    the same, other k > 1          2, 2 + k, 4, …         2, 1 + k, 2k, …

provided that breakpoints are nodes; one inside a cell leaves O(h³) there from empty and O(h²) from fresh
ages, and the estimate shows it. Error estimates are absolute.

Long paths. Births long ago are merged (`past`), so that the cost of a step hardly grows with time; what that
may cost in accuracy is part of the error.

Closure. Levels are added until the arrivals refused at the top level are below 1e-11 per server; those
refused are counted in X, so that X = X(0) + E − D_1 to rounding. From the invariant state, whose queues have
any length, the levels above the top are kept as they are: exact at a constant rate, and else checked by more
levels.

Error. `S_error` comes from the last changes in the tableau of extrapolations (`extrapolation.extrapolate`),
the largest over neighbouring base nodes, plus the closure error and that of interpolation to times that are
not nodes. Steps are halved until it is below the tolerance, or until the work allowed is spent, which raises
`AccuracyError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep import arguments, grids
from sweep.arrivals import Profile
from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.mesh import Mesh, plan_mesh
from sweep.fluid.ode import solve_ode
from sweep.fluid.path import Path, trace
from sweep.fluid.readout import Readout, keep_nodes
from sweep.fluid.size import check_size
from sweep.fluid.start import Start, start_of
from sweep.initial import Initial
from sweep.laws import Law
from sweep.routing import limit_phi, phi
from sweep.schema import dataset

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
#: Arrivals per server that may be refused at the top internal level over the whole horizon.
_CLOSURE = 1e-11
#: Internal levels above the longest initial queue at first.
_LEVELS = 12
#: Share of the tolerance that levels held may cost, and the most of them.
_SHARE, _MOST_HELD = 0.25, 400
#: Resolutions that are always computed: an estimate needs changes along two rows of the tableau.
_RESOLUTIONS = 3
#: Cell updates that one resolution may spend, some 5 s, and what weighing one graded cell costs in them.
_WORK = 5e9
#: Relative error of the jobs at time 0 that is always accepted.
_JOBS = 1e-9
_WEIGHING = 700.0


def solve_fluid(
    *,
    d: int,
    lam: float,
    G: str | Law,
    times: ArrayLike,
    levels: int | None = None,
    arrivals: str | Law | Profile = "exponential",
    initial: str | Initial = "empty",
    fraction: float = 1.0,
    snapshots: ArrayLike = (),
    ages: ArrayLike | None = None,
    tolerance: float = 1e-8,
    method: str = "characteristics",
    routing: str = "sampled",
) -> xr.Dataset:
    """Solve the hydrodynamic equations of SQ(d): the limit of `simulate` as N → ∞.

    Parameters
    ----------
    d
        Queues sampled by an arrival.
    lam
        Arrival rate per server λ, in arrivals per mean service time; λ ≥ 1 is allowed.
    G
        Service law of mean 1, as text such as "lomax(beta=1.5)".
    times
        Increasing output times ≥ 0, shape (t,), in mean service times.
    levels
        Levels ℓ = 1 … to return; by default those where S_ℓ exceeds `tolerance` at some output time. How
        many are solved for does not depend on it.
    arrivals
        Law of the gaps between arrivals, which the limit does not depend on; or how the rate follows time,
        λ(t) = λ · profile(t), as in "profile(0: 1, 2: 1.5)" or "profile(0: 1.5, 5: 0.5, period=10)".
    initial
        "empty", fresh ages with "lengths(2: 0.2, 3: 0.8)", ages of density Ḡ with "lengths(2: 0.2, 3: 0.8,
        ages=equilibrium)", "invariant" for the invariant state of the same d, λ, G and fraction, or arrays of
        ages as an `sweep.age_profile.AgeProfile`.
    fraction
        Share p of arrivals that have d choices; the others join one uniform queue.
    snapshots
        Times of age distributions, shape (snapshot,), none after the last output time.
    ages
        Increasing ages of those, shape (age,); inf is added. By default 65 of equal distance.
    tolerance
        Largest estimated error of S accepted, absolute.
    method
        "characteristics", or "ode" for a law of finitely many phases, an independent solution.
    routing
        Rule by which arrivals choose; limits of other rules than "sampled" are not implemented.

    Returns
    -------
    xarray.Dataset
        S, S_error, D over (t, level), X, E, virtual_wait over t, and nu_cdf over (snapshot, level, age),
        float64, per server: the solution of equations (2.11)–(2.13) with S_ℓ = ⟨1, ν_ℓ⟩, X = Σ S_ℓ over all
        levels, E = ∫ λ(s) ds, and virtual_wait the mean time that an arrival at t would wait before its
        service. A queue has length ℓ with probability S_ℓ − S_{ℓ+1}.

    Raises
    ------
    ValueError, TypeError
        An argument out of its range or of the wrong type.
    AccuracyError
        The tolerance was not reached within the work allowed.

    Examples
    --------
    Before t = 1 no deterministic service ends, so that at d = 2 S_1' = λ(1 − S_1²): S_1 = tanh(λt).

    >>> import math
    >>> fluid = solve_fluid(d=2, lam=0.9, G="deterministic", times=[0.5, 5.0])
    >>> round(fluid.S.item(0), 6), round(math.tanh(0.45), 6)
    (0.421899, 0.421899)
    >>> bool((fluid.S_error < 1e-8).all())
    True
    """
    limit_phi(routing)
    limit = Limit(d=d, lam=lam, G=G, arrivals=arrivals, initial=initial, fraction=fraction)
    t = grids.check_times(times)
    shown = grids.check_levels(levels)
    at = grids.check_snapshots(snapshots, float(t[-1]))
    age = grids.check_ages(ages, at)
    accepted = check_tolerance(tolerance)
    way = check_method(method)
    grids.check_tables(shown, t.size, at.size, age.size)
    arrays = solve(limit, times=t, levels=shown, snapshots=at, ages=age, tolerance=accepted, method=way)
    level = np.arange(1, arrays["S"].shape[1] + 1)
    return dataset("fluid", arrays, {"t": t, "level": level, "snapshot": at, "age": age})


def solve(
    limit: Limit,
    *,
    times: Floats,
    levels: int | None,
    snapshots: Floats,
    ages: Floats,
    tolerance: float,
    method: str = "characteristics",
) -> dict[str, Floats]:
    """Return the arrays of `solve_fluid`, without labels, for arguments that are checked already.

    Raises
    ------
    ValueError
        A solve that memory cannot hold or that takes hours; a start that the limit, or the method, lacks.
    AccuracyError
        The tolerance was not reached within the work allowed.
    """
    check_size(limit, max([float(times[-1]), *snapshots.tolist()]), levels)
    start = start_of(limit)
    found = METHODS[method](
        limit, start, times=times, shown=levels, snapshots=snapshots, ages=ages, tolerance=tolerance
    )
    check_jobs(limit, start, tolerance)
    S = found["S"]
    shown = levels or max(1, int(np.count_nonzero(S.max(axis=0) > tolerance)))
    if start.endless:
        shown = min(shown, start.least(levels))
    E = limit.mean_arrivals(times)
    output = {
        "S": resized(S, shown),
        "S_error": resized(found["S_error"], shown, _CLOSURE),
        "D": resized(found["D"], shown),
        # With the arrivals refused: the sum of S over all levels, and jobs are conserved to rounding.
        "X": start.jobs + E - found["D"][:, 0],
        "E": E,
        "virtual_wait": found["virtual_wait"],
    }
    if snapshots.size:
        output["nu_cdf"] = np.array([resized(at.T, shown).T for at in found["nu_cdf"]])
    return output


def solve_characteristics(
    limit: Limit,
    start: Start,
    *,
    times: Floats,
    shown: int | None,
    snapshots: Floats,
    ages: Floats,
    tolerance: float,
) -> dict[str, Floats]:
    """Return S, S_error, D, virtual_wait and, if there are snapshots, nu_cdf, of the internal levels.

    Raises
    ------
    AccuracyError
        The tolerance was not reached within the work allowed.
    """
    horizon = max([float(times[-1]), *snapshots.tolist()]) or 1.0
    mesh = plan_mesh(limit, horizon, [*times.tolist(), *snapshots.tolist()], between=snapshots.size > 0)
    readout, error = refine(limit, start, mesh, times, shown, snapshots, tolerance)
    found = {
        "S": readout.S(times),
        "S_error": error,
        "D": readout.D(times),
        "virtual_wait": readout.waits(times),
    }
    if snapshots.size:
        found["nu_cdf"] = np.array([readout.nu(time, ages) for time in snapshots.tolist()])
    return found


#: The ways to solve the equations.
METHODS: Mapping[str, Callable[..., dict[str, Floats]]] = {
    "characteristics": solve_characteristics,
    "ode": solve_ode,
}


def refine(
    limit: Limit,
    start: Start,
    mesh: Mesh,
    times: Floats,
    shown: int | None,
    snapshots: Floats,
    tolerance: float,
) -> tuple[Readout, Floats]:
    """Halve steps until the estimated error at `times`, returned beside the values, meets the tolerance.

    Raises
    ------
    AccuracyError
        The next resolution would cost more than the work allowed.
    """
    closure = 0.0
    if start.endless:
        levels, closure = held_levels(limit, start, mesh, shown, tolerance)
    else:
        levels = internal_levels(limit, start, mesh)
    paths: list[Path] = []
    while True:
        keep = keep_nodes(mesh, len(paths), snapshots)
        paths.append(trace(limit, mesh, len(paths), levels, keep, start))
        if not start.endless and paths[-1].overflow[-1] > 10.0 * _CLOSURE:
            levels += max(4, levels // 4)
            paths = []
        if len(paths) < _RESOLUTIONS:
            continue
        readout = Readout(limit, mesh, paths, start)
        error = readout.error(times) + closure
        reached = float(error.max())
        if reached <= tolerance:
            return readout, error
        if work(paths[-1]) > _WORK / 4.0:
            raise AccuracyError(
                f"tolerance must be at least {reached:.1e} for {limit.text}, got {tolerance:g}: "
                f"the estimate after {len(paths)} resolutions; pass that tolerance or a shorter horizon",
                reached,
            )


def held_levels(
    limit: Limit, start: Start, mesh: Mesh, shown: int | None, tolerance: float
) -> tuple[int, float]:
    """Return the levels to hold where queues have any length, those above being kept as they are at time 0.

    Nothing moves them if the rate is constant. If it follows a profile, levels are doubled until those that
    are output no longer change, by a share of the tolerance; beside the levels the last change is returned.
    """
    levels = least = start.least(shown)
    if not isinstance(limit.arrivals, Profile):
        return levels, 0.0
    before = trace(limit, mesh, 0, levels, start=start).S[:, :least]
    while True:
        levels += max(levels, _LEVELS)
        after = trace(limit, mesh, 0, levels, start=start).S[:, :least]
        change = float(np.abs(after - before).max())
        if change <= _SHARE * tolerance or levels >= _MOST_HELD:
            return levels, change
        before = after


def internal_levels(limit: Limit, start: Start, mesh: Mesh) -> int:
    """Return the least number of levels at which arrivals refused at the top stay below the closure error."""
    least = max(start.least(None), 1)
    levels = least + _LEVELS
    while True:
        path = trace(limit, mesh, 0, levels, start=start)
        arrived = np.diff(limit.mean_arrivals(path.nodes)).tolist()
        for level in range(least, levels):
            shares = [phi(x, limit.d, limit.fraction) for x in path.S[1:, level].tolist()]
            if sum(share * count for share, count in zip(shares, arrived, strict=True)) <= _CLOSURE:
                return level + 1
        levels *= 2


def work(path: Path) -> float:
    """Return the cost of a path in cell updates; halving its steps costs at most four times as much."""
    nodes, levels = path.S.shape
    return float(levels * nodes * min(path.columns, nodes // 2) + _WEIGHING * path.weights.layer.size)


def resized(values: Floats, shown: int, beyond: float = 0.0) -> Floats:
    """Cut or extend the last axis, that of levels; those beyond the internal ones are 0 within `beyond`."""
    result = np.full((values.shape[0], shown), beyond)
    held = min(shown, values.shape[1])
    result[:, :held] = values[:, :held]
    return result


def check_jobs(limit: Limit, start: Start, tolerance: float) -> None:
    """Refuse a start whose jobs, hence X, are known less well than to the tolerance.

    Raises
    ------
    AccuracyError
        The tolerance, and 1e-9 of the jobs, is below the error of their number.
    """
    error = start.jobs_error
    if error > max(tolerance, _JOBS * start.jobs):
        raise AccuracyError(
            f"tolerance must be at least {error:.1e} for {limit.text}, got {tolerance:g}: the error of the "
            "jobs at time 0; pass that tolerance, if it is below 1, or take another start",
            error,
        )


def check_method(method: Any) -> str:
    """Return the method if it exists.

    Raises
    ------
    TypeError
        Not text.
    ValueError
        Not a key of `METHODS`.
    """
    return arguments.check_choice("method", method, METHODS)


def check_tolerance(tolerance: Any) -> float:
    """Return the tolerance as a float if a solve can be asked for it.

    Raises
    ------
    TypeError
        Not a number.
    ValueError
        Outside [1e-12, 1).
    """
    return arguments.check_tolerance(tolerance, 1e-12)
