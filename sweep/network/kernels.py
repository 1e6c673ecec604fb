"""Compiled loops of the N-server network: arrivals, and the departures found at their probes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep.network.departure_kernels import OPTIONS, depart, note, take_in
from sweep.network.prefetch_kernels import prefetch
from sweep.network.random_kernels import next_exponentials, next_targets
from sweep.network.state import (
    ARRIVALS,
    BIN,
    DONE,
    FIRST_BIN,
    LONGEST,
    NEEDS_GAPS,
    NEEDS_JOBS,
    NEEDS_LEVELS,
    NEEDS_SERVICES,
    NEEDS_WORDS,
    NOW,
    SERVER_AT,
    SERVICES,
    SETTLED,
    UNTIL,
    Bins,
    Clock,
    Counts,
    Draws,
    Jobs,
    Routing,
    Rules,
    Sums,
    Watch,
)

_ONE = np.uint64(1)


@njit(**OPTIONS, forceinline=True)
def settle(
    servers: NDArray[Any],
    services: NDArray[np.float64],
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    sums: Sums | None,
    jobs: Jobs | None,
    due: NDArray[np.uint32],
    left: Any,
    until: float,
    service: Any,
    first: Any,
    dense: bool,
) -> Any:
    """Apply what is due by `until` at `left` servers in `due`: all first departures, then all second ones.

    Returns the next unused service and how many servers are left: none, unless services may not last for the
    next round of them. A further call with these servers, in the same order, then goes on as if never
    stopped. The same server may be there twice.
    """
    while left > np.uint64(0) and service + left <= np.uint64(services.size):
        again = np.uint64(0)
        for k in range(left):
            i = np.uint64(due[k])
            if servers[i]["completion"] <= until:
                service = depart(servers, services, bins, counts, watch, sums, jobs, i, service, first, dense)
            due[again] = i
            again += np.uint64(servers[i]["completion"] <= until)
        left = again
    return service, left


@njit(**OPTIONS)
def flush(
    rules: Rules,
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    sums: Sums | None,
    jobs: Jobs | None,
    servers: NDArray[Any],
    due: NDArray[np.uint32],
    first: Any,
    dense: bool,
) -> bool:
    """Advance servers to the next flush, by groups, while services last; return whether all are done.

    The servers due are collected first, without branches: whether one is due no processor predicts.
    """
    until, service = clock.time[UNTIL], np.uint64(clock.used[SERVICES])
    begin, size = np.uint64(clock.place[SERVER_AT]), np.uint64(servers.size)
    left = np.uint64(0)
    while begin < size:
        end = min(begin + np.uint64(rules.group), size)
        for i in range(begin, end):
            due[left] = i
            left += np.uint64(servers[i]["completion"] <= until)
        service, left = settle(
            servers, draws.services, bins, counts, watch, sums, jobs, due, left, until, service, first, dense
        )
        if left > np.uint64(0):
            break
        if watch is not None:
            for i in range(begin, end):
                note(watch, servers, i, until, True)
        begin = end
    clock.place[SERVER_AT], clock.used[SERVICES] = begin, service
    return bool(left == np.uint64(0))


@njit(**OPTIONS, forceinline=True)
def settle_batch(
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    sums: Sums | None,
    jobs: Jobs | None,
    servers: NDArray[Any],
    due: NDArray[np.uint32],
    last: Any,
    first: Any,
    dense: bool,
    d: int,
) -> bool:
    """Advance the servers sampled by arrivals before `last` to the time before the batch; return if done.

    Few departures are then left for the arrivals themselves to find, by branches that are easy to predict.
    """
    settled, choices, left = clock.time[SETTLED], np.uint64(d), np.uint64(0)
    ahead = np.uint64(draws.ahead)
    for k in range(np.uint64(clock.used[ARRIVALS]) * choices, last * choices):
        prefetch(servers, draws.targets[k + ahead])
        i = np.uint64(draws.targets[k])
        due[left] = i
        left += np.uint64(servers[i]["completion"] <= settled)
    service, left = settle(
        servers,
        draws.services,
        bins,
        counts,
        watch,
        sums,
        jobs,
        due,
        left,
        settled,
        np.uint64(clock.used[SERVICES]),
        first,
        dense,
    )
    clock.used[SERVICES] = service
    return bool(left == np.uint64(0))


@njit(**OPTIONS, forceinline=True)
def shortest(
    servers: NDArray[Any], targets: NDArray[np.uint32], target: Any, choices: Any, now: float
) -> Any:
    """Return the first shortest of the sampled queues, its completion and length, and whether any is due.

    Sampled servers are exchangeable, so the choice among equally short queues is uniform.
    """
    best = np.uint64(targets[target])
    completion, length = servers[best]["completion"], servers[best]["length"]
    due = completion <= now
    for k in range(target + _ONE, target + choices):
        i = np.uint64(targets[k])
        other_completion, other = servers[i]["completion"], servers[i]["length"]
        due |= other_completion <= now
        best = i if other < length else best
        completion = other_completion if other < length else completion
        length = other if other < length else length
    return best, completion, length, due


@njit(**OPTIONS, forceinline=True)
def arrive(
    rules: Rules,
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    sums: Sums | None,
    jobs: Jobs | None,
    servers: NDArray[Any],
    last: Any,
    first: Any,
    dense: bool,
    d: int,
) -> int:
    """Process arrivals before `last` and the next flush; return DONE, or what the next of them needs.

    An arrival that is given up begins again at the next call: departures it has applied come first in any
    case, so the path does not depend on it.
    """
    now, until, services = clock.time[NOW], clock.time[UNTIL], draws.services
    gap, choices, service = np.uint64(clock.used[ARRIVALS]), np.uint64(d), np.uint64(clock.used[SERVICES])
    # Behind this one, each arrival to come still finds a service.
    enough = np.uint64(services.size - rules.batch)
    top = counts.arrivals.shape[1] - 1
    limit = top if rules.widen else 1 << 62
    bin_now, longest = np.uint64(clock.place[BIN]), clock.place[LONGEST]
    edge, row = bins.edges[bin_now], counts.arrivals[bin_now]
    target, reason = gap * choices, DONE
    if service > enough:
        return NEEDS_SERVICES
    while gap < last:
        arrival = now + draws.gaps[gap] * rules.gap_scale
        if arrival > until:
            break
        best, completion, length, due = shortest(servers, draws.targets, target, choices, arrival)
        if due:
            for k in range(target, target + choices):
                i = np.uint64(draws.targets[k])
                while servers[i]["completion"] <= arrival and service < enough:
                    service = depart(
                        servers, services, bins, counts, watch, sums, jobs, i, service, first, dense
                    )
            best, completion, length, due = shortest(servers, draws.targets, target, choices, arrival)
            if due:
                reason = NEEDS_SERVICES
                break
        if length >= limit:
            reason = NEEDS_LEVELS
            break
        if jobs is not None:
            if jobs.free[0] < 0:
                reason = NEEDS_JOBS
                break
            take_in(jobs, best, arrival, length)
        if watch is not None:
            note(watch, servers, best, arrival, False)
            if length == 0:
                watch.started[best] = arrival
        fresh = arrival + services[service]
        servers[best]["completion"] = fresh if length == 0 else completion
        servers[best]["length"] = length + 1
        service += np.uint64(length == 0)
        while edge < arrival:
            counts.last[bin_now], counts.longest[bin_now] = now, longest
            bin_now += _ONE
            edge, row = bins.edges[bin_now], counts.arrivals[bin_now]
        level = np.uint64(min(length, top))
        row[level] += 1
        if sums is not None:
            sums.arrivals[bin_now, level] += edge - arrival
        longest = max(longest, length + 1)
        now = arrival
        gap += _ONE
        target += choices
    clock.time[NOW], clock.used[ARRIVALS], clock.used[SERVICES] = now, gap, service
    clock.place[BIN], clock.place[LONGEST] = bin_now, longest
    if gap == last:
        clock.time[SETTLED] = now
    return int(reason)


@njit(**OPTIONS)
def refill(routing: Routing, draws: Draws, clock: Clock) -> int:
    """Draw more random numbers if used up and drawn by kernels; return DONE, or what others must draw."""
    if clock.used[ARRIVALS] == draws.gaps.size:
        if draws.gap_source.words.size == 0:
            return NEEDS_GAPS
        next_exponentials(draws.gap_source, draws.gaps)
        clock.used[ARRIVALS] = 0
        if next_targets(routing, draws) > 0:
            return NEEDS_WORDS
    left = draws.services.size - clock.used[SERVICES]
    if left < draws.least:
        if draws.service_source.words.size == 0:
            return NEEDS_SERVICES
        for k in range(left):
            draws.services[k] = draws.services[clock.used[SERVICES] + k]
        next_exponentials(draws.service_source, draws.services[left:])
        clock.used[SERVICES] = 0
    return DONE


@njit(**OPTIONS)
def pass_flush(clock: Clock, rules: Rules, bins: Bins, watch: Watch | None) -> bool:
    """Set the clock to the time after a flush; return whether the run is over."""
    time, place = clock.time, clock.place
    if watch is not None:
        pending = np.searchsorted(watch.times, time[UNTIL], side="right")
        watch.next[0] = watch.times[pending] if pending < watch.times.size else np.inf
    over = time[UNTIL] >= rules.end
    time[SETTLED] = time[UNTIL]
    time[UNTIL] += rules.interval
    while bins.edges[place[FIRST_BIN]] < time[SETTLED]:
        place[FIRST_BIN] += 1
    place[SERVER_AT] = 0
    return bool(over)


@njit(**OPTIONS)
def run(
    rules: Rules,
    routing: Routing,
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch | None,
    sums: Sums | None,
    jobs: Jobs | None,
    servers: NDArray[Any],
    due: NDArray[np.uint32],
) -> int:
    """Run the network until its end or until something is used up; return the reason."""
    time, used = clock.time, clock.used
    while True:
        reason: int = refill(routing, draws, clock)
        if reason != DONE:
            return reason
        first = np.uint64(clock.place[FIRST_BIN])
        dense = bins.edges[first + np.uint64(2)] < time[UNTIL]
        if time[NOW] + draws.gaps[used[ARRIVALS]] * rules.gap_scale > time[UNTIL]:
            complete = flush(rules, draws, clock, bins, counts, watch, sums, jobs, servers, due, first, dense)
            if complete and pass_flush(clock, rules, bins, watch):
                return DONE
            continue
        last = np.uint64(used[ARRIVALS] - used[ARRIVALS] % rules.batch + rules.batch)
        if draws.d == 2:  # the most frequent by far, and the loop over two is unrolled
            if settle_batch(
                draws, clock, bins, counts, watch, sums, jobs, servers, due, last, first, dense, 2
            ):
                reason = arrive(
                    rules, draws, clock, bins, counts, watch, sums, jobs, servers, last, first, dense, 2
                )
        elif settle_batch(
            draws, clock, bins, counts, watch, sums, jobs, servers, due, last, first, dense, draws.d
        ):
            reason = arrive(
                rules, draws, clock, bins, counts, watch, sums, jobs, servers, last, first, dense, draws.d
            )
        if reason in (NEEDS_LEVELS, NEEDS_JOBS):
            return reason
