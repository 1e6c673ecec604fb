"""Compiled random numbers in bulk: 64-bit words, exponential times, and the servers that arrivals sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sweep.network.state import Draws, Routing, Source

# Nothing is allocated here and no array kept. Counting references would cost more than drawing.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_WORDS = np.uint64(1 << 32)
# Words that are tried together for servers.
_GROUP = 256
_LN2 = 0.6931471805599453
# Polynomial in s² that equals (artanh s / s − 1) / s² at the seven Chebyshev nodes of the s² that
# occur, 0 to (3 − 2 √2)²: in between, artanh s / s is off by 5e-18 at most.
_C = (
    0.3333333333333335,
    0.19999999999949752,
    0.14285714312987743,
    0.11111105567397517,
    0.09091444562632513,
    0.07665860800223112,
    0.07308224843200399,
)
_EXPONENT_OF_ONE = np.uint64(0x3FF0000000000000)
_BITS_OF_ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)


@njit(**_OPTIONS)
def fill_words(state: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    """Fill `words` from SFC64 generators in turn, one a column of `state`, whole rounds of them.

    Side by side the generators fit the vector units: a word costs a fifth of one drawn from a single
    generator. `state` holds a, b, c and the counter of each, as `numpy.random.SFC64` does, whose words these
    are (C. Doty-Humphrey's chaotic generator of PractRand).
    """
    a, b, c, counter = state[0], state[1], state[2], state[3]
    for start in range(0, words.size, a.size):
        turn = words[start : start + a.size]
        for lane in range(a.size):
            word = a[lane] + b[lane] + counter[lane]
            counter[lane] += np.uint64(1)
            a[lane] = b[lane] ^ (b[lane] >> np.uint64(11))
            b[lane] = c[lane] + (c[lane] << np.uint64(3))
            c[lane] = ((c[lane] << np.uint64(24)) | (c[lane] >> np.uint64(40))) + word
            turn[lane] = word


# m + 1 is never 0; a test for it would keep the loop from being vectorised.
@njit(**_OPTIONS, error_model="numpy")
def exponential_times(words: NDArray[np.uint64], times: NDArray[np.float64]) -> None:
    """Turn each word into an exponential time −log u of mean 1, u uniform on the multiples of 2⁻⁵² in (0, 1].

    The logarithm is good to 2 units in the last place. It is written out, from + − × / alone, so that
    compilers can vectorise it and every machine gives the same bits: u = m 2^e with m in [√½, √2), and
    log m = 2 artanh s with s = (m − 1)/(m + 1), |s| < 0.172, and artanh s = s + s³ P(s²).
    """
    for k in range(times.size):
        u = 2.0 - np.uint64((words[k] >> np.uint64(12)) | _EXPONENT_OF_ONE).view(np.float64)
        bits = np.float64(u).view(np.int64)
        e = (bits - _BITS_OF_ROOT_HALF) >> np.int64(52)
        m = np.int64(bits - (e << np.int64(52))).view(np.float64)
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        series = _C[3] + q * (_C[4] + q * (_C[5] + q * _C[6]))
        series = _C[0] + q * (_C[1] + q * (_C[2] + q * series))
        times[k] = -(np.float64(e) * _LN2 + (2.0 * s + 2.0 * s * q * series))


@njit(**_OPTIONS)
def deal(source: Source, words: NDArray[np.uint64]) -> None:
    """Fill `words` with the next ones of a source."""
    filled = 0
    while filled < words.size:
        if source.used[0] == source.words.size:
            fill_words(source.state, source.words)
            source.used[0] = 0
        used = source.used[0]
        more = min(words.size - filled, source.words.size - used)
        for k in range(more):
            words[filled + k] = source.words[used + k]
        filled += more
        source.used[0] = used + more


@njit(**_OPTIONS)
def next_exponentials(source: Source, times: NDArray[np.float64]) -> None:
    """Fill `times` with exponential times, one of each next word of a source."""
    filled = 0
    while filled < times.size:
        if source.used[0] == source.words.size:
            fill_words(source.state, source.words)
            source.used[0] = 0
        used = source.used[0]
        more = min(times.size - filled, source.words.size - used)
        exponential_times(source.words[used : used + more], times[filled : filled + more])
        filled += more
        source.used[0] = used + more


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
def route_plainly(routing: Routing, words: NDArray[np.uint32], targets: NDArray[np.uint32], rows: int) -> Any:
    """Do the work of `route` where every arrival samples d servers with replacement.

    Words are tried by groups: a group without a rejected word, as most are, is one loop without branches. A
    rejected word is overwritten by the next. Words of an arrival that is not complete are given back.
    """
    bound = np.uint64(routing.N)
    reject = _WORDS % bound
    last, used = rows * routing.d, 0
    filled: Any = 0
    while used < words.size and filled < last:
        group = words[used : used + min(_GROUP, words.size - used, last - filled)]
        places = targets[filled : filled + group.size]
        rejected: Any = 0
        for k in range(group.size):
            product = np.uint64(group[k]) * bound
            places[k] = product >> _HALF
            rejected += (product & _LOW_HALF) < reject
        if rejected:
            kept = np.uint64(0)
            for k in range(group.size):
                product = np.uint64(group[k]) * bound
                places[kept] = product >> _HALF
                kept += np.uint64((product & _LOW_HALF) >= reject)
        filled += group.size - rejected
        used += group.size
    while filled % routing.d > 0:
        used -= 1
        filled -= (np.uint64(words[used]) * bound) & _LOW_HALF >= reject
    return filled // routing.d, used


@njit(**_OPTIONS)
def route(routing: Routing, words: NDArray[np.uint32], targets: NDArray[np.uint32], rows: int) -> Any:
    """Turn words into the servers sampled by `rows` arrivals, d in a row, as far as words last.

    An arrival that takes one uniform queue samples it d times. Returns arrivals and words used.
    """
    if routing.replacement and routing.fraction == 1.0:
        return route_plainly(routing, words, targets, rows)
    bound, d, word, first = np.uint64(routing.N), routing.d, 0, 0
    reject = _WORDS % bound
    last = rows * d
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
            word = sample_many(words, word, bound, routing.order, targets[first : first + d])
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
def route_on(routing: Routing, draws: Draws, rows: int) -> int:
    """Fill the last `rows` rows of targets; return and note how many are missing for want of room for words.

    Words that are left over go in front of the next ones: too many if one arrival alone takes more.
    """
    targets, halves, used = draws.targets, routing.halves, routing.used
    words = routing.source.words
    room = halves.size - 2 * words.size
    while True:
        first = targets.size - rows * routing.d
        filled, spent = route(routing, halves[used[0] :], targets[first:], rows)
        rows -= filled
        used[0] += spent
        left = halves.size - used[0]
        if rows == 0 or left > room:
            routing.used[1] = rows
            return rows
        for k in range(left):
            halves[room - left + k] = halves[used[0] + k]
        used[0] = room - left
        fill_words(routing.source.state, words)


@njit(**_OPTIONS)
def next_targets(routing: Routing, draws: Draws) -> int:
    """Move the rows of targets that are looked at ahead to the front, and fill those behind as `route_on`."""
    for k in range(draws.ahead):
        draws.targets[k] = draws.targets[draws.targets.size - draws.ahead + k]
    missing: int = route_on(routing, draws, draws.gaps.size)
    return missing
