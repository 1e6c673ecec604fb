"""Compiled event loop of the N-server network: arrivals in order of time, departures applied when a server is probed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

#: One server: when the job in service completes (inf if none) and how many jobs are there. The two lie side by side,
#: so that a probe touches one cache line.
SERVER = np.dtype([("completion", np.float64), ("length", np.int64)], align=True)
#: Every server is advanced to each multiple of this time, in server order, whatever is stored. The order in which
#: service times are handed out, hence the path, is then a function of arrivals alone and not of the horizon.
FLUSH_INTERVAL = 1.0

#: Why the kernel returned: the run is over, or a buffer or table is too short and the same call resumes once it is longer.
DONE, NEEDS_GAPS, NEEDS_SERVICES, NEEDS_WORDS, NEEDS_LEVELS = 0, 1, 2, 3, 4

_LOW_HALF = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_WORDS = np.uint64(1 << 32)
_FIVE, _SIX = np.uint32(5), np.uint32(6)
_AHEAD = 64  # routing words between the server fetched into the cache and the one probed now


class Rules(NamedTuple):
    """What does not change during a run."""

    N: int
    d: int
    reject: Any  # 2³² mod N as uint64
    gap_scale: float  # 1 / (λ N)
    fraction: float
    replacement: bool
    end: float  # first multiple of FLUSH_INTERVAL at or after the last stored time
    watched: bool  # age snapshots are asked for
    widen: bool  # return rather than count a level beyond the tables


class Draws(NamedTuple):
    """Random numbers drawn ahead: unit-mean gaps, service times, 32-bit routing words."""

    gaps: NDArray[np.float64]
    services: NDArray[np.float64]
    words: NDArray[np.uint32]


class Clock(NamedTuple):
    """What survives between calls, arrays of one or two items so that the kernel can update them."""

    time: NDArray[np.float64]  # last arrival, next flush
    used: NDArray[np.int64]  # gaps, services and words consumed from the present buffers
    place: NDArray[np.int64]  # server the flush has come to


class Bins(NamedTuple):
    """Time bins: an event at s belongs to the first k with s ≤ times[k], the last bin lies beyond all times."""

    times: NDArray[np.float64]
    guess: NDArray[np.int64]  # lower bound of the bin by ⌊s · scale⌋
    scale: float
    horizon: float  # times[-1]


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


def prefetch(servers: NDArray[Any], index: Any) -> None:
    """Ask for a server to be brought into the cache; compiled code only, and no effect on any result."""


@intrinsic
def _prefetch_record(typingctx: Any, servers: Any, index: Any) -> Any:  # noqa: ARG001  numba's own signature
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = context.cast(builder, args[1], signature.args[1], types.intp)
        pointer = builder.bitcast(builder.gep(array.data, [place]), cgutils.voidptr_t)
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        for_write, keep, data = (context.get_constant(types.int32, value) for value in (1, 3, 1))
        builder.call(function, [pointer, for_write, keep, data])
        return context.get_dummy_value()

    return types.void(servers, index), generate


@overload(prefetch)
def _prefetch_compiled(servers: Any, index: Any) -> Any:  # noqa: ARG001  numba reads the signature
    def compiled(servers: Any, index: Any) -> Any:
        return _prefetch_record(servers, index)

    return compiled


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def bin_of(bins: Bins, instant: float) -> int:
    """Return the time bin of an event."""
    if instant > bins.horizon:
        return bins.times.size
    k = bins.guess[int(instant * bins.scale)]
    while bins.times[k] < instant:
        k += 1
    return k


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def uniform(rules: Rules, draws: Draws, servers: NDArray[Any], word: int, bound: int, reject: Any) -> Any:
    """Return a uniform index below `bound` (−1 if words ran dry) and the next unused word.

    Multiply-shift with exact rejection: D. Lemire, Fast random integer generation in an interval, 2019;
    `reject` is 2³² mod `bound`.
    """
    while word < draws.words.size:
        product = np.uint64(draws.words[word]) * np.uint64(bound)
        word += 1
        if word + _AHEAD < draws.words.size:
            coming = np.uint64(draws.words[word + _AHEAD]) * np.uint64(rules.N)
            prefetch(servers, coming >> _SHIFT)
        if (product & _LOW_HALF) >= reject:
            return np.int64(product >> _SHIFT), word
    return -1, word


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def sample(rules: Rules, draws: Draws, servers: NDArray[Any], word: int, chosen: NDArray[np.int64], k: int) -> Any:
    """Return the k-th sampled server (−1 if words ran dry) and the next unused word; `chosen` holds those before."""
    if rules.replacement:
        return uniform(rules, draws, servers, word, rules.N, rules.reject)
    if 2 * rules.d > rules.N:
        # Partial Fisher–Yates: redrawing would take N log N tries when d = N.
        bound = rules.N - k
        index, word = uniform(rules, draws, servers, word, bound, _WORDS % np.uint64(bound))
        if index < 0:
            return index, word
        server = chosen[k + index]
        chosen[k + index] = chosen[k]
        chosen[k] = server
        return server, word
    while True:
        index, word = uniform(rules, draws, servers, word, rules.N, rules.reject)
        fresh = True
        for j in range(k):
            fresh &= chosen[j] != index
        if fresh:
            chosen[k] = index
            return index, word


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def note(watch: Watch, servers: NDArray[Any], i: int, until: float, inclusive: bool) -> None:
    """Note age and length of server i at every snapshot before `until` that is not noted yet."""
    k = watch.noted[i]
    while k < watch.times.size and (watch.times[k] < until or (inclusive and watch.times[k] == until)):
        watch.lengths[k, i] = servers[i]["length"]
        watch.ages[k, i] = watch.times[k] - watch.started[i]
        k += 1
    watch.noted[i] = k


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def advance(
    rules: Rules,
    services: NDArray[np.float64],
    bins: Bins,
    counts: Counts,
    watch: Watch,
    servers: NDArray[Any],
    i: int,
    now: float,
    service: int,
) -> int:
    """Apply the departures of server i up to `now`; return the next unused service time.

    Nothing else can have touched the queue in between, so the length before each departure is exact. If service
    times run dry, the server is left with a completion ≤ `now`; the same call goes on from there.
    """
    while servers[i]["completion"] <= now:
        completion = servers[i]["completion"]
        length = servers[i]["length"]
        if length > 1 and service == services.size:
            break
        if rules.watched:
            note(watch, servers, i, completion, False)
            watch.started[i] = completion
        servers[i]["length"] = length - 1
        if length > 1:
            servers[i]["completion"] = completion + services[service]
            service += 1
        else:
            servers[i]["completion"] = np.inf
        counts.departures[bin_of(bins, completion), min(length, counts.departures.shape[1]) - 1] += 1
    return service


@njit(cache=True, nogil=True, _nrt=False, forceinline=True)
def shortest(
    rules: Rules,
    draws: Draws,
    bins: Bins,
    counts: Counts,
    watch: Watch,
    servers: NDArray[Any],
    chosen: NDArray[np.int64],
    now: float,
    word: int,
    service: int,
) -> Any:
    """Return the server an arrival joins, the next unused word and service time.

    Dry words are told by −1, dry service times by −2 for the server: repeating the call draws the same servers, and
    those advanced already stay as they are.
    """
    d = rules.d
    if 0.0 < rules.fraction < 1.0:
        if word + 1 >= draws.words.size:
            return -1, word, service
        high = np.float64(draws.words[word] >> _FIVE)
        low = np.float64(draws.words[word + 1] >> _SIX)
        word += 2
        if (high * 67108864.0 + low) / 9007199254740992.0 >= rules.fraction:
            d = 1
    elif rules.fraction == 0.0:
        d = 1
    if not rules.replacement and 2 * rules.d > rules.N:
        for j in range(rules.N):
            chosen[j] = j
    best = np.int64(-1)
    length = np.int64(0)
    for k in range(d):
        i, word = sample(rules, draws, servers, word, chosen, k)
        if i < 0:
            return -1, word, service
        if servers[i]["completion"] <= now:
            service = advance(rules, draws.services, bins, counts, watch, servers, i, now, service)
            if servers[i]["completion"] <= now:
                return -2, word, service
        # The first of equals: sampled servers are exchangeable, so this is a uniform choice among them.
        if best < 0 or servers[i]["length"] < length:
            best = i
            length = servers[i]["length"]
    return best, word, service


@njit(cache=True, nogil=True, _nrt=False)
def run(
    rules: Rules,
    draws: Draws,
    clock: Clock,
    bins: Bins,
    counts: Counts,
    watch: Watch,
    servers: NDArray[Any],
    chosen: NDArray[np.int64],
) -> int:
    """Run the network until its end or until a buffer is dry; return the reason.

    An event that finds a buffer dry is not counted as begun: gaps and words are consumed when it is complete, and the
    departures already applied would have been applied first in any case. So the path does not depend on buffer sizes.
    """
    now, flush = clock.time[0], clock.time[1]
    gap, service, word = clock.used[0], clock.used[1], clock.used[2]
    arrival_bin = bin_of(bins, now)
    reason = DONE
    while True:
        if gap == draws.gaps.size:
            reason = NEEDS_GAPS
            break
        arrival = now + draws.gaps[gap] * rules.gap_scale
        if arrival > flush:
            while clock.place[0] < rules.N:
                i = clock.place[0]
                service = advance(rules, draws.services, bins, counts, watch, servers, i, flush, service)
                if servers[i]["completion"] <= flush:
                    break
                if rules.watched:
                    note(watch, servers, i, flush, True)
                clock.place[0] += 1
            if clock.place[0] < rules.N:
                reason = NEEDS_SERVICES
                break
            if flush >= rules.end:
                break
            clock.place[0] = 0
            flush += FLUSH_INTERVAL
            continue
        i, next_word, service = shortest(
            rules, draws, bins, counts, watch, servers, chosen, arrival, word, service
        )
        if i == -1:
            reason = NEEDS_WORDS
            break
        if i == -2 or (servers[i]["length"] == 0 and service == draws.services.size):
            reason = NEEDS_SERVICES
            break
        if rules.widen and servers[i]["length"] + 1 >= counts.arrivals.shape[1]:
            reason = NEEDS_LEVELS
            break
        if rules.watched:
            note(watch, servers, i, arrival, False)
        length = servers[i]["length"] + 1
        servers[i]["length"] = length
        if length == 1:
            servers[i]["completion"] = arrival + draws.services[service]
            service += 1
            if rules.watched:
                watch.started[i] = arrival
        while arrival_bin < bins.times.size and bins.times[arrival_bin] < arrival:
            arrival_bin += 1
        counts.arrivals[arrival_bin, min(length, counts.arrivals.shape[1]) - 1] += 1
        now = arrival
        gap += 1
        word = next_word
    clock.time[0], clock.time[1] = now, flush
    clock.used[0], clock.used[1], clock.used[2] = gap, service, word
    return reason
