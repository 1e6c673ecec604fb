"""Compiled choice of places in a row of queues, longest first: the last of d places has the shortest queue.

Place p, counted from 0, holds a queue of length ≥ ℓ iff p < S_ℓ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_LOW_HALF, _HALF, _WORDS = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(1 << 32)

#: Events whose places are drawn together: another number gives other paths, under another `NUMBERS_VERSION`.
GROUP = 32


class Sampling(NamedTuple):
    """How the place of an event is chosen: the last of d places of N."""

    N: int
    d: int
    fraction: float
    replacement: bool


@njit(**_OPTIONS, forceinline=True)
def uniform(words: NDArray[np.uint32], word: int, bound: Any) -> Any:
    """Return a uniform index below `bound` and the next unused word, beyond the end if words ran dry.

    Multiply-shift with exact rejection (D. Lemire, Fast random integer generation in an interval, 2019).
    """
    while word < words.size:
        product = np.uint64(words[word]) * bound
        low = product & _LOW_HALF
        word += 1
        if low >= bound or low >= _WORDS % bound:
            return np.int64(product >> _HALF), word
    return np.int64(0), word + 1


@njit(**_OPTIONS, forceinline=True)
def last_distinct(words: NDArray[np.uint32], word: int, N: int, d: int) -> Any:
    """Return the last of d distinct places and the next unused word.

    Of the N − k places that are left after k draws, those behind the last one drawn so far are all of the
    places behind it. Let the draw v be uniform below N − k: as many values of v + k are larger than the last
    place as there are places behind it, and the others leave the maximum as it is. For large d it is faster
    to go down from the end, as place p is among d of p + 1 with probability d/(p + 1).
    """
    place = 0
    if d * d <= N:
        for k in range(d):
            draw, word = uniform(words, word, np.uint64(N - k))
            place = max(place, draw + k)
        return place, word
    place = N - 1
    draw, word = uniform(words, word, np.uint64(N))
    while draw >= d and word <= words.size:
        place -= 1
        draw, word = uniform(words, word, np.uint64(place + 1))
    return place, word


@njit(**_OPTIONS, forceinline=True)
def sample_plainly(sampling: Sampling, words: NDArray[np.uint32], places: NDArray[np.uint32]) -> Any:
    """Fill `places` with the last of d places each if no word is near rejection, else return False.

    Distinct places are drawn as in `last_distinct`. The k-th words of all events come before the (k+1)-th:
    the loop runs on vectors.
    """
    least = _LOW_HALF
    places[:] = 0
    for k in range(sampling.d):
        taken = 0 if sampling.replacement else k
        bound, offset = np.uint64(sampling.N - taken), np.uint32(taken)
        row = words[k * GROUP : (k + 1) * GROUP]
        for event in range(GROUP):
            product = np.uint64(row[event]) * bound
            places[event] = max(places[event], np.uint32(product >> _HALF) + offset)
            least = min(least, product & _LOW_HALF)
    return least >= np.uint64(sampling.N)


@njit(**_OPTIONS)
def sample_one(sampling: Sampling, words: NDArray[np.uint32], word: int) -> Any:
    """Return the place of one event and the next unused word, beyond the end if words ran dry."""
    choices = sampling.d if sampling.fraction > 0.0 else 1
    if 0.0 < sampling.fraction < 1.0:
        if word + 2 > words.size:
            return 0, words.size + 1
        # 53 bits of two words: a uniform number below 2⁵³, compared exactly.
        coin = np.float64(words[word] >> 5) * 67108864.0 + np.float64(words[word + 1] >> 6)
        word += 2
        choices = sampling.d if coin < sampling.fraction * 9007199254740992.0 else 1
    if not sampling.replacement and choices > 1:
        return last_distinct(words, word, sampling.N, choices)
    place = 0
    for _ in range(choices):
        draw, word = uniform(words, word, np.uint64(sampling.N))
        place = max(place, draw)
    return place, word


@njit(**_OPTIONS)
def sample_places(sampling: Sampling, words: NDArray[np.uint32], places: NDArray[np.uint32]) -> Any:
    """Turn words into the places of whole groups of events as far as both last; return how many are used."""
    one_by_one = sampling.replacement or sampling.d * sampling.d <= sampling.N
    plain = sampling.d == 1 or (sampling.fraction == 1.0 and one_by_one)
    word, filled = 0, 0
    while filled + GROUP <= places.size:
        start, group = word, places[filled : filled + GROUP]
        if plain:
            word += GROUP * sampling.d
            if word > words.size:
                return filled, start
            if sample_plainly(sampling, words[start:word], group):
                filled += GROUP
                continue
            word = start
        for event in range(GROUP):
            group[event], word = sample_one(sampling, words, word)
        if word > words.size:
            return filled, start
        filled += GROUP
    return filled, word
