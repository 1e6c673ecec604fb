"""Compiled parts of the N-server network when an arrival sees all queues: departures in time order, joins.

The servers stand in a row, longest queue first: place p holds a queue of length ≥ ℓ iff p < S_ℓ. An event
changes one length by one, so the row is put right by exchanging two servers. A routing rule is a loop over
`advance` and `join` with a choice in between; those of this package are in `rule_kernels`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep.network.place_kernels import Sampling, uniform

# Nothing is allocated here and no array kept. Counting references would cost more than the events.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}

#: Why a loop returned: it has come to `until`; a buffer of gaps, services or words is used up; the counts of
#: levels, or the entries for jobs, do not suffice. The same call resumes.
DONE, NEEDS_GAPS, NEEDS_SERVICES, NEEDS_WORDS, NEEDS_LEVELS, NEEDS_JOBS = range(6)
#: Places in `Network.used`: gaps, services, words.
GAPS, SERVICES, WORDS = range(3)
#: Places in `Network.totals`: arrivals so far, shortest queue, longest queue so far, busy servers, time bin,
#: the reason for which the loop returned.
ARRIVED, SHORTEST, LONGEST, BUSY, BIN, REASON = range(6)
_CHILDREN = 4


class Jobs(NamedTuple):
    """Jobs present, one list a queue, where their times are measured; else all arrays are empty."""

    arrived: NDArray[np.float64]  # when, by entry; −inf where a job was there at time 0
    behind: NDArray[np.int64]  # the entry of the job behind it, or the next free entry; −1 for none
    first: NDArray[np.int64]  # entry of the job in service, by server
    last: NDArray[np.int64]
    free: NDArray[np.int64]  # (1,): the first free entry
    left: NDArray[np.float64]  # (bin, 3): jobs that left, their times in system and their waits, summed


class Network(NamedTuple):
    """State of the network, random numbers drawn ahead, and counts of events, in arrays updated in place."""

    sampling: Sampling
    gaps: NDArray[np.float64]
    services: NDArray[np.float64]
    words: NDArray[np.uint32]
    used: NDArray[np.int64]
    time: NDArray[np.float64]  # the last arrival, and the time to stop at
    scale: float  # mean gap, 1 / (λ N)
    lengths: NDArray[np.int32]
    started: NDArray[np.float64]  # when the job in service started
    row: NDArray[np.uint32]  # the server at each place
    place: NDArray[np.uint32]  # the place of each server
    longer: NDArray[np.int64]  # S_ℓ from ℓ = 0 on
    due: NDArray[np.float64]  # heap of completion times, ties by server
    server: NDArray[np.uint32]  # whose they are
    totals: NDArray[np.int64]
    edges: NDArray[np.float64]  # an event at s belongs to the first bin k with s ≤ edges[k]; the last is inf
    arrivals: NDArray[np.int64]  # (bin, level) that raise a queue to this length, last column all above
    departures: NDArray[np.int64]  # (bin, level) from a queue of this length
    raised: NDArray[np.float64]  # (bin, level) time left in the bin, summed over those arrivals; or no rows
    lowered: NDArray[np.float64]  # the same of those departures
    sums: NDArray[np.float64]  # (bin, 2): both over all levels, in the order of time
    last: NDArray[np.float64]  # (bin,): the last arrival, −inf if there is none
    jobs: Jobs


@njit(**OPTIONS, forceinline=True)
def precedes(network: Network, place: int, time: float, server: Any) -> bool:
    """Whether the completion at a place of the heap comes before another one."""
    due = network.due[place]
    return bool(due < time or (due == time and network.server[place] < server))


@njit(**OPTIONS, forceinline=True)
def rise(network: Network, hole: int, time: float, server: Any) -> None:
    """Put a completion into the heap at a hole or above."""
    while hole > 0:
        parent = (hole - 1) // _CHILDREN
        if precedes(network, parent, time, server):
            break
        network.due[hole], network.server[hole] = network.due[parent], network.server[parent]
        hole = parent
    network.due[hole], network.server[hole] = time, server


@njit(**OPTIONS, forceinline=True)
def fall(network: Network, size: int, time: float, server: Any) -> None:
    """Put a completion into the heap instead of the first.

    A fresh service mostly ends late: the hole goes down to a leaf without asking, and the completion rises.
    """
    hole, child = 0, 1
    while child < size:
        best = child
        for other in range(child + 1, min(child + _CHILDREN, size)):
            if precedes(network, other, network.due[best], network.server[best]):
                best = other
        network.due[hole], network.server[hole] = network.due[best], network.server[best]
        hole, child = best, _CHILDREN * best + 1
    rise(network, hole, time, server)


@njit(**OPTIONS, forceinline=True)
def exchange(network: Network, server: Any, place: Any) -> None:
    """Move a server to a place in the row, and the one that is there to where it was."""
    left = network.place[server]
    other = network.row[place]
    network.row[left], network.place[other] = other, left
    network.row[place], network.place[server] = server, place


@njit(**OPTIONS, forceinline=True)
def bin_of(network: Network, instant: float) -> Any:
    """Return the time bin of an event; events come in the order of time."""
    place = network.totals[BIN]
    while network.edges[place] < instant:
        place += 1
    network.totals[BIN] = place
    return place


@njit(**OPTIONS, forceinline=True)
def take_off(network: Network, server: Any, time: float, k: Any) -> None:
    """Measure the job that leaves a server in a bin."""
    jobs = network.jobs
    entry = jobs.first[server]
    arrived = jobs.arrived[entry]
    jobs.first[server], jobs.behind[entry], jobs.free[0] = jobs.behind[entry], jobs.free[0], entry
    if arrived >= 0.0:
        jobs.left[k, 0] += 1.0
        jobs.left[k, 1] += time - arrived
        jobs.left[k, 2] += network.started[server] - arrived


@njit(**OPTIONS, forceinline=True)
def put_behind(network: Network, server: Any, time: float, length: Any) -> None:
    """Note the job that arrives at a server with so many others; an entry must be free."""
    jobs = network.jobs
    entry = jobs.free[0]
    jobs.free[0], jobs.behind[entry], jobs.arrived[entry] = jobs.behind[entry], -1, time
    if length > 0:
        jobs.behind[jobs.last[server]] = entry
    else:
        jobs.first[server] = entry
    jobs.last[server] = entry


@njit(**OPTIONS, forceinline=True)
def depart(network: Network) -> None:
    """Apply the first departure of the heap; a service must be at hand."""
    totals, time, server = network.totals, network.due[0], network.server[0]
    length = np.int64(network.lengths[server])
    column = min(length, network.departures.shape[1]) - 1
    k = bin_of(network, time)
    network.departures[k, column] += 1
    if network.lowered.shape[0] > 0:
        left = network.edges[k] - time
        network.lowered[k, column] += left
        network.sums[k, 1] += left
    if network.jobs.free.size > 0:
        take_off(network, server, time, k)
    network.longer[length] -= 1
    exchange(network, server, network.longer[length])
    network.lengths[server] = length - 1
    network.started[server] = time
    totals[SHORTEST] = min(totals[SHORTEST], length - 1)
    if length > 1:
        following = time + network.services[network.used[SERVICES]]
        network.used[SERVICES] += 1
        fall(network, totals[BUSY], following, server)
    else:
        totals[BUSY] -= 1
        last = totals[BUSY]
        if last > 0:
            fall(network, last, network.due[last], network.server[last])


@njit(**OPTIONS, forceinline=True)
def advance(network: Network) -> bool:
    """Apply all departures up to the next arrival; return whether that comes, and can be applied, now."""
    totals, used = network.totals, network.used
    if used[GAPS] == network.gaps.size:
        totals[REASON] = NEEDS_GAPS
        return False
    arrival, until = network.time[0] + network.gaps[used[GAPS]] * network.scale, network.time[1]
    last = min(arrival, until)
    while used[SERVICES] < network.services.size and totals[BUSY] > 0 and network.due[0] <= last:
        depart(network)
    reason = NEEDS_SERVICES
    if used[SERVICES] < network.services.size:
        wide = totals[LONGEST] + 3 > network.longer.size
        reason = NEEDS_LEVELS if wide else DONE
        if not wide and network.jobs.free.size > 0 and network.jobs.free[0] < 0:
            reason = NEEDS_JOBS
    totals[REASON] = reason
    return reason == DONE and arrival <= until


@njit(**OPTIONS, forceinline=True)
def join(network: Network, server: Any, word: int) -> bool:
    """Let the arrival that `advance` stopped at join a queue; return False if the words ran dry before.

    `word` is the next unused one: beyond the end, nothing is done and the arrival will choose again.
    """
    totals = network.totals
    if word > network.words.size:
        totals[REASON] = NEEDS_WORDS
        return False
    arrival = network.time[0] + network.gaps[network.used[GAPS]] * network.scale
    network.time[0] = arrival
    network.used[GAPS] += 1
    network.used[WORDS] = word
    length = np.int64(network.lengths[server])
    column = min(length, network.arrivals.shape[1] - 1)
    k = bin_of(network, arrival)
    network.arrivals[k, column] += 1
    network.last[k] = arrival
    if network.raised.shape[0] > 0:
        left = network.edges[k] - arrival
        network.raised[k, column] += left
        network.sums[k, 0] += left
    if network.jobs.free.size > 0:
        put_behind(network, server, arrival, length)
    totals[ARRIVED] += 1
    exchange(network, server, network.longer[length + 1])
    network.longer[length + 1] += 1
    network.lengths[server] = length + 1
    totals[LONGEST] = max(totals[LONGEST], length + 1)
    while network.longer[totals[SHORTEST] + 1] == network.row.size:
        totals[SHORTEST] += 1
    if length == 0:
        network.started[server] = arrival
        service = network.services[network.used[SERVICES]]
        network.used[SERVICES] += 1
        rise(network, totals[BUSY], arrival + service, np.uint32(server))
        totals[BUSY] += 1
    return True


@njit(**OPTIONS, forceinline=True)
def any_of_length(network: Network, length: Any, word: int) -> Any:
    """Return a uniform server among the queues of one length, and the next unused word."""
    first = network.longer[length + 1]
    offset, word = uniform(network.words, word, np.uint64(network.longer[length] - first))
    return network.row[first + offset], word
