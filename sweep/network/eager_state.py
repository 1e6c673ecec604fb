"""What the compiled loops of an eager rule work on: random numbers drawn ahead, and the network at time 0."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.network.eager_kernels import DONE, Jobs, Network
from sweep.network.gaps import Gaps
from sweep.network.path import check_columns
from sweep.network.place_kernels import Sampling
from sweep.network.start import servers_at_start
from sweep.network.supply import Words, sampler
from sweep.seeds import Purpose, stream

Floats = NDArray[np.float64]

#: Room for levels above the longest initial queue at first.
_ROOM = 16


class EagerSupply:
    """The three streams of a replica, drawn in blocks."""

    def __init__(self, cell: Cell, seed: int, replica: int, block: int) -> None:
        gaps, services, words = (
            stream(seed, cell.key, replica, purpose)
            for purpose in (Purpose.ARRIVALS, Purpose.SERVICES, Purpose.ROUTING)
        )
        self._gaps, self._services = Gaps(cell, gaps, sampler), sampler(cell.G, services)
        self._words, self._block = Words(words), block
        #: When the last arrival before time 0 was.
        self.last = -self._gaps.age / (cell.lam * cell.N)

    def gaps(self) -> Floats:
        """Draw the next gaps."""
        gaps = np.empty(self._block)
        self._gaps.fill(gaps)
        return gaps

    def services(self, size: int | None = None) -> Floats:
        """Draw the next service times."""
        services = np.empty(self._block if size is None else size)
        self._services(services)
        return services

    def words(self) -> NDArray[np.uint32]:
        """Draw the next 32-bit words, the same in the same order on every machine."""
        return self._words.draw(self._block).astype("<u8", copy=False).view("<u4")


class Tables(NamedTuple):
    """What is counted: stored times; levels, None for all that occur; whether sums, and jobs, are kept."""

    times: Floats
    levels: int | None
    averages: bool = False
    measure: bool = False


def network_at_start(cell: Cell, seed: int, replica: int, supply: EagerSupply, tables: Tables) -> Network:
    """Return the network at time 0, nothing counted yet."""
    N, edges = cell.N, np.append(tables.times, math.inf)
    lengths, started, completions = np.empty(N, dtype=np.int32), np.empty(N), np.empty(N)
    for servers in servers_at_start(cell, seed, replica, supply.services):
        group = slice(servers.first, servers.first + servers.lengths.size)
        lengths[group], started[group] = servers.lengths, -servers.ages
        completions[group] = servers.completions
    server = np.lexsort((np.arange(N), completions)).astype(np.uint32)  # what is sorted is a heap
    row, place, longer = _in_a_row(lengths)
    busy = int(np.count_nonzero(lengths))
    if tables.levels is None:
        check_columns(longer.size, edges.size)
    shape = (edges.size, longer.size if tables.levels is None else tables.levels + 1)
    summed = shape if tables.averages else (0, shape[1])
    return Network(
        sampling=Sampling(N, cell.d, cell.fraction, cell.replacement),
        gaps=supply.gaps(),
        services=supply.services(),
        words=supply.words(),
        used=np.zeros(3, dtype=np.int64),
        time=np.zeros(2),
        scale=1.0 / (cell.lam * N),
        lengths=lengths,
        started=started,
        row=row,
        place=place,
        longer=longer,
        due=completions[server],
        server=server,
        totals=np.array([0, int(lengths.min()), int(lengths.max()), busy, 0, DONE]),
        edges=edges,
        arrivals=np.zeros(shape, dtype=np.int64),
        departures=np.zeros(shape, dtype=np.int64),
        raised=np.zeros(summed),
        lowered=np.zeros(summed),
        sums=np.zeros((edges.size, 2)),
        last=np.full(edges.size, -math.inf),
        jobs=_jobs(lengths if tables.measure else np.empty(0, dtype=np.int32), edges.size),
    )


def _in_a_row(
    lengths: NDArray[np.int32],
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """Return the server at each place, longest queue first, the place of each server, and S_ℓ from 0 on."""
    row = np.argsort(-lengths, kind="stable").astype(np.uint32)
    place = np.empty(lengths.size, dtype=np.uint32)
    place[row] = np.arange(lengths.size, dtype=np.uint32)
    counts = np.bincount(lengths)
    longer = np.zeros(counts.size - 1 + _ROOM, dtype=np.int64)
    longer[: counts.size] = counts[::-1].cumsum()[::-1]
    return row, place, longer


def _jobs(lengths: NDArray[np.int32], bins: int) -> Jobs:
    """Return lists of the jobs at time 0, entries of a queue one after the other; none for no servers."""
    ends = lengths.cumsum(dtype=np.int64)
    size = int(ends[-1]) + 1 if lengths.size else 0
    behind = np.arange(1, size + 1)
    behind[ends - 1] = -1
    behind[-1:] = -1
    return Jobs(
        arrived=np.full(size, -math.inf),
        behind=behind,
        first=np.asarray(ends - lengths, dtype=np.int64),
        last=ends - 1,
        free=np.full(min(1, size), size - 1),
        left=np.zeros((bins, 3)),
    )


def with_entries(jobs: Jobs) -> Jobs:
    """Return the same lists with twice the entries, where all are in use."""
    size = jobs.behind.size
    behind = np.append(jobs.behind, np.append(np.arange(size + 1, 2 * size), -1))
    jobs.free[0] = size
    return jobs._replace(arrived=np.append(jobs.arrived, np.zeros(size)), behind=behind)


def with_levels(network: Network, automatic: bool) -> Network:
    """Return the same network with twice the room for levels, and columns where they are automatic."""
    more = network.longer.size
    network = network._replace(longer=np.pad(network.longer, (0, more)))
    if not automatic:
        return network
    check_columns(2 * more, network.edges.size)
    wider = ((0, 0), (0, more))
    return network._replace(
        arrivals=np.pad(network.arrivals, wider),
        departures=np.pad(network.departures, wider),
        raised=np.pad(network.raised, wider),
        lowered=np.pad(network.lowered, wider),
    )
