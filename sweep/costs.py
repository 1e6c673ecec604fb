"""Rough costs of the work: seconds of one core and bytes, measured once; plans and batches rest on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sweep.cell import Cell, Limit
from sweep.initial import Invariant

#: Bytes of a worker before it has any work.
WORKER_BYTES = 250_000_000
_SERVER_BYTES = 32
_SNAPSHOT_BYTES = 40  # age and length of a server, and their sorted copy
#: Prohorov distances and V at one snapshot, mostly for log Ḡ: by law and for any other, and for each server.
_DISTANCE_SECONDS = {
    "deterministic": 0.015,
    "exponential": 0.02,
    "lomax": 0.1,
    "hyperexponential": 0.12,
    "pareto": 0.15,
    "lognormal": 0.15,
    "erlang": 0.4,
    "phase_type": 0.4,
    "gamma": 0.6,
}
_OTHER_DISTANCE_SECONDS, _DISTANCE_SERVER_SECONDS = 0.3, 1e-6


def path_seconds(cell: Cell, horizon: float) -> float:
    """Estimate the seconds of one path: an event costs more where servers outgrow the cache."""
    events = cell.lam * cell.N * horizon * (cell.d + 2)
    nanoseconds = 8.0 + 6.0 * max(0.0, math.log10(cell.N / 1e5))
    return 5e-4 + 1e-9 * (events * nanoseconds + 2.0 * cell.N * horizon)


def distance_seconds(cell: Cell, snapshots: int) -> float:
    """Estimate the seconds that distances at so many snapshots take for one path."""
    any_size = _DISTANCE_SECONDS.get(cell.G.name, _OTHER_DISTANCE_SECONDS)
    return snapshots * (any_size + _DISTANCE_SERVER_SECONDS * cell.N)


def path_bytes(cell: Cell, snapshots: int) -> int:
    """Estimate the bytes of the servers of one path."""
    return cell.N * (_SERVER_BYTES + _SNAPSHOT_BYTES * snapshots)


def limit_seconds(kind: str, limit: Any, grids: Mapping[str, Any]) -> float:
    """Estimate the seconds of one limit, mostly within a factor of 3.

    Of 302 limits of all studies, laws, starts, loads, horizons and tolerances that took 0.3 ms to 38 s, 92 %
    were, and 99 % within a factor of 10.

    Parameters
    ----------
    kind
        "fluid", "invariant" or "diffusion": the group that holds it.
    limit
        A `Limit` or, for "diffusion", a `DiffusionLimit`.
    grids
        What its task is told, see `SweepSpec.grids`.
    """
    return _LIMITS[kind](limit, grids)


def _fluid_seconds(limit: Limit, grids: Mapping[str, Any]) -> float:
    """Estimate by steps, those of the times or an eighth; levels that are not needed cost nothing."""
    times, snapshots, law = grids["times"], len(grids["snapshots"]), limit.G
    steps = max(len(times) - 1, 8.0 * float(times[-1]), 50.0)
    smooth = law.origin_exponent >= 1.0 and not law.breakpoints
    seconds: float = (0.006 if smooth else 0.012) * (steps / 100.0) ** 1.1
    seconds *= max(1.0, 1e-7 / float(grids["tolerance"])) ** 0.15
    if limit.d == 1:
        seconds *= 2.5
    if isinstance(limit.initial, Invariant):
        seconds += 0.03 if law.support_end < math.inf else 0.7 if law.variance == math.inf else 0.15
    elif str(limit.initial) != "empty" and not smooth and law.support_end == math.inf:
        seconds *= 8.0
    return seconds + 0.02 * snapshots * (snapshots + 1.0)


def _invariant_seconds(limit: Limit, grids: Mapping[str, Any]) -> float:
    """Estimate by levels; where tails fall so fast that double precision ends before, its end is sought."""
    levels, law, d = int(grids["levels"]), limit.G, limit.d
    if d > 1 and law.tail_exponent is not None and law.tail_exponent > d / (d - 1.0):
        deepest, each, search = 10.0, 8e-4, 0.8  # S falls doubly exponentially, past hazards that vanish
    elif law.tail_exponent is not None:
        deepest, each, search = math.inf, 2.5e-4, 0.0  # a power law
    elif law.support_end < math.inf:
        deepest, each, search = 30.0, 7e-5, 0.04
    else:
        deepest, each, search = 30.0, 5e-4, 0.3
    sought = search * (levels / 50.0) ** 0.2 if levels * math.log(d) > deepest else 0.0
    return each * levels + sought


def _diffusion_seconds(limit: Any, grids: Mapping[str, Any]) -> float:
    """Estimate by output times, as each takes steps of its own; neither drift nor horizon counts."""
    fine = math.pow(1e-7 / grids["tolerance"], 0.4)
    return 1.4 * fine * len(grids["times"]) / 41.0 * math.pow(max(1.0, limit.ell / 5.0), 1.7)


_LIMITS: Mapping[str, Callable[[Any, Mapping[str, Any]], float]] = {
    "fluid": _fluid_seconds,
    "invariant": _invariant_seconds,
    "diffusion": _diffusion_seconds,
}
