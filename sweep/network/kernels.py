"""Compiled loops of the N-server network: arrivals, and the departures found at their probes."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from sweep.network.state import (
    DONE,
    NEEDS_DRAWS,
    NEEDS_LEVELS,
    Bins,
    Clock,
    Counts,
    Draws,
    Rules,
    Scratch,
    Watch,
)

# Kernels allocate nothing and keep no array. Counting references would cost ten times what the events do.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_ONE = np.uint64(1)


def prefetch(servers: NDArray[Any], index: Any) -> None:
    """Ask for a server to be brought into the cache: compiled code only, without effect on any result."""


@intrinsic
def _prefetch_record(typingctx: Any, servers: Any, index: Any) -> Any:  # noqa: ARG001  numba's own signature
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = context.cast(builder, args[1], signature.args[1], types.intp)
        pointer = builder.bitcast(builder.gep(array.data, [place]), cgutils.voidptr_t)
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, shape, "llvm.prefetch.p0"
        )
        for_write, keep, data = (context.get_constant(types.int32, value) for value in (1, 3, 1))
        builder.call(function, [pointer, for_write, keep, data])
        return context.get_dummy_value()

    return types.void(servers, index), generate


@overload(prefetch)
def _prefetch_compiled(servers: Any, index: Any) -> Any:  # noqa: ARG001  numba reads the signature
    def compiled(servers: Any, index: Any) -> Any:
        return _prefetch_record(servers, index)  # type: ignore[call-arg]  # numba passes the first

    return compiled


@njit(**_OPTIONS)
def tally(bins: Bins, departures: NDArray[np.int64], log: NDArray[Any], logged: Any) -> None:
    """Count the logged departures (time, length before) by time bin and level."""
    columns = departures.shape[1]
    for j in range(logged):
        instant = log[j]["completion"]
        k = np.uint64(bins.guess[np.int64(min(instant, bins.horizon) * bins.scale)])
        # One step without a branch, as it is a coin toss; on an even grid there is no second.
        k += np.uint64(bins.edges[k] < instant)
        while bins.edges[k] < instant:
            k += _ONE
        departures[k, np.uint64(min(log[j]["length"], columns) - 1)] += 1


@njit(**_OPTIONS, forceinline=True)
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


@njit(**_OPTIONS, forceinline=True)
def depart(
    servers: NDArray[Any],
    services: NDArray[np.float64],
    log: NDArray[Any],
    watch: Watch | None,
    i: Any,
    service: Any,
    logged: Any,
) -> Any:
    """Apply the next departure of server i, which is due; return the next unused service and log entry.

    Nothing else can have touched the queue since, so the length before the departure is exact.
    """
    completion, length = servers[i]["completion"], servers[i]["length"]
    if watch is not None:
        note(watch, servers, i, completion, False)
        watch.started[i] = completion
    log[logged]["completion"] = completion
    log[logged]["length"] = length
    following = completion + services[service]
    servers[i]["completion"] = following if length > 1 else np.inf
    servers[i]["length"] = length - 1
    return service + np.uint64(length > 1), logged + _ONE


@njit(**_OPTIONS, forceinline=True)
def depart_if_due(
    servers: NDArray[Any],
    services: NDArray[np.float64],
    log: NDArray[Any],
    watch: Watch | None,
    i: Any,
    now: float,
    service: Any,
    logged: Any,
) -> Any:
    """Do the work of `depart` if a departure of server i is due at `now`.

    Written without branches: whether a probed server has one due is a coin toss that no processor predicts.
    """
    completion, length = servers[i]["completion"], servers[i]["length"]
    due = completion <= now
    if watch is not None and due:
        note(watch, servers, i, completion, False)
        watch.started[i] = completion
    log[logged]["completion"] = completion
    log[logged]["length"] = length
    following = completion + services[service]
    following = following if length > 1 else np.inf
    servers[i]["completion"] = following if due else completion
    servers[i]["length"] = length - np.int64(due)
    return service + np.uint64(due & (length > 1)), logged + np.uint64(due)


@njit(**_OPTIONS)
def flush(draws: Draws, clock: Clock, watch: Watch | None, servers: NDArray[Any], scratch: Scratch) -> Any:
    """Advance servers to the next flush, by groups, while services and log last; return departures logged.

    A group is left as it is when either may not last for all that are due; the next call finds the same ones
    due, so services are handed out in the same order. The servers due are collected first, without branches.
    """
    until, due = clock.time[1], scratch.due
    service, logged = np.uint64(clock.used[1]), np.uint64(0)
    begin, size = np.uint64(clock.place[0]), np.uint64(servers.size)
    while begin < size:
        end = min(begin + np.uint64(due.size), size)
        left = np.uint64(0)
        for i in range(begin, end):
            due[left] = i
            left += np.uint64(servers[i]["completion"] <= until)
        while left > np.uint64(0):
            if service + left > np.uint64(draws.services.size) or logged + left > np.uint64(scratch.log.size):
                clock.place[0], clock.used[1] = begin, service
                return logged
            again = np.uint64(0)
            for k in range(left):
                server = np.uint64(due[k])
                service, logged = depart(servers, draws.services, scratch.log, watch, server, service, logged)
                due[again] = server
                again += np.uint64(servers[server]["completion"] <= until)
            left = again
        if watch is not None:
            for i in range(begin, end):
                note(watch, servers, i, until, True)
        begin = end
    clock.place[0], clock.used[1] = size, service
    return logged


@njit(**_OPTIONS, forceinline=True)
def visit(
    servers: NDArray[Any],
    services: NDArray[np.float64],
    log: NDArray[Any],
    watch: Watch | None,
    i: Any,
    now: float,
    service: Any,
    logged: Any,
    spare: int,
) -> Any:
    """Advance server i to `now`; return what is unused.

    `spare` departures may be applied beyond one; it comes back negative if they did not suffice.
    """
    service, logged = depart_if_due(servers, services, log, watch, i, now, service, logged)
    while servers[i]["completion"] <= now and spare >= 0:
        spare -= 1
        if spare >= 0:
            service, logged = depart(servers, services, log, watch, i, service, logged)
    return service, logged, spare


@njit(**_OPTIONS, forceinline=True)
def arrive(
    rules: Rules,
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    servers: NDArray[Any],
    log: NDArray[Any],
    events: int,
    d: int,
) -> Any:
    """Process up to `events` arrivals before the next flush; return departures logged, and if levels ran out.

    Services and log must last for d + 1 entries an arrival. A further departure at one probe takes those of
    the last arrival to come; when none is to come, the present arrival is given up and begins again at the
    next call: departures it has applied come first in any case, so the path does not depend on it. Among
    equally short queues the first is taken: sampled servers are exchangeable, so the choice is uniform.
    """
    now, until, services = clock.time[0], clock.time[1], draws.services
    gap, choices = np.uint64(clock.used[0]), np.uint64(d)
    target = gap * choices
    service, logged, ahead = np.uint64(clock.used[1]), np.uint64(0), np.uint64(draws.ahead)
    top = counts.arrivals.shape[1] - 1
    limit, wide = top if rules.widen else 1 << 62, False
    bin_now = np.uint64(bins.guess[np.int64(min(now, bins.horizon) * bins.scale)])
    edge, spare = bins.edges[bin_now], events - 1
    while spare >= 0:
        arrival = now + draws.gaps[gap] * rules.gap_scale
        if arrival > until:
            break
        prefetch(servers, draws.targets[target + ahead])
        best = np.uint64(draws.targets[target])
        service, logged, spare = visit(servers, services, log, watch, best, arrival, service, logged, spare)
        length = servers[best]["length"]
        for k in range(target + _ONE, target + choices):
            prefetch(servers, draws.targets[k + ahead])
            i = np.uint64(draws.targets[k])
            service, logged, spare = visit(servers, services, log, watch, i, arrival, service, logged, spare)
            other = servers[i]["length"]
            best = i if other < length else best
            length = other if other < length else length
        wide = length >= limit
        if spare < 0 or wide:
            break
        if watch is not None:
            note(watch, servers, best, arrival, False)
            if length == 0:
                watch.started[best] = arrival
        completion, fresh = servers[best]["completion"], arrival + services[service]
        servers[best]["completion"] = fresh if length == 0 else completion
        servers[best]["length"] = length + 1
        service += np.uint64(length == 0)
        while edge < arrival:
            bin_now += _ONE
            edge = bins.edges[bin_now]
        counts.arrivals[bin_now, np.uint64(min(length, top))] += 1
        now = arrival
        gap += _ONE
        target += choices
        spare -= 1
    clock.time[0], clock.used[0], clock.used[1] = now, gap, service
    return logged, wide and spare >= 0


@njit(**_OPTIONS)
def run(
    rules: Rules,
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    servers: NDArray[Any],
    scratch: Scratch,
) -> int:
    """Run the network until its end or until a buffer is used up; return the reason."""
    log, each, group = scratch.log, draws.d + 1, min(servers.size, scratch.due.size)
    while True:
        gaps, services = draws.gaps.size - clock.used[0], draws.services.size - clock.used[1]
        if gaps == 0 or services < max(each, group):
            return NEEDS_DRAWS
        if clock.time[0] + draws.gaps[clock.used[0]] * rules.gap_scale > clock.time[1]:
            logged = flush(draws, clock, watch, servers, scratch)
            tally(bins, counts.departures, log, logged)
            if clock.place[0] == servers.size:
                if watch is not None:
                    pending = np.searchsorted(watch.times, clock.time[1], side="right")
                    watch.next[0] = watch.times[pending] if pending < watch.times.size else np.inf
                if clock.time[1] >= rules.end:
                    return DONE
                clock.time[1] += rules.interval
                clock.place[0] = 0
            continue
        events = min(gaps, services // each, log.size // each)
        if draws.d == 2:  # the most frequent by far, and the loop over two is unrolled
            logged, wide = arrive(rules, draws, clock, bins, counts, watch, servers, log, events, 2)
        else:
            logged, wide = arrive(rules, draws, clock, bins, counts, watch, servers, log, events, draws.d)
        tally(bins, counts.departures, log, logged)
        if wide:
            return NEEDS_LEVELS
