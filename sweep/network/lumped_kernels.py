"""Compiled loops of the network lumped to level counts: events one by one, and slots applied at once.

Stand the servers in a row, longest queue first, and number their places from 0: place p holds a queue of
length ≥ ℓ iff p < S_ℓ, and the shortest of some sampled queues is the one at the last sampled place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
#: Why `run` returned: all times are stored; a buffer of arrivals or of completions is used up; the level
#: counts or the columns of the tables do not suffice.
DONE, ARRIVAL_GAPS, ARRIVAL_PLACES, COMPLETION_GAPS, COMPLETION_PLACES, LEVELS, COLUMNS = range(7)


class Events(NamedTuple):
    """A stream of events: gaps (unit mean) and places drawn ahead, and how far they are used up."""

    gaps: NDArray[np.float64]
    places: NDArray[np.uint32]
    scale: float  # mean gap
    time: NDArray[np.float64]  # (1,): when the next event happens
    used: NDArray[np.int64]  # gaps and places used up


class Counts(NamedTuple):
    """The state and what happened so far, by level from 0, and rows of it at the stored times."""

    longer: NDArray[np.int64]  # queues of length ≥ ℓ; no meaning at ℓ = 0
    departed: NDArray[np.int64]  # departures from queues of length ℓ
    totals: NDArray[np.int64]  # arrivals, departures, longest queue so far, rows stored
    arrived: NDArray[np.float64]  # (1,): when the last arrival was
    joined: NDArray[np.int64]  # scratch: places of arrivals of a slot, below S_ℓ
    served: NDArray[np.int64]  # scratch: places of completions of a slot, below S_ℓ


class Tables(NamedTuple):
    """What is stored at each time: S_ℓ and D_ℓ for ℓ ≥ 1, (t, level); arrivals and departures, (t, 2)."""

    S: NDArray[np.int64]
    D: NDArray[np.int64]
    totals: NDArray[np.int64]
    R_E: NDArray[np.float64]  # (t,): time since the last arrival


class Areas(NamedTuple):
    """What ∫ S_ℓ dt from one stored time to the next is made of, by level from 0.

    ∫ S_ℓ dt = S_ℓ · (interval) before it + Σ (time left) over events that raise S_ℓ − Σ over those that lower
    it. Both sums run in the order of time, so that no bit depends on how events are grouped.
    """

    raised: NDArray[np.float64]
    lowered: NDArray[np.float64]
    before: NDArray[np.int64]  # S_ℓ at the last stored time
    S: NDArray[np.float64]  # (t, level): the integrals, of the interval that ends at t
    X: NDArray[np.float64]  # (t,): their sum over all levels


@njit(**_OPTIONS, forceinline=True)
def upcoming(events: Events, until: float) -> Any:
    """Return the number of events up to `until` and the time of the one behind them.

    The number is −1 when the gaps do not last so far, −2 when the places do not. The last is the time of the
    last event up to `until`, if there is any.
    """
    time, gap = events.time[0], events.used[0]
    last = time
    while time <= until and gap < events.gaps.size:
        last = time
        time += events.gaps[gap] * events.scale
        gap += 1
    count = gap - events.used[0]
    if time <= until:
        count = -1
    elif count > events.places.size - events.used[1]:
        count = -2
    return count, time, last


@njit(**_OPTIONS, forceinline=True)
def level_of(longer: NDArray[np.int64], place: Any) -> int:
    """Return the length of the queue at a place."""
    level = 0
    while longer[level + 1] > place:
        level += 1
    return level


@njit(**_OPTIONS)
def add_times(
    longer: NDArray[np.int64],
    events: Events,
    number: int,
    edge: float,
    sums: NDArray[np.float64],
    offset: int,
) -> None:
    """Add the time that is left after each of the next events to the sum of the level that it changes."""
    time, gap, first = events.time[0], events.used[0], events.used[1]
    for k in range(number):
        sums[level_of(longer, np.int64(events.places[first + k])) + offset] += edge - time
        time += events.gaps[gap + k] * events.scale


@njit(**_OPTIONS, forceinline=True)
def below(places: NDArray[np.uint32], bound: int) -> Any:
    """Return how many places lie below `bound`."""
    limit, count = np.uint32(min(max(bound, 0), 4294967295)), np.int32(0)
    for k in range(places.size):
        count = np.int32(count + np.int32(places[k] < limit))  # 32 bits, or half of each vector were idle
    return np.int64(count)


@njit(**_OPTIONS)
def settle(counts: Counts, arrivals: NDArray[np.uint32], completions: NDArray[np.uint32]) -> Any:
    """Sort a slot of events into `joined` and `served`; return how high, −1 if their order can matter.

    Sort the events by the counts before the slot. While all are where they were sorted, S_ℓ rises by at most
    the arrivals sorted to join a queue of length ℓ − 1, and falls by at most the completions sorted to a
    queue of length ℓ. If no place lies between these two extremes of any S_ℓ, every event is where it was
    sorted, by induction over the events in any order.
    """
    longer, joined, served = counts.longer, counts.joined, counts.served
    joined[0], served[0], top = arrivals.size, completions.size, 0
    while joined[top] + served[top] > 0:
        top += 1
        joined[top], served[top] = below(arrivals, longer[top]), below(completions, longer[top])
    served[top + 1] = 0
    for level in range(1, top + 1):
        low = longer[level] - (served[level] - served[level + 1])
        high = longer[level] + (joined[level - 1] - joined[level])
        certain = below(arrivals, low) == joined[level] == below(arrivals, high)
        if not (certain and below(completions, low) == served[level] == below(completions, high)):
            return -1
    return top


@njit(**_OPTIONS)
def apply(counts: Counts, top: int) -> None:
    """Apply a slot of events as it was sorted."""
    longer, joined, served = counts.longer, counts.joined, counts.served
    for level in range(1, top + 1):
        rise, fall = joined[level - 1] - joined[level], served[level] - served[level + 1]
        longer[level] += rise - fall
        counts.departed[level] += fall
        if rise > 0:
            counts.totals[2] = max(counts.totals[2], level)
    counts.totals[0] += joined[0]
    counts.totals[1] += served[1] if top > 0 else 0


@njit(**_OPTIONS)
def step_through(
    counts: Counts, arrivals: Events, completions: Events, number: int, edge: float, areas: Areas | None
) -> None:
    """Apply the next `number` events one by one; of simultaneous ones completions come first."""
    longer = counts.longer
    arrival, completion = arrivals.time[0], completions.time[0]
    arrived, completed = 0, 0
    for _ in range(number):
        arrives, left = arrival < completion, edge - min(arrival, completion)
        if arrives:
            place = np.int64(arrivals.places[arrivals.used[1] + arrived])
            arrival += arrivals.gaps[arrivals.used[0] + arrived] * arrivals.scale
            arrived += 1
        else:
            place = np.int64(completions.places[completions.used[1] + completed])
            completion += completions.gaps[completions.used[0] + completed] * completions.scale
            completed += 1
        level = level_of(longer, place)
        if areas is not None:
            if arrives:
                areas.raised[level + 1] += left
            else:
                areas.lowered[level] += left
        if arrives:
            longer[level + 1] += 1
            counts.totals[0] += 1
            counts.totals[2] = max(counts.totals[2], level + 1)
        elif level > 0:
            longer[level] -= 1
            counts.departed[level] += 1
            counts.totals[1] += 1


@njit(**_OPTIONS)
def store_areas(counts: Counts, areas: Areas, interval: float, row: int) -> None:
    """Write the integrals since the last stored time, and begin new ones."""
    total = 0.0
    for level in range(1, counts.totals[2] + 1):
        area = areas.before[level] * interval + (areas.raised[level] - areas.lowered[level])
        areas.raised[level], areas.lowered[level] = 0.0, 0.0
        areas.before[level] = counts.longer[level]
        total += area
        if level <= areas.S.shape[1]:
            areas.S[row, level - 1] = area
    areas.X[row] = total


@njit(**_OPTIONS)
def store(counts: Counts, tables: Tables, now: float) -> None:
    """Write the present counts to the next row of the tables."""
    row, columns = counts.totals[3], tables.S.shape[1]
    tables.R_E[row] = now - counts.arrived[0]
    tables.totals[row, 0], tables.totals[row, 1] = counts.totals[0], counts.totals[1]
    departures = 0
    for level in range(counts.longer.size - 1, 0, -1):
        departures += counts.departed[level]
        if level <= columns:
            tables.S[row, level - 1] = counts.longer[level]
            tables.D[row, level - 1] = departures
    counts.totals[3] = row + 1


@njit(**_OPTIONS)
def run(
    times: NDArray[np.float64],
    width: float,
    at_once: bool,
    widen: bool,
    clock: NDArray[np.float64],
    arrivals: Events,
    completions: Events,
    counts: Counts,
    tables: Tables,
    areas: Areas | None,
) -> int:
    """Run the network through `times` until the last or until something is used up; return the reason.

    Time goes in slots of at most `width`, cut at the stored times. Slots are applied at once where that is
    possible and `at_once` is true. The path does not depend on them.
    """
    while counts.totals[3] < times.size:
        edge = times[counts.totals[3]]
        until = min(edge, clock[0] + width)
        arriving, arrival, last = upcoming(arrivals, until)
        if arriving < 0:
            return ARRIVAL_GAPS if arriving == -1 else ARRIVAL_PLACES
        completing, completion, _ = upcoming(completions, until)
        if completing < 0:
            return COMPLETION_GAPS if completing == -1 else COMPLETION_PLACES
        if counts.totals[2] + arriving + 3 > counts.longer.size:
            return LEVELS
        first, second = arrivals.used[1], completions.used[1]
        top = -1
        if at_once:
            joins = arrivals.places[first : first + arriving]
            top = settle(counts, joins, completions.places[second : second + completing])
        if top < 0:
            step_through(counts, arrivals, completions, arriving + completing, edge, areas)
        else:
            if areas is not None:
                add_times(counts.longer, arrivals, arriving, edge, areas.raised, 1)
                add_times(counts.longer, completions, completing, edge, areas.lowered, 0)
            apply(counts, top)
        if arriving > 0:
            counts.arrived[0] = last
        arrivals.time[0], completions.time[0], clock[0] = arrival, completion, until
        arrivals.used[0] += arriving
        arrivals.used[1] += arriving
        completions.used[0] += completing
        completions.used[1] += completing
        if until == edge:
            if widen and counts.totals[2] > tables.S.shape[1]:
                return COLUMNS
            if areas is not None:
                row = counts.totals[3]
                store_areas(counts, areas, edge - (times[row - 1] if row > 0 else 0.0), row)
            store(counts, tables, edge)
    return DONE
