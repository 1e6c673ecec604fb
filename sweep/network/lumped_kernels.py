"""Compiled loops of the network lumped to level counts: places of events, slots applied at once.

Stand the servers in a row, longest queue first, and number their places from 0: place p holds a queue of
length ≥ ℓ iff p < S_ℓ, and the shortest of some sampled queues is the one at the last sampled place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_LOW_HALF, _HALF, _WORDS = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1 << 32)

#: Events whose places are drawn together: another number gives other paths, under another `NUMBERS_VERSION`.
GROUP = 32
#: Why `run` returned: all times are stored; a buffer of arrivals or of completions is used up; the level
#: counts or the columns of the tables do not suffice.
DONE, ARRIVAL_GAPS, ARRIVAL_PLACES, COMPLETION_GAPS, COMPLETION_PLACES, LEVELS, COLUMNS = range(7)


class Sampling(NamedTuple):
    """How the place of an event is chosen: the last of d places of N."""

    N: int
    d: int
    fraction: float
    replacement: bool


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
    joined: NDArray[np.int64]  # scratch: places of arrivals of a slot, below S_ℓ
    served: NDArray[np.int64]  # scratch: places of completions of a slot, below S_ℓ


class Tables(NamedTuple):
    """What is stored at each time: S_ℓ and D_ℓ for ℓ ≥ 1, (t, level); arrivals and departures, (t, 2)."""

    S: NDArray[np.int64]
    D: NDArray[np.int64]
    totals: NDArray[np.int64]


@njit(**_OPTIONS, forceinline=True)
def uniform(words: NDArray[np.uint32], word: int, bound: Any) -> Any:
    """Return a uniform index below `bound` and the next unused word, beyond the end if words ran dry.

    Multiply-shift with exact rejection (D. Lemire, Fast random integer generation in an interval, 2019).
    """
    while word < words.size:
        product = np.uint64(words[word]) * bound
        low = product & _LOW_HALF
        word += 1
        if low >= bound or low >= _WORDS % bound:
            return np.int64(product >> _HALF), word
    return np.int64(0), word + 1


@njit(**_OPTIONS, forceinline=True)
def last_distinct(words: NDArray[np.uint32], word: int, N: int, d: int) -> Any:
    """Return the last of d distinct places and the next unused word.

    Of the N − k places that are left after k draws, those behind the last one drawn so far are all of the
    places behind it. Let the draw v be uniform below N − k: as many values of v + k are larger than the last
    place as there are places behind it, and the others leave the maximum as it is. For large d it is faster
    to go down from the end, as place p is among d of p + 1 with probability d/(p + 1).
    """
    place = 0
    if d * d <= N:
        for k in range(d):
            draw, word = uniform(words, word, np.uint64(N - k))
            place = max(place, draw + k)
        return place, word
    place = N - 1
    draw, word = uniform(words, word, np.uint64(N))
    while draw >= d and word <= words.size:
        place -= 1
        draw, word = uniform(words, word, np.uint64(place + 1))
    return place, word


@njit(**_OPTIONS, forceinline=True)
def sample_plainly(sampling: Sampling, words: NDArray[np.uint32], places: NDArray[np.uint32]) -> Any:
    """Fill `places` with the last of d places each if no word is near rejection, else return False.

    Distinct places are drawn as in `last_distinct`. The k-th words of all events come before the (k+1)-th:
    the loop runs on vectors.
    """
    least = _LOW_HALF
    places[:] = 0
    for k in range(sampling.d):
        taken = 0 if sampling.replacement else k
        bound, offset = np.uint64(sampling.N - taken), np.uint32(taken)
        row = words[k * GROUP : (k + 1) * GROUP]
        for event in range(GROUP):
            product = np.uint64(row[event]) * bound
            places[event] = max(places[event], np.uint32(product >> _HALF) + offset)
            least = min(least, product & _LOW_HALF)
    return least >= np.uint64(sampling.N)


@njit(**_OPTIONS)
def sample_one(sampling: Sampling, words: NDArray[np.uint32], word: int) -> Any:
    """Return the place of one event and the next unused word, beyond the end if words ran dry."""
    choices = sampling.d if sampling.fraction > 0.0 else 1
    if 0.0 < sampling.fraction < 1.0:
        if word + 2 > words.size:
            return 0, words.size + 1
        # 53 bits of two words: a uniform number below 2⁵³, compared exactly.
        coin = np.float64(words[word] >> 5) * 67108864.0 + np.float64(words[word + 1] >> 6)
        word += 2
        choices = sampling.d if coin < sampling.fraction * 9007199254740992.0 else 1
    if not sampling.replacement and choices > 1:
        return last_distinct(words, word, sampling.N, choices)
    place = 0
    for _ in range(choices):
        draw, word = uniform(words, word, np.uint64(sampling.N))
        place = max(place, draw)
    return place, word


@njit(**_OPTIONS)
def sample_places(sampling: Sampling, words: NDArray[np.uint32], places: NDArray[np.uint32]) -> Any:
    """Turn words into the places of whole groups of events as far as both last; return how many are used."""
    one_by_one = sampling.replacement or sampling.d * sampling.d <= sampling.N
    plain = sampling.d == 1 or (sampling.fraction == 1.0 and one_by_one)
    word, filled = 0, 0
    while filled + GROUP <= places.size:
        start, group = word, places[filled : filled + GROUP]
        if plain:
            word += GROUP * sampling.d
            if word > words.size:
                return filled, start
            if sample_plainly(sampling, words[start:word], group):
                filled += GROUP
                continue
            word = start
        for event in range(GROUP):
            group[event], word = sample_one(sampling, words, word)
        if word > words.size:
            return filled, start
        filled += GROUP
    return filled, word


@njit(**_OPTIONS, forceinline=True)
def upcoming(events: Events, until: float) -> Any:
    """Return the number of events up to `until` and the time of the one behind them.

    The number is −1 when the gaps do not last so far, −2 when the places do not.
    """
    time, gap = events.time[0], events.used[0]
    while time <= until and gap < events.gaps.size:
        time += events.gaps[gap] * events.scale
        gap += 1
    count = gap - events.used[0]
    if time <= until:
        count = -1
    elif count > events.places.size - events.used[1]:
        count = -2
    return count, time


@njit(**_OPTIONS, forceinline=True)
def below(places: NDArray[np.uint32], bound: int) -> Any:
    """Return how many places lie below `bound`."""
    limit, count = np.uint32(min(max(bound, 0), 4294967295)), np.int32(0)
    for k in range(places.size):
        count = np.int32(count + np.int32(places[k] < limit))  # 32 bits, or half of each vector were idle
    return np.int64(count)


@njit(**_OPTIONS)
def settle(counts: Counts, arrivals: NDArray[np.uint32], completions: NDArray[np.uint32]) -> bool:
    """Apply a slot of events at once if their order cannot matter; return whether it was done.

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
            return False
    for level in range(1, top + 1):
        rise, fall = joined[level - 1] - joined[level], served[level] - served[level + 1]
        longer[level] += rise - fall
        counts.departed[level] += fall
        if rise > 0:
            counts.totals[2] = max(counts.totals[2], level)
    counts.totals[0] += arrivals.size
    counts.totals[1] += served[1] if top > 0 else 0
    return True


@njit(**_OPTIONS)
def step_through(counts: Counts, arrivals: Events, completions: Events, number: int) -> None:
    """Apply the next `number` events one by one; of simultaneous ones completions come first."""
    longer = counts.longer
    arrival, completion = arrivals.time[0], completions.time[0]
    arrived, completed = 0, 0
    for _ in range(number):
        arrives = arrival < completion
        if arrives:
            place = np.int64(arrivals.places[arrivals.used[1] + arrived])
            arrival += arrivals.gaps[arrivals.used[0] + arrived] * arrivals.scale
            arrived += 1
        else:
            place = np.int64(completions.places[completions.used[1] + completed])
            completion += completions.gaps[completions.used[0] + completed] * completions.scale
            completed += 1
        level = 0
        while longer[level + 1] > place:
            level += 1
        if arrives:
            longer[level + 1] += 1
            counts.totals[0] += 1
            counts.totals[2] = max(counts.totals[2], level + 1)
        elif level > 0:
            longer[level] -= 1
            counts.departed[level] += 1
            counts.totals[1] += 1


@njit(**_OPTIONS)
def store(counts: Counts, tables: Tables) -> None:
    """Write the present counts to the next row of the tables."""
    row, columns = counts.totals[3], tables.S.shape[1]
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
) -> int:
    """Run the network through `times` until the last or until something is used up; return the reason.

    Time goes in slots of at most `width`, cut at the stored times. Slots are applied at once where that is
    possible and `at_once` is true. The path does not depend on them.
    """
    while counts.totals[3] < times.size:
        edge = times[counts.totals[3]]
        until = min(edge, clock[0] + width)
        arriving, arrival = upcoming(arrivals, until)
        if arriving < 0:
            return ARRIVAL_GAPS if arriving == -1 else ARRIVAL_PLACES
        completing, completion = upcoming(completions, until)
        if completing < 0:
            return COMPLETION_GAPS if completing == -1 else COMPLETION_PLACES
        if counts.totals[2] + arriving + 3 > counts.longer.size:
            return LEVELS
        first, second = arrivals.used[1], completions.used[1]
        if not (
            at_once
            and settle(
                counts,
                arrivals.places[first : first + arriving],
                completions.places[second : second + completing],
            )
        ):
            step_through(counts, arrivals, completions, arriving + completing)
        arrivals.time[0], completions.time[0], clock[0] = arrival, completion, until
        arrivals.used[0] += arriving
        arrivals.used[1] += arriving
        completions.used[0] += completing
        completions.used[1] += completing
        if until == edge:
            if widen and counts.totals[2] > tables.S.shape[1]:
                return COLUMNS
            store(counts, tables)
    return DONE
