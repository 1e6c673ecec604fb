"""Events of the network lumped to level counts, drawn ahead: arrivals, and completions offered to servers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.network import lumped_kernels as kernels
from sweep.network.gaps import Gaps
from sweep.network.place_kernels import GROUP, Sampling, sample_places
from sweep.network.supply import Words, sampler
from sweep.seeds import Purpose, stream

Floats = NDArray[np.float64]


class Source:
    """A stream of events, drawn in blocks; what is unused of a block is kept."""

    def __init__(
        self,
        fill: Callable[[Floats], None],
        words: Words,
        sampling: Sampling,
        scale: float,
        block: int,
        age: float = 0.0,
    ) -> None:
        self.last = -age * scale  # when the last event before time 0 was
        self._fill, self._words, self._sampling, self._block = fill, words, sampling, block
        self._rest = np.empty(0, dtype=np.uint32)
        self._places = np.empty(2 * max(block, GROUP), dtype=np.uint32)
        gaps = self._more_gaps(np.empty(0))
        self.events = kernels.Events(
            gaps=gaps, places=self._places[:0], scale=scale, time=gaps[:1] * scale, used=np.array([1, 0])
        )

    def refill(self, gaps: bool, places: bool) -> None:
        """Draw another block of gaps or of places where it is needed or will be soon.

        Each call of the kernel has its price: what is used up by half is refilled on the same occasion.
        """
        events = self.events
        if gaps or 2 * (events.gaps.size - events.used[0]) < self._block:
            self.events = events._replace(gaps=self._more_gaps(events.gaps[events.used[0] :]))
            events.used[0] = 0
        if places or 2 * (events.places.size - events.used[1]) < self._block:
            self.events = self.events._replace(places=self._more_places(events.places[events.used[1] :]))
            events.used[1] = 0

    def _more_gaps(self, unused: Floats) -> Floats:
        """Draw a block of gaps behind the unused ones."""
        gaps = np.empty(unused.size + self._block)
        gaps[: unused.size] = unused
        self._fill(gaps[unused.size :])
        return gaps

    def _more_places(self, unused: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Turn words at hand into places behind the unused ones; draw more words only if they give none."""
        first = unused.size
        if 2 * first > self._places.size:
            self._places = np.pad(self._places, (0, self._places.size))
        self._places[:first] = unused
        while True:
            filled, spent = sample_places(self._sampling, self._rest, self._places[first:])
            self._rest = self._rest[spent:]
            if filled:
                return self._places[: first + filled]
            # The same halves in the same order on every machine.
            halves = self._words.draw(self._block).astype("<u8", copy=False).view("<u4")
            self._rest = np.concatenate([self._rest, halves])


def arrivals_of(cell: Cell, seed: int, replica: int, block: int) -> Source:
    """Arrivals of jobs, each at the place of the shortest of the queues it samples."""
    gaps = Gaps(cell, stream(seed, cell.key, replica, Purpose.ARRIVALS), sampler)
    words = Words(stream(seed, cell.key, replica, Purpose.ROUTING))
    sampling = Sampling(cell.N, cell.d, cell.fraction, cell.replacement)
    return Source(gaps.fill, words, sampling, 1.0 / (cell.lam * cell.N), block, gaps.age)


def completions_of(cell: Cell, seed: int, replica: int, block: int) -> Source:
    """Completions offered to servers, busy or not, at rate 1 each."""
    # Gaps and places are drawn in blocks that do not keep step: they need generators of their own. The same
    # stream seeds both, one after the other.
    rng = stream(seed, cell.key, replica, Purpose.SERVICES)
    fill, words = sampler(cell.G, rng), Words(rng)
    return Source(fill, words, Sampling(cell.N, 1, 1.0, True), 1.0 / cell.N, block)
