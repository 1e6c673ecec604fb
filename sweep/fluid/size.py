"""What a solve in time costs at the least, so that a hopeless one is refused before it begins."""

from __future__ import annotations

import numpy as np

from sweep.age_profile import AgeProfile
from sweep.arguments import check_memory
from sweep.arrivals import check_periods
from sweep.cell import Limit
from sweep.fluid.invariant import check_asked
from sweep.initial import Lengths
from sweep.laws import Law
from sweep.wording import shown

#: Levels that are always held above the longest queue. Base steps in a unit of time, and in all: one arrival
#: at most in each, but for so many. How much finer the last resolution is that is always computed.
_LEVELS, _STEPS, _FEWEST_STEPS, _MOST_FOR_RATE, _FINER = 12, 8.0, 16.0, 2048.0, 4.0
#: Longest queues at time 0 that are accepted: a path of the coarsest steps takes minutes then.
_MOST_LEVELS = 10**6
#: Bytes of a level at a step, and birth cells that a step deals with at least, however they are merged.
_BYTES, _CELLS = 24.0, 256.0
#: Cell updates that a resolution may take, and seconds of one.
_MOST_UPDATES, _UPDATE_SECONDS = 1e12, 1e-9


def check_size(limit: Limit, horizon: float, levels: int | None) -> None:
    """Refuse a solve whose arrays do not fit into memory, or take hours to fill, at resolutions always tried.

    Parameters
    ----------
    limit
        Parameters of the limit.
    horizon
        The last time asked for, in mean service times.
    levels
        Levels to output, None for automatic: they are held where queues have any length at time 0.

    Raises
    ------
    ValueError
        So late a time, such long queues at time 0, or so high a rate.
    """
    check_periods(limit.arrivals, horizon)
    steps = max(_STEPS * horizon, _FEWEST_STEPS, min(limit.lam * horizon, _MOST_FOR_RATE)) * _FINER
    _check("times", horizon, 0.0, steps, "end earlier")
    if isinstance(limit.initial, (Lengths, AgeProfile)):
        _check("initial", str(limit.initial), limit.initial.longest, steps, "start from shorter queues")
        if limit.initial.longest > _MOST_LEVELS:
            raise ValueError(
                f"initial must have lengths of at most {_MOST_LEVELS} in the limit, "
                f"got {shown(str(limit.initial))}: longer ones take hours"
            )
    else:
        check_asked(levels)
        _check("levels", levels, levels or 1, steps, "take fewer levels")
    # A busy server that begins fresh completes at most 2t / ∫_0^t Ḡ jobs on average by t, by Erickson's bound
    # of the renewal function, and no level holds more than one job a server.
    grown = float(limit.mean_arrivals(np.array([horizon]))[0]) - _most_completed(limit.G, horizon)
    _check("lam", limit.lam, grown, steps, "take a lower rate or end earlier")


def _most_completed(law: Law, horizon: float) -> float:
    served = 1.0 - float(law.integrated_tail(np.array([horizon]))[0])
    return 2.0 * horizon / served if served > 0.0 else 0.0


def _check(name: str, value: object, queue: float, steps: float, cure: str) -> None:
    levels = _LEVELS + max(queue, 0.0)
    check_memory(name, value, _BYTES * levels * steps, cure)
    updates = levels * steps * min(steps / 2.0, _CELLS)
    if updates > _MOST_UPDATES:
        raise ValueError(
            f"{name} must be within reach, got {shown(value)}, which takes {levels:.1e} levels, {steps:.1e} "
            f"steps and {updates * _UPDATE_SECONDS / 3600.0:.2g} hours at the least: {cure}"
        )
