"""Compiled loops of the N-server network: routing, and arrivals with the departures found at their probes."""

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
    NEEDS_GAPS,
    NEEDS_LEVELS,
    NEEDS_SERVICES,
    NEEDS_TARGETS,
    Bins,
    Clock,
    Counts,
    Draws,
    Routing,
    Rules,
    Watch,
)

# Kernels allocate nothing and keep no array. Counting references would cost ten times what the events do.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_ONE = np.uint64(1)
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_WORDS = np.uint64(1 << 32)


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


@njit(**_OPTIONS, forceinline=True)
def uniform(words: NDArray[np.uint32], word: int, bound: Any, reject: Any) -> Any:
    """Return a uniform index below `bound` and the next unused word, beyond the end if words ran dry.

    Multiply-shift with exact rejection; `reject` is 2³² mod `bound` (D. Lemire, Fast random integer
    generation in an interval, 2019).
    """
    while word < words.size:
        product = np.uint64(words[word]) * bound
        word += 1
        if (product & _LOW_HALF) >= reject:
            return product >> _HALF, word
    return bound, word + 1


@njit(**_OPTIONS)
def route_plainly(routing: Routing, words: NDArray[np.uint32], targets: NDArray[np.uint32]) -> Any:
    """Do the work of `route` where every arrival samples d servers with replacement.

    A rejected word is overwritten rather than branched around; words of an arrival that is not complete are
    given back.
    """
    bound = np.uint64(routing.N)
    reject = _WORDS % bound
    size = min(words.size, routing.rows * routing.d)
    filled = np.uint64(0)
    for word in range(size):
        product = np.uint64(words[word]) * bound
        targets[filled] = product >> _HALF
        filled += np.uint64((product & _LOW_HALF) >= reject)
    used = size
    while filled % np.uint64(routing.d) > np.uint64(0):
        used -= 1
        filled -= np.uint64(((np.uint64(words[used]) * bound) & _LOW_HALF) >= reject)
    return filled // np.uint64(routing.d), used


@njit(**_OPTIONS)
def route(
    routing: Routing, words: NDArray[np.uint32], targets: NDArray[np.uint32], order: NDArray[np.uint32]
) -> Any:
    """Turn words into the servers sampled by each arrival, d in a row, as far as words and `targets` last.

    An arrival that takes one uniform queue samples it d times. Returns arrivals and words used; `order` is
    scratch of N items when more than half of the servers are sampled without replacement.
    """
    if routing.replacement and routing.fraction == 1.0:
        return route_plainly(routing, words, targets)
    bound, d, word, first = np.uint64(routing.N), routing.d, 0, 0
    reject = _WORDS % bound
    last = routing.rows * d
    while first < last:
        start = word
        choices = d if routing.fraction > 0.0 else 1
        if 0.0 < routing.fraction < 1.0:
            if word + 2 > words.size:
                return first // d, start
            # 53 bits of two words: a uniform number below 2⁵³, compared exactly.
            coin = np.float64(words[word] >> 5) * 67108864.0 + np.float64(words[word + 1] >> 6)
            word += 2
            choices = d if coin < routing.fraction * 9007199254740992.0 else 1
        if routing.replacement or choices == 1:
            for k in range(choices):
                targets[first + k], word = uniform(words, word, bound, reject)
        elif 2 * d <= routing.N:
            word = sample_few(words, word, bound, reject, targets[first : first + d])
        else:
            word = sample_many(words, word, bound, order, targets[first : first + d])
        if word > words.size:
            return first // d, start
        for k in range(choices, d):
            targets[first + k] = targets[first]
        first += d
    return first // d, word


@njit(**_OPTIONS)
def sample_few(words: NDArray[np.uint32], word: int, bound: Any, reject: Any, row: NDArray[np.uint32]) -> int:
    """Fill `row` with distinct servers, drawing repeated ones again; return the next unused word."""
    k = 0
    while k < row.size and word <= words.size:
        server, word = uniform(words, word, bound, reject)
        fresh = True
        for j in range(k):
            fresh &= row[j] != server
        if fresh:
            row[k] = server
            k += 1
    return word


@njit(**_OPTIONS)
def sample_many(words: NDArray[np.uint32], word: int, bound: Any, order: NDArray[np.uint32], row: Any) -> int:
    """Fill `row` with distinct servers by a partial Fisher–Yates shuffle; return the next unused word.

    Drawing repeated servers again would take N log N tries for d = N.
    """
    for j in range(order.size):
        order[j] = j
    for k in range(row.size):
        left = bound - np.uint64(k)
        offset, word = uniform(words, word, left, _WORDS % left)
        place: Any = min(k + np.int64(offset), order.size - 1)
        row[k] = order[place]
        order[place] = order[k]
    return word


@njit(**_OPTIONS)
def tally(bins: Bins, departures: NDArray[np.int64], log: NDArray[Any], logged: Any) -> None:
    """Count the logged departures (time, length before) by time bin and level."""
    columns = departures.shape[1]
    for j in range(logged):
        instant = log[j]["completion"]
        k = np.uint64(bins.guess[np.uint64(min(instant, bins.horizon) * bins.scale)])
        # One step without a branch, as it is a coin toss; on an even grid there is no second.
        k += np.uint64(bins.edges[k] < instant)
        while bins.edges[k] < instant:
            k += _ONE
        departures[k, np.uint64(min(log[j]["length"], columns) - 1)] += 1


@njit(**_OPTIONS, forceinline=True)
def note(watch: Watch, servers: NDArray[Any], i: Any, until: float, inclusive: bool) -> None:
    """Note age and length of server i at every snapshot before `until` that is not noted yet."""
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
    now: float,
    service: Any,
    logged: Any,
) -> Any:
    """Apply the next departure of server i if it is due at `now`; return the next unused service and place.

    Nothing else can have touched the queue since, so the length before the departure is exact. Written
    without branches: whether a probed server has a departure due is a coin toss no processor predicts.
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
def flush_servers(
    servers: NDArray[Any],
    services: NDArray[np.float64],
    log: NDArray[Any],
    watch: Watch | None,
    clock: Clock,
    until: float,
    service: Any,
) -> Any:
    """Advance servers to `until` in order while services and log last; return the next unused of both."""
    i, logged = np.uint64(clock.place[0]), np.uint64(0)
    room, stock = np.uint64(log.size), np.uint64(services.size)
    while i < servers.size and service < stock and logged < room:
        service, logged = depart(servers, services, log, watch, i, until, service, logged)
        while servers[i]["completion"] <= until and service < stock and logged < room:
            service, logged = depart(servers, services, log, watch, i, until, service, logged)
        if servers[i]["completion"] <= until:
            break
        if watch is not None:
            note(watch, servers, i, until, True)
        i += _ONE
    clock.place[0] = i
    return service, logged


@njit(**_OPTIONS, forceinline=True)
def shortest(
    servers: NDArray[Any],
    draws: Draws,
    log: NDArray[Any],
    watch: Watch | None,
    row: Any,
    now: float,
    service: Any,
    logged: Any,
    spare: int,
) -> Any:
    """Advance the servers an arrival samples to `now`; return the shortest, its length and what is unused.

    `spare` departures may be applied beyond one a server; it comes back negative if they did not suffice.
    The first of equals is taken: sampled servers are exchangeable, so the choice among them is uniform.
    """
    best, shortest_length = np.uint64(0), np.int64(1 << 62)
    for target in range(np.uint64(row * np.uint64(draws.d)), np.uint64((row + _ONE) * np.uint64(draws.d))):
        prefetch(servers, draws.targets[target + np.uint64(draws.ahead)])
        i = np.uint64(draws.targets[target])
        service, logged = depart(servers, draws.services, log, watch, i, now, service, logged)
        while servers[i]["completion"] <= now and spare >= 0:
            spare -= 1
            if spare >= 0:
                service, logged = depart(servers, draws.services, log, watch, i, now, service, logged)
        if spare < 0:
            break
        length = servers[i]["length"]
        best = i if length < shortest_length else best
        shortest_length = length if length < shortest_length else shortest_length
    return best, shortest_length, service, logged, spare


@njit(**_OPTIONS)
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
) -> Any:
    """Process up to `events` arrivals before the next flush; return departures logged, and if levels ran out.

    Services and log must last for d + 1 entries an arrival. A further departure at one probe takes those of
    the last arrival to come; when none is to come, the present arrival is given up and begins again at the
    next call: departures it has applied come first in any case, so the path does not depend on it.
    """
    now, flush = clock.time[0], clock.time[1]
    gap, row = np.uint64(clock.used[0]), np.uint64(clock.used[2])
    service, logged = np.uint64(clock.used[1]), np.uint64(0)
    top, wide = counts.arrivals.shape[1] - 1, False
    bin_now = np.uint64(bins.guess[np.uint64(min(now, bins.horizon) * bins.scale)])
    while events > 0:
        arrival = now + draws.gaps[gap] * rules.gap_scale
        if arrival > flush:
            break
        best, length, service, logged, spare = shortest(
            servers, draws, log, watch, row, arrival, service, logged, events - 1
        )
        wide = rules.widen and length >= top
        if spare < 0 or wide:
            break
        events = spare
        if watch is not None:
            note(watch, servers, best, arrival, False)
            if length == 0:
                watch.started[best] = arrival
        completion, fresh = servers[best]["completion"], arrival + draws.services[service]
        servers[best]["completion"] = fresh if length == 0 else completion
        servers[best]["length"] = length + 1
        service += np.uint64(length == 0)
        while bins.edges[bin_now] < arrival:
            bin_now += _ONE
        counts.arrivals[bin_now, np.uint64(min(length, top))] += 1
        now = arrival
        gap += _ONE
        row += _ONE
    clock.time[0] = now
    clock.used[0], clock.used[1], clock.used[2] = gap, service, row
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
    log: NDArray[Any],
) -> int:
    """Run the network until its end or until a buffer is used up; return the reason."""
    each = draws.d + 1
    while True:
        gaps, rows = draws.gaps.size - clock.used[0], draws.rows - clock.used[2]
        services = draws.services.size - clock.used[1]
        if gaps == 0:
            return NEEDS_GAPS
        if clock.time[0] + draws.gaps[clock.used[0]] * rules.gap_scale > clock.time[1]:
            service, logged = flush_servers(
                servers, draws.services, log, watch, clock, clock.time[1], np.uint64(clock.used[1])
            )
            clock.used[1] = service
            tally(bins, counts.departures, log, logged)
            if clock.place[0] == servers.size:
                if clock.time[1] >= rules.end:
                    return DONE
                clock.time[1] += rules.interval
                clock.place[0] = 0
            elif clock.used[1] == draws.services.size:
                return NEEDS_SERVICES
            continue
        if rows == 0:
            return NEEDS_TARGETS
        if services < each:
            return NEEDS_SERVICES
        events = min(gaps, rows, services // each, log.size // each)
        logged, wide = arrive(rules, draws, clock, bins, counts, watch, servers, log, events)
        tally(bins, counts.departures, log, logged)
        if wide:
            return NEEDS_LEVELS
