"""What a sweep of heavy traffic computes: the limit of a cell, and how far networks are from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import check_count, numbers, real
from sweep.diffusion.cells import pilot
from sweep.diffusion.checks import check_positions, check_tolerance, finite
from sweep.diffusion.density import solve
from sweep.diffusion.exact import stationary
from sweep.diffusion.model import Diffusion
from sweep.diffusion.readout import default_positions
from sweep.diffusion.start import Start, as_start
from sweep.grids import check_times
from sweep.wording import shown

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

#: The fine grid that distances are measured on: equal intervals to where v is the first share, and `_FAR`
#: more, in a constant ratio, to where it is the second.
_FINE, _NEAR_SHARE, _LAST_SHARE = 4096, 1e-4, 1e-9
_FAR = 512
#: Points of a start of which each is a jump of v on the fine grid; more of them make v nearly continuous.
_MOST_JUMPS = 256
#: Default positions end where v falls to this share; so many at most.
_SHOWN, _MOST_SHOWN = 1e-4, 10**6
#: Positions of which a million times is still a number.
_FARTHEST = 1e290


def default_x(
    cells: Iterable[tuple[float, float, int, float]],
    initial: str | Start | ArrayLike,
    horizon: float,
    count: int = 61,
) -> Floats:
    """Return positions that show v of all cells up to the horizon, shape (`count`,), from 0 in equal steps.

    They end where the slowest v to fall is about 1e-4, at a number of two digits.

    Parameters
    ----------
    cells
        (b1, b0, ell, sigma2) of each cell.
    initial
        As for `solve_diffusion`.
    horizon
        Last scaled time > 0.
    count
        How many, from 2 to a million.

    Raises
    ------
    TypeError, ValueError
        Parameters that `Diffusion` or `as_start` refuse, or for which numbers overflow; a horizon that is not
        positive and finite.

    Examples
    --------
    >>> default_x([(-2, 1, 2, 2.0), (-1, 0, 2, 2.0)], "empty", 4.0, count=5).tolist()
    [0.0, 1.9, 3.8, 5.7, 7.6]
    """
    last_time, points, end = real("horizon", horizon), check_count("count", count, 2, _MOST_SHOWN), 0.0
    if not 0.0 < last_time < math.inf:
        raise ValueError(f"horizon must be positive and finite, got {shown(horizon)}")
    for b1, b0, ell, sigma2 in _parameters(cells):
        model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
        start = as_start(initial, model=model)
        _, found = pilot(model, start, [last_time], _SHOWN)
        seen = float(default_positions(found, _SHOWN, 1)[-1])
        if not 0.0 < seen < _FARTHEST:
            raise ValueError(
                "b1, b0, sigma2 and initial must be such that numbers do not overflow, "
                f"got {model.text} from {start.text}: scale time and length"
            )
        end = max(end, seen, start.reach(_SHOWN))
    digits = f"{end:.1e}"
    last = float(digits) if float(digits) >= end else float(digits) + float("1" + digits[3:]) / 10.0
    return np.array([float(f"{last * k / (points - 1):.12g}") for k in range(points)])


def _parameters(cells: Any) -> list[tuple[Any, ...]]:
    """Return the four parameters of each cell."""
    try:
        found = [tuple(cell) for cell in cells]
    except TypeError:
        found = [()]
    for cell in found:
        if len(cell) != 4:
            raise ValueError(f"cells must be (b1, b0, ell, sigma2) each, got {shown(cells)}")
    return found


def solve_heavy_limit(
    *,
    b1: float,
    b0: float,
    ell: int,
    sigma2: float,
    times: ArrayLike,
    x: ArrayLike,
    initial: str | Start | ArrayLike = "empty",
    tolerance: float = 1e-6,
) -> dict[str, Floats]:
    """Solve the PDE of one cell for output and for distances.

    Parameters
    ----------
    b1, b0, ell, sigma2, times, x, initial, tolerance
        As for `solve_diffusion`.

    Returns
    -------
    dict
        v, u (t, x), mean (t,), error (), the largest estimated error of v; v_stationary (x,) and
        mean_stationary (), NaN where there is no stationary law; fine_x (k,) and fine_v (t, k), v on a grid
        that ends where it is 1e-9 at most and holds a point of X_0 twice, for the jump of v there at t = 0.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range, before anything is computed.
    AccuracyError
        The tolerance is out of reach.

    Examples
    --------
    >>> limit = solve_heavy_limit(b1=-2, b0=1, ell=2, sigma2=2, times=[0.0, 1.0], x=[0.0, 1.0])
    >>> limit["v"].shape, round(float(limit["mean_stationary"]), 6)
    ((2, 2), 0.693147)
    """
    model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    t, at, start = check_times(times), check_positions(x), as_start(initial, model=model)
    accepted = check_tolerance(tolerance)
    later = [time for time in t.tolist() if time > 0.0]
    jumps = np.unique(start.points[start.points > 0.0])
    jumps = jumps if jumps.size <= _MOST_JUMPS else jumps[:0]
    grid = _fine_grid(model, start, later, bool(t[0] == 0.0))
    # The jumps once more, each after the position it ends at.
    fine: Floats = np.sort(np.concatenate([np.union1d(grid, jumps), jumps]), kind="stable")
    both: Floats = np.sort(np.concatenate([fine, at]), kind="stable")
    _, solution = solve(model, start, times=t, x=both, probabilities=np.empty(0), tolerance=accepted)
    v, u = (np.array([getattr(values, name) for values in solution.values]) for name in ("v", "u"))
    shown, kept = (np.searchsorted(both, where, side="right") - 1 for where in (at, fine))
    fine_v = v[:, kept]
    if t[0] == 0.0 and jumps.size:
        fine_v[0, np.searchsorted(fine, jumps)] = start.survival(np.nextafter(jumps, 0.0))
    law, mean = _stationary(model, at)
    return {
        "v": v[:, shown],
        "u": u[:, shown],
        "mean": np.array([values.mean for values in solution.values]),
        "error": np.array(max(float(np.max(errors.v)) for errors in solution.errors)),
        "v_stationary": law,
        "mean_stationary": np.array(mean),
        "fine_x": fine,
        "fine_v": fine_v,
    }


def _fine_grid(model: Diffusion, start: Start, times: list[float], starts: bool) -> Floats:
    found = pilot(model, start, times, _LAST_SHARE)[1] if times else []
    near, far = (
        max(
            float(default_positions(found, share, 1)[-1]) if found else 0.0,
            start.reach(share) if starts else 0.0,
        )
        for share in (_NEAR_SHARE, _LAST_SHARE)
    )
    grid = [near * k / _FINE for k in range(_FINE + 1)] if near > 0.0 else [0.0]
    if far > near > 0.0:
        grid += [near * math.pow(far / near, k / _FAR) for k in range(1, _FAR)] + [far]
    return np.array(grid)


def _stationary(model: Diffusion, x: Floats) -> tuple[Floats, float]:
    if model.b1 > 0.0 or model.b1 + model.b0 >= 0.0:
        return np.full(x.size, math.nan), math.nan
    law = stationary(b1=model.b1, b0=model.b0, ell=model.ell, sigma2=model.sigma2)
    return law.v(x), law.mean


def empirical_distances(
    counts: NDArray[np.integer[Any]], *, N: int, m: float, x: ArrayLike, limit: Arrays
) -> dict[str, Floats]:
    """Return how far the empirical law of Q/√m is from the limit at each time.

    Parameters
    ----------
    counts
        Number of queues of length ≥ 1, 2, …, shape (t, level), all levels that occur.
    N, m
        Number of queues, and the scale.
    x
        Increasing positions ≥ 0 where v is wanted, shape (x,).
    limit
        fine_x and fine_v of `solve_heavy_limit`, at the same times.

    Returns
    -------
    dict
        W1, KS, d_P (t,): Wasserstein-1 (in √m jobs), Kolmogorov and Prohorov distance of the N queues' law
        from v, linear between the fine positions; v (t, x), the share of queues with Q/√m > x; X (t,), the
        mean of Q/√m. Exact but for rounding and the fine grid.

    Raises
    ------
    TypeError, ValueError
        Counts that are not whole, of another shape, that grow with the level, or exceed N; a scale below 1; a
        limit without its fine grid.

    Examples
    --------
    >>> limit = solve_heavy_limit(b1=-2, b0=1, ell=2, sigma2=2, times=[0.0], x=[0.0])
    >>> empirical_distances(np.array([[3, 1]]), N=4, m=100, x=[0.0], limit=limit)["W1"].tolist()
    [0.1]
    """
    servers, scale = check_count("N", N), finite("m", m)
    if scale < 1.0:
        raise ValueError(f"m must be at least 1, got {shown(m)}")
    if not isinstance(limit, Mapping) or not {"fine_x", "fine_v"} <= set(limit):
        raise ValueError(f"limit must hold fine_x and fine_v of `solve_heavy_limit`, got {shown(limit)}")
    at, fine = check_positions(x), numbers("fine_x", limit["fine_x"])
    fine_v = numbers("fine_v", limit["fine_v"])
    given = numbers("counts", counts)
    if not np.all(np.floor(given) == given):
        raise ValueError(f"counts must be whole numbers, got {shown(counts)}")
    table = given.astype(np.int64)
    if table.ndim != 2 or table.shape[0] != len(fine_v):
        raise ValueError(
            f"counts must have a row for each of the {len(fine_v)} times, got shape {table.shape}"
        )
    whole = np.column_stack([np.full(len(table), servers), table, np.zeros(len(table), dtype=table.dtype)])
    if np.any(np.diff(whole, axis=1) > 0):
        row = whole[np.any(np.diff(whole, axis=1) > 0, axis=1)][0]
        raise ValueError(
            f"counts must fall with the level from at most N = {servers}, got {row[1:9].tolist()}"
        )
    root = math.sqrt(scale)
    lattice = np.arange(whole.shape[1]) / root
    rows = [_distances(row, servers, lattice, fine, v) for row, v in zip(whole, fine_v, strict=True)]
    beyond = np.minimum(np.searchsorted(lattice, at, side="right"), whole.shape[1] - 1)
    named = dict(zip(("W1", "KS", "d_P"), np.array(rows).reshape(-1, 3).T, strict=True))
    return {**named, "v": whole[:, beyond] / servers, "X": table.sum(axis=1) / (servers * root)}


def _distances(
    counts: NDArray[np.integer[Any]], N: int, lattice: Floats, fine: Floats, v: Floats
) -> tuple[float, float, float]:
    from sweep.distances import Atoms, PiecewiseLinear, kolmogorov, prohorov_between, wasserstein

    cdf = 1.0 - v
    cdf[-1] = 1.0  # v ends at 1e-9 or less
    queues = Atoms(lattice[:-1], (counts[:-1] - counts[1:]) / N)
    limit = PiecewiseLinear(fine, cdf)
    return wasserstein(queues, limit), kolmogorov(queues, limit), prohorov_between(queues, limit)
