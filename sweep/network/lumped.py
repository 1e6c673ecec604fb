"""Exact simulation of a replica of SQ(d) with exponential service, lumped to counts of queue lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.cell import Cell
from sweep.network import lumped_kernels as kernels
from sweep.network.lumped_method import choose_method
from sweep.network.lumped_sources import Source, arrivals_of, completions_of
from sweep.network.path import check_columns
from sweep.network.start import lengths_at_start

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

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
    averages: bool = False,
    block: int | None = None,
    at_once: bool | None = None,
) -> LumpedPath:
    """Simulate one replica with exponential service by its numbers of queues of length ≥ ℓ alone, exactly.

    Arguments must be checked already, as for `run_path`. The law is that of the network simulated server by
    server, from the same queue lengths; the path is another one, though with the same arrival times. It
    depends on neither times, levels nor the last three arguments.

    Parameters
    ----------
    cell
        The network; its service law must be exponential. Ages at the start do not matter then.
    times
        Increasing times ≥ 0 to store, shape (t,), in mean service times.
    seed, replica
        Root seed and number of the replica, ≥ 0.
    levels
        Queue lengths ℓ = 1 … `levels` to store; None for the longest queue seen at a stored time, at least 1.
    averages
        Whether S_ℓ and X are averaged over each interval that ends at a stored time, the first from 0.
    block
        Random numbers drawn at a time.
    at_once
        Whether events are applied in groups where their order cannot matter; None where that is faster.

    Returns
    -------
    LumpedPath
        Counts at the stored times.

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
    >>> path = run_lumped(cell, times=np.array([0.0, 20.0]), seed=1, replica=0, levels=3)
    >>> bool(np.allclose(path.arrays()["S"][1], [0.5, 0.5**3, 0.5**7], atol=0.01)), path.longest < 8
    (True, True)
    """
    choose_method(cell, method="lumped")
    rate = (cell.lam + 1.0) * cell.N
    slot = min(max(_LEAST, math.isqrt(cell.N) // 4), _MOST) / rate
    grouped = cell.N >= _MANY if at_once is None else at_once
    size = block or math.ceil(min(BLOCK, 1.1 * rate * float(times[-1]) + 32))
    arrivals, completions = arrivals_of(cell, seed, replica, size), completions_of(cell, seed, replica, size)
    start = lengths_at_start(cell, seed, replica)
    counts, tables, clock = _start(start, arrivals), _tables(times.size, levels or _COLUMNS), np.zeros(1)
    areas = _areas(counts, tables) if averages else None
    while True:
        sources = (arrivals.events, completions.events)
        widen = levels is None
        reason = kernels.run(times, slot, grouped, widen, clock, *sources, counts, tables, areas)
        if reason == kernels.DONE:
            break
        if reason == kernels.LEVELS:
            counts, areas = _with_room(counts, areas, sources[0].gaps.size)
        elif reason == kernels.COLUMNS:
            columns = 2 * int(counts.totals[2])
            check_columns(columns, times.size)
            tables, areas = _with_columns(tables, areas, columns)
        else:
            arrivals.refill(reason == kernels.ARRIVAL_GAPS, reason == kernels.ARRIVAL_PLACES)
            completions.refill(reason == kernels.COMPLETION_GAPS, reason == kernels.COMPLETION_PLACES)
    jobs = sum(length * count for length, count in enumerate(start.tolist()))
    return _path(cell.N, jobs, times, counts, tables, areas, levels)


@dataclass(frozen=True, kw_only=True)
class LumpedPath:
    """What was seen of a path: counts at the stored times.

    `S` and `D` have shape (t, level): queues of length ≥ ℓ, and completions so far from those. `X`, jobs, and
    `E`, arrivals so far, have shape (t,), and so has `R_E`, the time since the last arrival. `longest` is the
    length of the longest queue at any time up to the last stored one. `averages` holds S_average (t, level)
    and X_average (t,) per server, of the interval that ends at t, where they were asked for. There are no
    snapshots: `ages` and `lengths` have none.
    """

    N: int
    S: Integers
    D: Integers
    X: Integers
    E: Integers
    R_E: Floats
    longest: int
    averages: dict[str, Floats]

    @property
    def levels(self) -> int:
        """Number of levels that are stored."""
        return int(self.S.shape[1])

    @property
    def ages(self) -> Floats:
        """Ages at no snapshot, shape (0, N)."""
        return np.empty((0, self.N))

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Queue lengths at no snapshot, shape (0, N)."""
        return np.empty((0, self.N), dtype=np.int32)

    def arrays(self, ages: Floats | None = None) -> dict[str, Any]:  # noqa: ARG002  as of `Path`
        """Return S, D, X, E per server, R_E, longest, and the averages where there are any."""
        counts = {name: getattr(self, name) / self.N for name in ("S", "D", "X", "E")}
        return {**counts, "R_E": self.R_E, "longest": np.int64(self.longest), **self.averages}


def _start(start: Integers, arrivals: Source) -> kernels.Counts:
    """Return the counts at time 0, of so many queues with 0, 1, 2, … jobs."""
    size = start.size + _ROOM
    longer, departed, joined, served = (np.zeros(size, dtype=np.int64) for _ in range(4))
    longer[1 : start.size] = start[:0:-1].cumsum()[::-1]
    return kernels.Counts(
        longer=longer,
        departed=departed,
        totals=np.array([0, 0, start.size - 1, 0]),
        arrived=np.array([arrivals.last]),
        joined=joined,
        served=served,
    )


def _tables(times: int, columns: int) -> kernels.Tables:
    S, D = (np.zeros((times, columns), dtype=np.int64) for _ in range(2))
    return kernels.Tables(S=S, D=D, totals=np.zeros((times, 2), dtype=np.int64), R_E=np.zeros(times))


def _areas(counts: kernels.Counts, tables: kernels.Tables) -> kernels.Areas:
    raised, lowered = (np.zeros(counts.longer.size) for _ in range(2))
    S, X = np.zeros(tables.S.shape), np.zeros(len(tables.S))
    return kernels.Areas(raised=raised, lowered=lowered, before=counts.longer.copy(), S=S, X=X)


def _with_room(
    counts: kernels.Counts, areas: kernels.Areas | None, more: int
) -> tuple[kernels.Counts, kernels.Areas | None]:
    """Return the same with room for `more` levels."""
    names: tuple[str, ...] = ("longer", "departed", "joined", "served")
    counts = counts._replace(**{name: np.pad(getattr(counts, name), (0, more)) for name in names})
    if areas is not None:
        names = ("raised", "lowered", "before")
        areas = areas._replace(**{name: np.pad(getattr(areas, name), (0, more)) for name in names})
    return counts, areas


def _with_columns(
    tables: kernels.Tables, areas: kernels.Areas | None, columns: int
) -> tuple[kernels.Tables, kernels.Areas | None]:
    """Return the same with as many columns."""
    wider = ((0, 0), (0, columns - tables.S.shape[1]))
    if areas is not None:
        areas = areas._replace(S=np.pad(areas.S, wider))
    return tables._replace(S=np.pad(tables.S, wider), D=np.pad(tables.D, wider)), areas


def _path(
    N: int,
    jobs: int,
    times: Floats,
    counts: kernels.Counts,
    tables: kernels.Tables,
    areas: kernels.Areas | None,
    levels: int | None,
) -> LumpedPath:
    """Return what was stored; without `levels`, up to the longest queue at a stored time."""
    if levels is None:
        levels = max(1, int(np.count_nonzero(tables.S.any(axis=0))))
    arrived, gone = tables.totals.T
    averages = {}
    if areas is not None:
        # Of an interval of no length, the first from 0 to 0, it is the value itself.
        lasting = np.diff(times, prepend=0.0)
        empty, area = lasting == 0.0, np.column_stack([areas.X, areas.S[:, :levels]])
        area[empty] = np.column_stack([jobs + arrived - gone, tables.S[:, :levels]])[empty]
        means = area / (N * np.where(empty, 1.0, lasting))[:, np.newaxis]
        averages = {"S_average": means[:, 1:], "X_average": means[:, 0]}
    return LumpedPath(
        N=N,
        S=tables.S[:, :levels],
        D=tables.D[:, :levels],
        X=jobs + arrived - gone,
        E=arrived,
        R_E=tables.R_E,
        longest=int(counts.totals[2]),
        averages=averages,
    )
