"""The random numbers of a replica, drawn ahead of the kernel that uses them up."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.laws import Exponential, Law
from sweep.network import random_kernels, state
from sweep.seeds import Purpose, stream

Floats = NDArray[np.float64]

#: Most arrivals drawn ahead: few enough to stay in the second cache. Results do not depend on it.
BLOCK = 1 << 14
#: Generators that a stream of words is dealt from. Another value gives other numbers, under another
#: `NUMBERS_VERSION`.
LANES = 128
#: Rounds without output that mix the seed of a generator into all its words, as many as NumPy's SFC64 takes.
_MIXING = 12


class Words:
    """A stream of random 64-bit words, dealt from `LANES` SFC64 generators that `rng` seeds."""

    def __init__(self, rng: np.random.Generator) -> None:
        seeds = rng.bit_generator.random_raw(3 * LANES).reshape(3, LANES)
        self._state = np.concatenate([seeds, np.ones((1, LANES), dtype=np.uint64)])
        self._rest = np.empty(0, dtype=np.uint64)
        self._fill(np.empty(_MIXING * LANES, dtype=np.uint64))

    def _fill(self, words: NDArray[np.uint64]) -> None:
        with np.errstate(over="ignore"):  # sums are modulo 2⁶⁴, of which kernels warn when not compiled
            random_kernels.fill_words(self._state, words)

    def draw(self, size: int) -> NDArray[np.uint64]:
        """Return the next `size` words."""
        missing = size - self._rest.size
        if missing > 0:
            fresh = np.empty(math.ceil(missing / LANES) * LANES, dtype=np.uint64)
            self._fill(fresh)
            self._rest = np.concatenate([self._rest, fresh]) if self._rest.size else fresh
        words, self._rest = self._rest[:size], self._rest[size:]
        return words


def sampler(law: Law, rng: np.random.Generator) -> Callable[[Floats], None]:
    """Return what fills an array with the next times of a law.

    Exponential times, the most frequent by far, are made in bulk.
    """
    if isinstance(law, Exponential):
        return partial(_fill_exponential, Words(rng))
    return partial(_fill, law, rng)


def _fill_exponential(words: Words, times: Floats) -> None:
    random_kernels.exponential_times(words.draw(times.size), times)


def _fill(law: Law, rng: np.random.Generator, times: Floats) -> None:
    times[:] = law.sample(rng, times.size)


class Supply:
    """The three streams of a replica in buffers, which `refill` fills up again."""

    def __init__(self, cell: Cell, seed: int, replica: int, block: int) -> None:
        gaps, services, words = (
            stream(seed, cell.key, replica, purpose)
            for purpose in (Purpose.ARRIVALS, Purpose.SERVICES, Purpose.ROUTING)
        )
        self._gaps, self._services = sampler(cell.arrivals, gaps), sampler(cell.G, services)
        self._words, self._block = Words(words), block
        rows = max(1, min(block, 2 * block // cell.d))
        self._routing = state.Routing(cell.N, cell.d, cell.fraction, cell.replacement, rows)
        shuffles = not cell.replacement and 2 * cell.d > cell.N
        self._order = np.empty(cell.N if shuffles else 0, dtype=np.uint32)
        self._rest = np.empty(0, dtype=np.uint32)
        self.draws = state.Draws(
            gaps=np.empty(rows),
            # Twice the least, as `refill` leaves the latter half alone.
            services=np.empty(max(rows + rows // 4, 2 * state.least_services(cell.N, cell.d))),
            # Servers behind the rows that are filled are looked at ahead of time: they must exist.
            targets=np.zeros((rows + state.PADDING) * cell.d, dtype=np.uint32),
            d=cell.d,
            ahead=state.PADDING * cell.d,
        )

    def initial_services(self, size: int) -> Floats:
        """Draw the service times of jobs that are in service at time 0."""
        times = np.empty(size)
        self._services(times)
        return times

    def refill(self, used: NDArray[np.int64]) -> None:
        """Fill up what is used up: arrivals when none is left, services too unless half of them are left."""
        draws = self.draws
        if used[0] == draws.gaps.size:
            self._gaps(draws.gaps)
            self._route()
            used[0] = 0
        if 2 * used[1] > draws.services.size:
            left = draws.services.size - used[1]
            draws.services[:left] = draws.services[used[1] :]
            self._services(draws.services[left:])
            used[1] = 0

    def _route(self) -> None:
        """Fill all rows of targets."""
        rows = self._routing.rows
        while rows:
            targets = self.draws.targets[(self._routing.rows - rows) * self._routing.d :]
            filled, spent = random_kernels.route(
                self._routing._replace(rows=rows), self._rest, targets, self._order
            )
            rows -= filled
            self._rest = self._rest[spent:]
            if rows:
                # The same halves in the same order on every machine.
                halves = self._words.draw(self._block).astype("<u8", copy=False).view("<u4")
                self._rest = np.concatenate([self._rest, halves]) if self._rest.size else halves
