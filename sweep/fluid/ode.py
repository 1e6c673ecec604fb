"""The limit by the ordinary differential equations of phase-type services, as a method of `solve_fluid`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweep.age_profile import AgeProfile
from sweep.cell import Limit
from sweep.errors import AccuracyError
from sweep.fluid.exact import mean_waits, phase_type, solve_phase_type, solve_phase_type_ages
from sweep.fluid.start import Start
from sweep.initial import Lengths
from sweep.routing import phi

Floats = NDArray[np.float64]
#: Arrivals per server that may pass the top level over the whole horizon.
_CLOSURE = 1e-11
#: Levels above the longest initial queue at first.
_LEVELS = 12
#: Accuracy of the run that the error is estimated by, and rounding.
_COARSE, _ROUNDING = 1e-10, 1e-13


def solve_ode(
    limit: Limit,
    start: Start,  # noqa: ARG001
    *,
    times: Floats,
    shown: int | None,
    snapshots: Floats,
    ages: Floats,
    tolerance: float,
) -> dict[str, Floats]:
    """Return S, S_error, D, virtual_wait and, if there are snapshots, nu_cdf, of all levels.

    Levels are as many as needed, at least those to be shown. The error is the change from a run at a
    hundred times the accuracy allowed to a step, plus that of the truncation.

    Raises
    ------
    TypeError
        The law has no finite number of phases here.
    ValueError
        A start other than lengths, but `invariant` of exponential services; snapshots from other than fresh
        ages.
    AccuracyError
        A tolerance below what the method reaches.
    """
    phase_type(limit.G)
    levels = _levels(limit, times, shown or 1)
    if snapshots.size and not (isinstance(limit.initial, Lengths) and limit.initial.ages == "fresh"):
        raise ValueError(
            f"initial must be empty or of fresh ages for snapshots by the phases, got {limit.initial}: "
            'take method="characteristics"'
        )
    path, coarse = (solve_phase_type(limit, times, levels, *accuracy) for accuracy in ((), (_COARSE,)))
    S = np.clip(path["S"], 0.0, 1.0)
    error = np.abs(path["S"] - coarse["S"]) + _CLOSURE + _ROUNDING
    if error.max() > tolerance:
        raise AccuracyError(
            f'tolerance must be at least {error.max():.1e} for method="ode", got {tolerance:g}',
            float(error.max()),
        )
    output = {"S": S, "S_error": error, "D": np.maximum(path["D"], 0.0)}
    output["virtual_wait"] = mean_waits(limit, path["S"], path["R"])
    if snapshots.size:
        output["nu_cdf"] = np.array([_ages(limit, time, ages, levels) for time in snapshots.tolist()])
    return output


def _levels(limit: Limit, times: Floats, least: int) -> int:
    """Return a number of levels whose last is hardly reached."""
    longest = limit.initial.longest if isinstance(limit.initial, (Lengths, AgeProfile)) else 0
    levels = max(longest, least) + _LEVELS
    while True:
        S = solve_phase_type(limit, times, levels, _COARSE)["S"]
        top = phi(float(S[:, -1].max()), limit.d, limit.fraction)
        if limit.mean_arrivals(times[-1:])[0] * top <= _CLOSURE:
            return levels
        levels *= 2


def _ages(limit: Limit, time: float, ages: Floats, levels: int) -> Floats:
    """Return ν_ℓ[0, a], shape (level, age), with all jobs no older than the clock."""
    S = np.clip(solve_phase_type(limit, np.array([time]), levels)["S"][0], 0.0, 1.0)
    inside = (ages > 0.0) & (ages < time)
    cdf = np.where(ages >= time, S[:, None], 0.0)
    cdf[:, inside] = solve_phase_type_ages(limit, time, ages[inside], levels)
    return np.asarray(np.maximum.accumulate(np.clip(cdf, 0.0, S[:, None]), axis=1))
