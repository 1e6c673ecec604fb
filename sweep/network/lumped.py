"""Exact simulation of a replica of SQ(d) with exponential service, lumped to counts of queue lengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.laws import Exponential
from sweep.network import lumped_kernels as kernels
from sweep.network.supply import sampler
from sweep.seeds import Purpose, stream

Floats = NDArray[np.float64]

#: Most random numbers drawn ahead, per stream; results do not depend on it.
BLOCK = 1 << 14
#: Room for levels above the longest initial queue, at first.
_ROOM = 1 << 10
#: Columns the tables start with when the number of levels is automatic.
_COLUMNS = 16
#: Events in a slot, about; in between √N/4, as the order of c events matters with probability c²/N or so.
_LEAST, _MOST = 16, 1 << 9
#: Servers from which on slots are applied at once: below, too many fail.
_MANY = 4096


def run_lumped(
    cell: Cell,
    *,
    times: Floats,
    seed: int,
    replica: int,
    levels: int | None,
    block: int | None = None,
    at_once: bool | None = None,
) -> dict[str, NDArray[Any]]:
    """Simulate one replica with exponential service by its numbers of queues of length ≥ ℓ alone, exactly.

    Arguments must be checked already, as for `run_replica`. The law is that of the network simulated server
    by server; the path is another one, though with the same arrival times. It depends on neither times,
    levels nor the last two arguments.

    Parameters
    ----------
    cell
        The network; its service law must be exponential.
    times
        Increasing times ≥ 0 to store, shape (t,), in mean service times.
    seed, replica
        Root seed and number of the replica, ≥ 0.
    levels
        Queue lengths ℓ = 1 … `levels` to store; None for the longest queue seen at a stored time, at least 1.
    block
        Random numbers drawn at a time.
    at_once
        Whether events are applied in groups where their order cannot matter; None where that is faster.

    Returns
    -------
    dict
        S (t, level), D (t, level), X (t), E (t) per server, float64, as of `run_replica`, and `highest`, an
        int64 without dimensions: the length of the longest queue at any time up to the last stored one.

    Raises
    ------
    ValueError
        Service that is not exponential.

    Notes
    -----
    With exponential service the counts S_ℓ are a Markov chain: an arrival that finds a share S_ℓ/N of queues
    of length ≥ ℓ joins one of them with probability φ(S_ℓ/N), and each busy server completes at rate 1. Here
    every server, busy or not, is offered a completion at rate 1, and an idle one ignores it: the times and
    places of completions are then independent of the state, like those of arrivals. Memory is independent
    of N, and so is the time of an event.

    Examples
    --------
    >>> cell = Cell(N=10**5, d=2, lam=0.5, G="exponential")
    >>> arrays = run_lumped(cell, times=np.array([0.0, 20.0]), seed=1, replica=0, levels=3)
    >>> bool(np.allclose(arrays["S"][1], [0.5, 0.5**3, 0.5**7], atol=0.01)), int(arrays["highest"]) < 8
    (True, True)
    """
    if not isinstance(cell.G, Exponential):
        raise ValueError(f"G must be exponential to lump the network to level counts, got {cell.G}")
    rate = (cell.lam + 1.0) * cell.N
    slot = min(max(_LEAST, math.isqrt(cell.N) // 4), _MOST) / rate
    grouped = cell.N >= _MANY if at_once is None else at_once
    size = block or math.ceil(min(BLOCK, 1.1 * rate * float(times[-1]) + 32))
    arrivals, completions = _arrivals(cell, seed, replica, size), _completions(cell, seed, replica, size)
    counts, tables, clock = _start(cell), _tables(times.size, levels or _COLUMNS), np.zeros(1)
    while True:
        sources = (arrivals.events, completions.events)
        reason = kernels.run(times, slot, grouped, levels is None, clock, *sources, counts, tables)
        if reason == kernels.DONE:
            break
        if reason == kernels.LEVELS:
            counts = _with_room(counts, sources[0].gaps.size)
        elif reason == kernels.COLUMNS:
            tables = _with_columns(tables, 2 * int(counts.totals[2]))
        elif reason in (kernels.ARRIVAL_GAPS, kernels.ARRIVAL_PLACES):
            arrivals.refill(reason == kernels.ARRIVAL_GAPS)
        else:
            completions.refill(reason == kernels.COMPLETION_GAPS)
    return _arrays(cell, counts, tables, levels)


class _Source:
    """A stream of events, drawn in blocks; what is unused of a block is kept."""

    def __init__(
        self,
        draw: Callable[[int], Floats],
        words: np.random.BitGenerator,
        sampling: kernels.Sampling,
        scale: float,
        block: int,
    ) -> None:
        self._draw, self._words, self._sampling, self._block = draw, words, sampling, block
        self._rest = np.empty(0, dtype=np.uint32)
        self._places = np.empty(2 * max(block, kernels.GROUP), dtype=np.uint32)
        gaps = draw(block)
        self.events = kernels.Events(
            gaps=gaps, places=self._places[:0], scale=scale, time=gaps[:1] * scale, used=np.array([1, 0])
        )

    def refill(self, gaps: bool) -> None:
        """Draw another block of gaps or of places."""
        events = self.events
        if gaps:
            self.events = events._replace(
                gaps=np.concatenate([events.gaps[events.used[0] :], self._draw(self._block)])
            )
            events.used[0] = 0
        else:
            self.events = events._replace(places=self._more_places(events.places[events.used[1] :]))
            events.used[1] = 0

    def _more_places(self, unused: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Turn words at hand into places behind the unused ones; draw more words only if they give none."""
        first = unused.size
        if 2 * first > self._places.size:
            self._places = np.pad(self._places, (0, self._places.size))
        self._places[:first] = unused
        while True:
            filled, spent = kernels.sample_places(self._sampling, self._rest, self._places[first:])
            self._rest = self._rest[spent:]
            if filled:
                return self._places[: first + filled]
            raw = self._words.random_raw(self._block)
            self._rest = np.concatenate([self._rest, raw.astype("<u8", copy=False).view("<u4")])


def _arrivals(cell: Cell, seed: int, replica: int, block: int) -> _Source:
    """Arrivals of jobs, each at the place of the shortest of the queues it samples."""
    fill = sampler(cell.arrivals, stream(seed, cell.key, replica, Purpose.ARRIVALS))
    words = stream(seed, cell.key, replica, Purpose.ROUTING).bit_generator
    sampling = kernels.Sampling(cell.N, cell.d, cell.fraction, cell.replacement)

    def draw(size: int) -> Floats:
        gaps = np.empty(size)
        fill(gaps)
        return gaps

    return _Source(draw, words, sampling, 1.0 / (cell.lam * cell.N), block)


def _completions(cell: Cell, seed: int, replica: int, block: int) -> _Source:
    """Completions offered to servers, busy or not, at rate 1 each."""
    gaps = stream(seed, cell.key, replica, Purpose.SERVICES)
    # Gaps and places are drawn in blocks that do not keep step: they need streams of their own. This one is
    # 2¹²⁷ numbers on in the period of the generator.
    words: Any = stream(seed, cell.key, replica, Purpose.SERVICES).bit_generator
    sampling = kernels.Sampling(cell.N, 1, 1.0, True)
    return _Source(gaps.standard_exponential, words.jumped(), sampling, 1.0 / cell.N, block)


def _start(cell: Cell) -> kernels.Counts:
    """Return the counts at time 0."""
    size = cell.initial.longest + _ROOM
    longer, departed, joined, served = (np.zeros(size, dtype=np.int64) for _ in range(4))
    for length, count in cell.initial.counts(cell.N):
        longer[1 : length + 1] += count
    totals = np.array([0, 0, cell.initial.longest, 0])
    return kernels.Counts(longer=longer, departed=departed, totals=totals, joined=joined, served=served)


def _tables(times: int, columns: int) -> kernels.Tables:
    S, D = (np.zeros((times, columns), dtype=np.int64) for _ in range(2))
    return kernels.Tables(S=S, D=D, totals=np.zeros((times, 2), dtype=np.int64))


def _with_room(counts: kernels.Counts, more: int) -> kernels.Counts:
    """Return the same counts with room for `more` levels."""
    names = ("longer", "departed", "joined", "served")
    return counts._replace(**{name: np.pad(getattr(counts, name), (0, more)) for name in names})


def _with_columns(tables: kernels.Tables, columns: int) -> kernels.Tables:
    """Return the same tables with as many columns."""
    wider = ((0, 0), (0, columns - tables.S.shape[1]))
    return tables._replace(S=np.pad(tables.S, wider), D=np.pad(tables.D, wider))


def _arrays(
    cell: Cell, counts: kernels.Counts, tables: kernels.Tables, levels: int | None
) -> dict[str, NDArray[Any]]:
    """Return what was stored, per server; without `levels`, up to the longest queue at a stored time."""
    if levels is None:
        levels = max(1, int(np.count_nonzero(tables.S.any(axis=0))))
    start = sum(length * count for length, count in cell.initial.counts(cell.N))
    arrived, gone = tables.totals.T
    return {
        "S": tables.S[:, :levels] / cell.N,
        "D": tables.D[:, :levels] / cell.N,
        "X": (start + arrived - gone) / cell.N,
        "E": arrived / cell.N,
        "highest": counts.totals[2],
    }
