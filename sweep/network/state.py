"""What the kernels of the network work on: rules, random numbers, servers, event counts, snapshots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sweep.cell import Cell

#: One server: when the job in service completes (inf if none) and how many jobs are there. The two lie side
#: by side, so that a probe touches one cache line.
SERVER = np.dtype([("completion", np.float64), ("length", np.int64)], align=True)
# The kernel takes these two as arguments: compiled code that is kept on disk would not see them change.
#: Every server is advanced to each multiple of this time, in server order, whatever is stored. The order in
#: which service times are handed out, hence the path, is then a function of arrivals alone and not of the
#: horizon. Another value gives other numbers, under another `NUMBERS_VERSION`.
FLUSH_INTERVAL = 1.0
#: Servers that are advanced together: the first departures of all of them, then the second ones, and so on.
#: Another value gives other numbers as well.
FLUSH_GROUP = 256
#: Arrivals between a server's being fetched into the cache and its being probed; a buffer of targets goes on
#: for as many arrivals, read ahead but never used.
PADDING = 48

#: Departures noted before they are counted: few enough to stay in the fastest cache.
LOG = 1024

#: Why the kernel returned: the run is over, or random numbers or levels are used up and the same call resumes
#: with more of them.
DONE, NEEDS_DRAWS, NEEDS_LEVELS = 0, 1, 2


class Routing(NamedTuple):
    """How an arrival samples servers."""

    N: int
    d: int
    fraction: float
    replacement: bool
    rows: int  # arrivals to route


class Rules(NamedTuple):
    """What does not change during a run."""

    gap_scale: float  # 1 / (λ N)
    interval: float  # FLUSH_INTERVAL
    end: float  # first multiple of it at or after the last stored time
    widen: bool  # return rather than count a level beyond the tables


class Draws(NamedTuple):
    """Random numbers drawn ahead: unit-mean gaps, service times, the d servers sampled by each arrival."""

    gaps: NDArray[np.float64]
    services: NDArray[np.float64]
    targets: NDArray[np.uint32]  # d servers a gap, one arrival after the other
    d: int
    ahead: int  # PADDING · d


class Clock(NamedTuple):
    """What survives between calls, in arrays that the kernel updates."""

    time: NDArray[np.float64]  # last arrival, next flush
    used: NDArray[np.int64]  # arrivals and services used up
    place: NDArray[np.int64]  # server the flush has come to


class Bins(NamedTuple):
    """Time bins: an event at s belongs to the first k with s ≤ edges[k]; the last edge is inf."""

    edges: NDArray[np.float64]
    guess: NDArray[np.int64]  # lower bound of the bin by ⌊s · scale⌋
    scale: float
    horizon: float


class Counts(NamedTuple):
    """Events by (time bin, level); the last column holds every level above those asked for."""

    arrivals: NDArray[np.int64]  # arrivals that raise a queue to this length
    departures: NDArray[np.int64]  # departures from a queue of this length


class Scratch(NamedTuple):
    """What the kernel writes for itself alone."""

    log: NDArray[Any]  # departures not counted yet, as the server was before: completion, length
    due: NDArray[np.uint32]  # servers of a group that have a departure due


class Watch(NamedTuple):
    """Age snapshots: age of the job in service and length of each server, shape (snapshot, N)."""

    times: NDArray[np.float64]
    next: NDArray[np.float64]  # the first snapshot that is not noted for every server yet, inf if none
    started: NDArray[np.float64]  # when the job in service started
    noted: NDArray[np.int64]  # snapshots noted so far, by server
    ages: NDArray[np.float64]
    lengths: NDArray[np.int32]


def make_rules(cell: Cell, horizon: float, widen: bool) -> Rules:
    """Rules of a run up to the first flush at or after `horizon`."""
    end = FLUSH_INTERVAL * max(1, math.ceil(horizon / FLUSH_INTERVAL))
    return Rules(gap_scale=1.0 / (cell.lam * cell.N), interval=FLUSH_INTERVAL, end=end, widen=widen)


def least_services(N: int, d: int) -> int:
    """Services that a kernel must have at hand to go on: of an arrival, or of a group of servers."""
    return max(d + 1, min(N, FLUSH_GROUP))


def make_scratch(N: int, d: int) -> Scratch:
    """Scratch for N servers of which an arrival samples d."""
    log = np.empty(max(LOG, least_services(N, d)), dtype=SERVER)
    return Scratch(log=log, due=np.empty(FLUSH_GROUP, dtype=np.uint32))


def make_clock(draws: Draws) -> Clock:
    """Clock at time 0, no number drawn yet."""
    return Clock(
        time=np.array([0.0, FLUSH_INTERVAL]),
        used=np.array([draws.gaps.size, draws.services.size]),
        place=np.zeros(1, dtype=np.int64),
    )


def make_bins(times: NDArray[np.float64]) -> Bins:
    """Time bins that end at the stored times, and a last one beyond them."""
    horizon = float(times[-1])
    scale = 4 * times.size / horizon if horizon > 0.0 else 0.0
    # ⌊s · scale⌋ never decreases in s, rounding included: a time of an earlier bucket lies before any s here.
    bucket_of_time = (times * scale).astype(np.int64)
    guess = np.searchsorted(bucket_of_time, np.arange(bucket_of_time[-1] + 1)).astype(np.int64)
    return Bins(edges=np.append(times, math.inf), guess=guess, scale=scale, horizon=horizon)


def make_counts(bins: Bins, levels: int) -> Counts:
    """Empty tables for `levels` levels and those above."""
    arrivals, departures = (np.zeros((bins.edges.size, levels + 1), dtype=np.int64) for _ in range(2))
    return Counts(arrivals=arrivals, departures=departures)


def make_watch(N: int, snapshots: NDArray[np.float64]) -> Watch | None:
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


def make_servers(lengths: NDArray[np.int32], services: NDArray[np.float64]) -> NDArray[Any]:
    """Servers at time 0: `services` are the service times of the busy ones, which come first."""
    servers = np.empty(lengths.size, dtype=SERVER)
    servers["length"] = lengths
    servers["completion"] = math.inf
    servers["completion"][: services.size] = services
    return servers
