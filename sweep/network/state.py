"""What the kernels of the network work on: rules, random numbers, servers, event counts, snapshots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sweep.cell import Cell

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: One server: when the job in service completes (inf if none) and how many jobs are there. The two lie side
#: by side, so that a probe touches one cache line.
SERVER = np.dtype([("completion", np.float64), ("length", np.int64)], align=True)
# Kernels take the next four as arguments: compiled code that is kept on disk would not see them change.
#: Every server is advanced to each multiple of this time, in server order, whatever is stored. The order in
#: which service times are handed out, hence the path, is then a function of arrivals alone and not of the
#: horizon. Another value gives other numbers, under another `NUMBERS_VERSION`.
FLUSH_INTERVAL = 1.0
#: Servers that are advanced together: the first departures of all of them, then the second ones, and so on.
#: Another value gives other numbers as well.
FLUSH_GROUP = 256
#: Arrivals whose servers are advanced together before the first of them: at most so many, fewer where they
#: sample too many servers or are a large part of the network. Another value gives other numbers as well.
BATCH, BATCH_PROBES, BATCH_SHARE = 64, 256, 16
#: Arrivals between a server's being fetched into the cache and its being looked at.
PADDING = 96

#: Why the kernel returned: the run is over, or gaps, services, routing words, levels or room for jobs are
#: used up and the same call resumes with more of them.
DONE, NEEDS_GAPS, NEEDS_SERVICES, NEEDS_WORDS, NEEDS_LEVELS, NEEDS_JOBS = range(6)

#: Places in the arrays of `Clock`.
NOW, UNTIL, SETTLED = range(3)
ARRIVALS, SERVICES = range(2)
SERVER_AT, FIRST_BIN, BIN, LONGEST = range(4)


class Source(NamedTuple):
    """Random words drawn ahead, from generators that take turns; no words where others draw."""

    state: NDArray[np.uint64]  # a, b, c and counter of each generator, shape (4, generator)
    words: NDArray[np.uint64]
    used: Integers  # shape (1,)


class Routing(NamedTuple):
    """How an arrival samples servers, and the random words for it as 32-bit halves."""

    N: int
    d: int
    fraction: float
    replacement: bool
    halves: NDArray[np.uint32]  # room for those left over, then the halves of `source.words`
    used: Integers  # halves used up, and rows of targets that are missing
    order: NDArray[np.uint32]  # scratch of N items where more than half of the servers are sampled
    source: Source


class Rules(NamedTuple):
    """What does not change during a run."""

    gap_scale: float  # 1 / (λ N)
    interval: float  # FLUSH_INTERVAL
    group: int  # FLUSH_GROUP
    batch: int  # arrivals whose servers are advanced together
    end: float  # first multiple of the interval at or after the last stored time
    widen: bool  # return rather than count a level beyond the tables


class Draws(NamedTuple):
    """Random numbers drawn ahead: unit-mean gaps, service times, the d servers sampled by each arrival."""

    gaps: Floats
    services: Floats
    targets: NDArray[np.uint32]  # d servers a gap, one arrival after the other, and PADDING arrivals more
    d: int
    ahead: int  # PADDING · d
    least: int  # services that must be at hand
    gap_source: Source
    service_source: Source


class Clock(NamedTuple):
    """What survives between calls, in arrays that the kernel updates."""

    time: Floats  # last arrival, next flush, when the servers of the present batch are advanced to
    used: Integers  # arrivals and services used up
    place: (
        Integers  # server the flush has come to, bin of the last flush, bin and longest queue at the arrival
    )


class Bins(NamedTuple):
    """Time bins: an event at s belongs to the first k with s ≤ edges[k]; the last three edges are inf."""

    edges: Floats
    guess: Integers  # lower bound of the bin by ⌊s · scale⌋
    scale: float
    horizon: float


class Counts(NamedTuple):
    """Events by (time bin, level); the last column holds every level above those asked for."""

    arrivals: Integers  # arrivals that raise a queue to this length
    departures: Integers  # departures from a queue of this length
    last: Floats  # last arrival when a bin ended, for bins that an arrival has passed
    longest: Integers  # longest queue so far at that time


class Sums(NamedTuple):
    """For time averages: times left in the bin at the events counted in `Counts`, summed."""

    arrivals: Floats
    departures: Floats


class Jobs(NamedTuple):
    """Every job in the network that arrived after time 0, in linked lists, and sums over those that left."""

    arrived: Floats
    began: Floats
    following: Integers  # next job in the same queue, or next free place, −1 if none
    free: Integers  # first free place, shape (1,)
    first: Integers  # first and last such job of each server
    last: Integers
    old: Integers  # jobs of time 0 that are still there, by server
    left: Integers  # jobs that left, by bin
    system: Floats  # their times in system, summed
    waiting: Floats  # and their waits before service


class Watch(NamedTuple):
    """Age snapshots: age of the job in service and length of each server, shape (snapshot, N)."""

    times: Floats
    next: Floats  # the first snapshot that is not noted for every server yet, inf if none
    started: Floats  # when the job in service started
    noted: Integers  # snapshots noted so far, by server
    ages: Floats
    lengths: NDArray[np.int32]


def batch_size(N: int, d: int) -> int:
    """Arrivals whose servers are advanced together: a power of two."""
    most = max(1, min(BATCH, BATCH_PROBES // d, N // BATCH_SHARE))
    return 1 << (most.bit_length() - 1)


def least_services(N: int, d: int) -> int:
    """Services that the kernel must have at hand to go on: of a batch, or of a group of servers."""
    return max(2 * batch_size(N, d) * d, min(N, FLUSH_GROUP)) + 1


def make_rules(cell: Cell, horizon: float, widen: bool) -> Rules:
    """Rules of a run up to the first flush at or after `horizon`."""
    return Rules(
        gap_scale=1.0 / (cell.lam * cell.N),
        interval=FLUSH_INTERVAL,
        group=FLUSH_GROUP,
        batch=batch_size(cell.N, cell.d),
        end=FLUSH_INTERVAL * max(1, math.ceil(horizon / FLUSH_INTERVAL)),
        widen=widen,
    )


def make_due(N: int, d: int) -> NDArray[np.uint32]:
    """Room for the servers of a group or a batch that have a departure due, and one that has none."""
    return np.empty(max(FLUSH_GROUP, batch_size(N, d) * d) + 1, dtype=np.uint32)


def make_clock(draws: Draws, longest: int) -> Clock:
    """Clock at time 0, no number drawn yet."""
    return Clock(
        time=np.array([0.0, FLUSH_INTERVAL, 0.0]),
        used=np.array([draws.gaps.size, draws.services.size]),
        place=np.array([0, 0, 0, longest]),
    )


def make_bins(times: Floats) -> Bins:
    """Time bins that end at the stored times, and a last one beyond them."""
    horizon = float(times[-1])
    scale = 4 * times.size / horizon if horizon > 0.0 else 0.0
    if not math.isfinite(scale):  # times of 1e-308 or so: no guess then
        scale = 0.0
    # ⌊s · scale⌋ never decreases in s, rounding included: a time of an earlier bucket lies before any s here.
    bucket_of_time = (times * scale).astype(np.int64)
    guess = np.searchsorted(bucket_of_time, np.arange(bucket_of_time[-1] + 1)).astype(np.int64)
    # Two more, as kernels look that far ahead without asking.
    return Bins(edges=np.append(times, 3 * [math.inf]), guess=guess, scale=scale, horizon=horizon)


def make_counts(times: int, levels: int) -> Counts:
    """Empty tables for as many bins and one beyond, and for `levels` levels and those above."""
    arrivals, departures = (np.zeros((times + 1, levels + 1), dtype=np.int64) for _ in range(2))
    return Counts(
        arrivals=arrivals,
        departures=departures,
        last=np.full(times + 1, math.nan),
        longest=np.full(times + 1, -1, dtype=np.int64),
    )


def make_sums(counts: Counts, wanted: bool) -> Sums | None:
    """Tables of the shape of the counts, or None: the kernel is compiled without them then."""
    return Sums(*(np.zeros(counts.arrivals.shape) for _ in range(2))) if wanted else None


def make_watch(N: int, snapshots: Floats) -> Watch | None:
    """Room for the snapshots, or None if there are none: the kernel is compiled without them then."""
    if snapshots.size == 0:
        return None
    return Watch(
        times=snapshots,
        next=snapshots[:1].copy(),
        started=np.zeros(N),
        noted=np.zeros(N, dtype=np.int64),
        ages=np.zeros((snapshots.size, N)),
        lengths=np.zeros((snapshots.size, N), dtype=np.int32),
    )


def make_jobs(lengths: NDArray[np.int32], times: int, room: int) -> Jobs:
    """Room for as many jobs that arrive; `lengths` are those of the queues at time 0."""
    first, last = (np.zeros(lengths.size, dtype=np.int64) for _ in range(2))
    system, waiting = (np.zeros(times + 1) for _ in range(2))
    return Jobs(
        arrived=np.zeros(room),
        began=np.zeros(room),
        following=np.append(np.arange(1, room), -1),
        free=np.zeros(1, dtype=np.int64),
        first=first,
        last=last,
        old=lengths.astype(np.int64),
        left=np.zeros(times + 1, dtype=np.int64),
        system=system,
        waiting=waiting,
    )


def with_room(jobs: Jobs) -> Jobs:
    """Return the same jobs, of which no place is free, with as many places more."""
    room = jobs.arrived.size
    jobs.free[0] = room
    return jobs._replace(
        arrived=np.pad(jobs.arrived, (0, room)),
        began=np.pad(jobs.began, (0, room)),
        following=np.concatenate([jobs.following, np.arange(room + 1, 2 * room), [-1]]),
    )
