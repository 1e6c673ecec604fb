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
#: Arrivals between a server's being fetched into the cache and its being probed; a buffer of targets goes on
#: for as many arrivals, read ahead but never used.
PADDING = 48

#: Why the kernel returned: the run is over, or a buffer is used up and the same call resumes with a fuller
#: one.
DONE, NEEDS_GAPS, NEEDS_SERVICES, NEEDS_TARGETS, NEEDS_LEVELS = 0, 1, 2, 3, 4


class Routing(NamedTuple):
    """How an arrival samples servers."""

    N: int
    d: int
    fraction: float
    replacement: bool
    rows: int  # arrivals that the buffer of targets takes, PADDING not counted


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
    targets: NDArray[np.uint32]  # d servers an arrival, one arrival after the other
    rows: int  # arrivals in `targets`
    d: int
    ahead: int  # PADDING · d


class Clock(NamedTuple):
    """What survives between calls, in arrays that the kernel updates."""

    time: NDArray[np.float64]  # last arrival, next flush
    used: NDArray[np.int64]  # gaps, services and rows of targets used up
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


class Watch(NamedTuple):
    """Age snapshots: age of the job in service and length of each server, shape (snapshot, N)."""

    times: NDArray[np.float64]
    started: NDArray[np.float64]  # when the job in service started
    noted: NDArray[np.int64]  # snapshots noted so far, by server
    ages: NDArray[np.float64]
    lengths: NDArray[np.int32]


def make_rules(cell: Cell, horizon: float, widen: bool) -> Rules:
    """Rules of a run up to the first flush at or after `horizon`."""
    end = FLUSH_INTERVAL * max(1, math.ceil(horizon / FLUSH_INTERVAL))
    return Rules(gap_scale=1.0 / (cell.lam * cell.N), interval=FLUSH_INTERVAL, end=end, widen=widen)


def make_clock() -> Clock:
    """Clock at time 0, nothing drawn."""
    return Clock(
        time=np.array([0.0, FLUSH_INTERVAL]),
        used=np.zeros(3, dtype=np.int64),
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
