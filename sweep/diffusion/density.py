"""The parabolic PDE of the heavy-traffic limit: v(x, t) = P(X_t > x), its density, mean and quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.diffusion.cells import Schedule, pilot, trace, work
from sweep.diffusion.checks import check_positions, check_probabilities, check_tolerance
from sweep.diffusion.labels import DIFFUSION, labelled
from sweep.diffusion.model import Diffusion
from sweep.diffusion.readout import Values, default_positions, read
from sweep.diffusion.start import Start, as_start
from sweep.errors import AccuracyError
from sweep.grids import check_times

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]

#: Exponents eliminated in turn, from a point at 0 and from elsewhere: where no domain shrinks with the layer
#: at t = 0, the error has a term h² log h, which eliminating 2 twice removes.
_FROM_EMPTY, _FROM_ELSEWHERE = (2.0, 3.0, 4.0), (2.0, 2.0, 3.0)
#: Resolutions before the first estimate, and cell updates before giving up (about 40 s).
_RESOLUTIONS, _WORK = 3, 4e8
#: Share of the tolerance that may lie beyond three quarters of the domain.
_SPILL = 0.02
#: By default positions end where v falls to this share, in so many intervals.
_LAST_SHARE, _INTERVALS = 1e-6, 256


@dataclass(frozen=True)
class Solution:
    """Values at each time, and their estimated errors (of its mass excepted)."""

    values: tuple[Values, ...]
    errors: tuple[Values, ...]


def solve_diffusion(
    *,
    b1: float,
    b0: float,
    ell: int,
    sigma2: float,
    times: ArrayLike,
    initial: str | Start | ArrayLike = "empty",
    x: ArrayLike | None = None,
    probabilities: ArrayLike = (),
    tolerance: float = 1e-6,
) -> xr.Dataset:
    """Solve the PDE of the heavy-traffic limit for v(x, t) = P(X_t > x), X = Q/√m.

    v_t + (b1 v + b0 v^ell)_x = (σ²/2) v_xx,  v(0, t) = 1,  v(∞, t) = 0; the density is u = −v_x.

    Parameters
    ----------
    b1, b0
        Any finite numbers: the arrival streams of a queue have rates 1 + b1/√m (uniform) and b0/√m (shortest
        of ell) in units of the service rate.
    ell
        Queues that an arrival of the second stream samples, 2 … 1000.
    sigma2
        Variance σ² > 0 of the noise per unit of time: `sigma2_of(G)`.
    times
        Increasing times ≥ 0 in units of m mean service times, shape (t,).
    initial
        The law of X_0: "empty", "point(x=1.5)", "points(0.5: 0.2, 2: 0.8)", "law(exponential, mean=0.7)" with
        any law of `sweep.laws`, "stationary", or an array of positions of equal weight, in units of √m
        jobs.
    x
        Increasing positions ≥ 0 in units of √m jobs, shape (x,). By default 257, from 0 to where v ≤ 1e-6 at
        all times.
    probabilities
        Increasing probabilities in (0, 1) of which quantiles are wanted.
    tolerance
        Largest estimated error of v, in [1e-11, 1).

    Returns
    -------
    xarray.Dataset
        v, u (t, x), mean, mass (t), with `probabilities` also quantile (t, probability), and the estimated
        errors v_error, u_error, mean_error, quantile_error. v never increases in x and u is not negative;
        mass is that of the cells. At t = 0 they are P(X_0 > x), the density of the part of X_0 that has one,
        and its moments.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range, before anything is computed.
    AccuracyError
        The tolerance is out of reach, as for a point mass seen at a very early time.

    Notes
    -----
    The PDE is that of R. Atar and G. Wolansky, Invariance principle and McKean–Vlasov limit for randomized
    load balancing in heavy traffic. Masses of cells follow a Markov chain whose drift in a cell is the mean
    of b1 + b0 ell v^{ell−1} over it (second order in the width, never negative); time steps are backward
    Euler extrapolated to second order, limited where that would make a mass negative. Steps are equal in
    t^{1/4}, the domain doubles as the mass spreads. Each resolution is of second order in width and step;
    three or more of them are extrapolated.

    Examples
    --------
    >>> data = solve_diffusion(b1=-2, b0=1, ell=2, sigma2=2, times=[0.5, 40.0], tolerance=1e-8)
    >>> round(float(data["mean"].sel(t=40.0)), 7)  # ln 2 in equilibrium
    0.6931472
    >>> bool((data.v.diff("x") <= 0.0).all())
    True
    """
    model = Diffusion(b1=b1, b0=b0, ell=ell, sigma2=sigma2)
    t, start = check_times(times), as_start(initial, model=model)
    positions = None if x is None else check_positions(x)
    shares = check_probabilities(probabilities)
    accepted = check_tolerance(tolerance)
    positions, solution = solve(model, start, times=t, x=positions, probabilities=shares, tolerance=accepted)
    coordinates = {"t": t, "x": positions, "probability": shares}
    attributes = {"parameters": model.text, "initial": start.text, "tolerance": accepted}
    return labelled(DIFFUSION, arrays_of(solution, shares.size > 0), coordinates, attributes)


def arrays_of(solution: Solution, quantiles: bool) -> dict[str, Floats]:
    """Return the variables of `DIFFUSION` by name."""
    arrays = {"mass": np.array([values.mass for values in solution.values])}
    for suffix, rows in (("", solution.values), ("_error", solution.errors)):
        arrays[f"v{suffix}"] = np.array([values.v for values in rows])
        arrays[f"u{suffix}"] = np.array([values.u for values in rows])
        arrays[f"mean{suffix}"] = np.array([values.mean for values in rows])
        if quantiles:
            arrays[f"quantile{suffix}"] = np.array([values.quantiles for values in rows])
    return arrays


def solve(
    model: Diffusion,
    start: Start,
    *,
    times: Floats,
    x: Floats | None,
    probabilities: Floats,
    tolerance: float,
) -> tuple[Floats, Solution]:
    """Return positions and the solution there, for arguments that are checked already.

    Raises
    ------
    AccuracyError
        The next resolution would cost more than the work allowed.
    """
    later = [time for time in times.tolist() if time > 0.0]
    if not later:
        if x is None:
            end = start.reach(_LAST_SHARE) or 1.0
            x = np.arange(_INTERVALS + 1, dtype=np.float64) * (end / _INTERVALS)
        return x, Solution((at_start(start, x, probabilities),), (zeros(x, probabilities),))
    schedule, found = pilot(model, start, later, _SPILL * tolerance)
    if x is None:
        x = default_positions(found, _LAST_SHARE, _INTERVALS)
    runs = [[read(cells, x, probabilities) for cells in found]]
    values, errors = refine(model, start, schedule, runs, x, probabilities, tolerance)
    if times[0] == 0.0:
        values.insert(0, at_start(start, x, probabilities))
        errors.insert(0, zeros(x, probabilities))
    return x, Solution(tuple(values), tuple(errors))


def refine(
    model: Diffusion,
    start: Start,
    schedule: Schedule,
    runs: list[list[Values]],
    x: Floats,
    probabilities: Floats,
    tolerance: float,
) -> tuple[list[Values], list[Values]]:
    """Double the resolution until the estimated error of v meets the tolerance; return values and errors.

    Raises
    ------
    AccuracyError
        The next resolution would cost more than the work allowed, or numbers overflow.
    """
    exponents = _FROM_EMPTY if start.text == "empty" else _FROM_ELSEWHERE
    while True:
        runs.append([read(cells, x, probabilities) for cells in trace(model, start, schedule, len(runs))])
        if len(runs) < _RESOLUTIONS:
            continue
        values, errors, reached = [], [], 0.0
        for index in range(len(runs[-1])):
            row, error = extrapolate([run[index].smooth for run in runs], exponents)
            values.append(projected(split(row, x.size, runs[-1][index].mass)))
            errors.append(with_truncation(split(error, x.size, 0.0), schedule, start))
            largest = float(np.max(errors[-1].v))
            reached = max(reached, largest if math.isfinite(largest) else math.inf)
        if reached <= tolerance:
            return values, errors
        if reached == math.inf:
            raise AccuracyError(
                f"b1, b0 and sigma2 must be such that numbers do not overflow, got {model.text}: "
                "scale time and length",
                reached,
            )
        if 4.0 * work(schedule, len(runs) - 1) > _WORK:
            raise AccuracyError(
                f"tolerance must be at least {reached:.1e} for {model.text} from {start.text}, "
                f"got {tolerance:g}: the estimate after {len(runs)} resolutions; pass that tolerance, or "
                "leave out the earliest times",
                reached,
            )


def extrapolate(results: Sequence[Floats], exponents: Sequence[float]) -> tuple[Floats, Floats]:
    """Eliminate the exponents in turn from results with steps h, h/2, …; return the value and its error.

    The estimate is half of the change since the resolution before, and twice the last elimination unless all
    exponents were eliminated at both.
    """
    row, before = [results[0]], [results[0]]
    for result in results[1:]:
        fresh = [result]
        for exponent, older in zip(exponents, row, strict=False):
            fresh.append(fresh[-1] + (fresh[-1] - older) / (2.0**exponent - 1.0))
        before, row = row, fresh
    # A share of the elimination always: a change may vanish by chance.
    factor = 2.0 if len(before) < len(row) else 0.05
    error = np.maximum(0.5 * np.abs(row[-1] - before[-1]), factor * np.abs(row[-1] - row[-2]))
    return row[-1], error


def projected(values: Values) -> Values:
    """Return the nearest v that does not increase nor leave [0, 1], and u ≥ 0: no further from the truth."""
    v = np.minimum.accumulate(np.clip(values.v, 0.0, 1.0))
    return Values(v, np.maximum(values.u, 0.0), values.quantiles, values.mean, values.mass)


def with_truncation(error: Values, schedule: Schedule, start: Start) -> Values:
    """Add what the end of the domain may change: it reflects a mass of at most `spilled`."""
    spilled = schedule.spilled
    lost = start.beyond(schedule.domain) + spilled * schedule.last_domain
    return Values(error.v + spilled, error.u, error.quantiles, error.mean + lost, 0.0)


def split(row: Floats, count: int, mass: float) -> Values:
    """Undo `Values.smooth`."""
    return Values(row[:count], row[count : 2 * count], row[2 * count : -1], float(row[-1]), mass)


def at_start(start: Start, x: Floats, probabilities: Floats) -> Values:
    """Return the values at t = 0."""
    quantiles = np.array([start.quantile(p) for p in probabilities.tolist()])
    return Values(start.survival(x), start.density(x), quantiles, start.mean, 1.0)


def zeros(x: Floats, probabilities: Floats) -> Values:
    """Return the errors at t = 0."""
    return Values(np.zeros(x.size), np.zeros(x.size), np.zeros(probabilities.size), 0.0, 0.0)
