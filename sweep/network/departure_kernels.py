"""Compiled departures of the N-server network, and what is noted and counted of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep.network.state import Bins, Counts, Jobs, Sums, Watch

# Kernels allocate nothing and keep no array. Counting references would cost ten times what the events do.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_ONE = np.uint64(1)


@njit(**OPTIONS, forceinline=True)
def note(watch: Watch, servers: NDArray[Any], i: Any, until: float, inclusive: bool) -> None:
    """Note age and length of server i at every snapshot before `until` that is not noted yet."""
    if until < watch.next[0]:
        return
    k = watch.noted[i]
    while k < watch.times.size and (watch.times[k] < until or (inclusive and watch.times[k] == until)):
        watch.lengths[k, i] = servers[i]["length"]
        watch.ages[k, i] = watch.times[k] - watch.started[i]
        k += 1
    watch.noted[i] = k


@njit(**OPTIONS, forceinline=True)
def take_in(jobs: Jobs, i: Any, arrival: float, length: Any) -> None:
    """Add the job that joins queue i of `length` jobs at `arrival`; a place for it is free."""
    job = jobs.free[0]
    jobs.free[0] = jobs.following[job]
    jobs.arrived[job] = arrival
    jobs.began[job] = arrival
    if jobs.old[i] == length:
        jobs.first[i] = job
    else:
        jobs.following[jobs.last[i]] = job
    jobs.last[i] = job


@njit(**OPTIONS, forceinline=True)
def let_go(jobs: Jobs, i: Any, completion: float, length: Any, k: Any) -> None:
    """Take the first job out of queue i of `length` jobs at `completion`, in bin k; the next one begins."""
    if jobs.old[i] > 0:
        jobs.old[i] -= 1
    else:
        job = jobs.first[i]
        jobs.left[k] += 1
        jobs.system[k] += completion - jobs.arrived[job]
        jobs.waiting[k] += jobs.began[job] - jobs.arrived[job]
        jobs.first[i] = jobs.following[job]
        jobs.following[job] = jobs.free[0]
        jobs.free[0] = job
    if length > 1 and jobs.old[i] == 0:
        jobs.began[jobs.first[i]] = completion


@njit(**OPTIONS, forceinline=True)
def bin_of(bins: Bins, instant: float, first: Any, dense: bool) -> Any:
    """Return the time bin of an instant after the last flush, which was in bin `first`.

    With at most two edges up to the next flush, no branch and no guess is needed.
    """
    if not dense:
        return first + np.uint64(bins.edges[first] < instant) + np.uint64(bins.edges[first + _ONE] < instant)
    k = np.uint64(bins.guess[np.int64(min(instant, bins.horizon) * bins.scale)])
    # One step without a branch, as it is a coin toss; on an even grid there is no second.
    k += np.uint64(bins.edges[k] < instant)
    while bins.edges[k] < instant:
        k += _ONE
    return k


@njit(**OPTIONS, forceinline=True)
def depart(
    servers: NDArray[Any],
    services: NDArray[np.float64],
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    sums: Sums | None,
    jobs: Jobs | None,
    i: Any,
    service: Any,
    first: Any,
    dense: bool,
) -> Any:
    """Apply and count the next departure of server i, which is due; return the next unused service.

    Nothing else can have touched the queue since, so the length before the departure is exact.
    """
    completion, length = servers[i]["completion"], servers[i]["length"]
    if watch is not None:
        note(watch, servers, i, completion, False)
        watch.started[i] = completion
    k = bin_of(bins, completion, first, dense)
    level = np.uint64(min(length, counts.departures.shape[1]) - 1)
    counts.departures[k, level] += 1
    if sums is not None:
        sums.departures[k, level] += bins.edges[k] - completion
    if jobs is not None:
        let_go(jobs, i, completion, length, k)
    following = completion + services[service]
    servers[i]["completion"] = following if length > 1 else np.inf
    servers[i]["length"] = length - 1
    return service + np.uint64(length > 1)
