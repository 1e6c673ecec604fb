"""What was seen of a path of the N-server network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.arguments import check_memory

if TYPE_CHECKING:
    from sweep.cell import Cell

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Queue lengths counted at a time, so that memory stays modest.
_CHUNK = 1 << 20
#: Bytes of what is counted and returned at a time and level, at the peak, and most jobs in a queue that is
#: noted in 32 bits, with room for chance.
_TABLE_BYTES, _MOST_NOTED = 48, 2.0e9


@dataclass(frozen=True, kw_only=True)
class Path:
    """What was seen of a path: event counts by time bin and level, and ages and lengths at each snapshot.

    `arrivals` and `departures` have shape (t, level + 1), cumulated in time; the last column holds all
    levels above. `ages` and `lengths` have shape (snapshot, N); the age of an idle server is 0. `R_E` has
    shape (t,). `averages` holds what was asked for of S_average (t, level), X_average, time_in_system and
    waiting_time (t,).
    """

    lengths0: NDArray[np.int32]
    arrivals: Integers
    departures: Integers
    ages: Floats
    lengths: NDArray[np.int32]
    R_E: Floats | None = None
    longest: int | None = None
    averages: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def levels(self) -> int:
        """Number of levels that are counted one by one."""
        return int(self.arrivals.shape[1]) - 1

    def arrays(self, ages: Floats) -> dict[str, NDArray[Any]]:
        """Return S, D, X, E, R_E, longest, averages and, with snapshots, nu_cdf on `ages` up to inf."""
        levels, N = self.levels, self.lengths0.size
        longer = tails(self.lengths0, levels) + self.arrivals[:, :levels] - self.departures[:, :levels]
        total, gone = self.arrivals.sum(axis=1), self.departures.sum(axis=1)
        arrays: dict[str, NDArray[Any]] = {
            "S": longer / N,
            "D": _at_least(self.departures)[:, :levels] / N,
            "X": (int(self.lengths0.sum(dtype=np.int64)) + total - gone) / N,
            "E": total / N,
        }
        if self.R_E is not None:
            arrays["R_E"] = self.R_E
        if self.longest is not None:
            arrays["longest"] = np.array(self.longest)
        if len(self.ages):
            arrays["nu_cdf"] = self._age_counts(ages) / N
        return {**arrays, **self.averages}

    def _age_counts(self, ages: Floats) -> Integers:
        """Queues of length ≥ ℓ that serve a job of age ≤ a, shape (snapshot, level, age)."""
        counts = np.zeros((len(self.ages), self.levels + 1, ages.size), dtype=np.int64)
        for k, (age, length) in enumerate(zip(self.ages, self.lengths, strict=True)):
            busy = length > 0
            column = np.searchsorted(ages, age[busy])
            row = np.minimum(length[busy], self.levels + 1) - 1
            cells = np.bincount(row.astype(np.int64) * ages.size + column, minlength=counts[k].size)
            counts[k] = cells.reshape(counts[k].shape)
        cumulated: Integers = counts[:, ::-1].cumsum(axis=1)[:, ::-1].cumsum(axis=2)
        return cumulated[:, : self.levels]


def check_columns(levels: int, times: int) -> None:
    """Refuse automatic tables of so many levels and times that memory does not hold.

    Raises
    ------
    ValueError
        Too large ones.
    """
    cure = "give levels, take fewer times or start with shorter queues"
    check_memory("automatic levels", levels, float(_TABLE_BYTES * levels) * times, cure)


def check_noted(cell: Cell, end: float) -> None:
    """Refuse a time up to which queues may grow longer than a length of 32 bits, of which no more are noted.

    Raises
    ------
    ValueError
        Two billion jobs or more that arrive at each server.
    """
    jobs = float(cell.mean_arrivals(np.array([end]))[0])
    if jobs >= _MOST_NOTED:
        raise ValueError(
            f"times must end before {_MOST_NOTED:.0e} jobs have arrived at a server whose length is noted, "
            f"got {end:g} with lam = {cell.lam:g}: those are {jobs:.1e} jobs; take an earlier last time, or "
            'no snapshots and routing = "sampled"'
        )


def trim(lengths0: NDArray[np.int32], arrivals: Integers, departures: Integers) -> tuple[Integers, Integers]:
    """Cut the tables behind the highest level seen at a stored time; the rest is the overflow column."""
    columns = arrivals.shape[1] - 1  # the last one holds all levels above
    moved = (arrivals - departures)[:, :columns]
    seen = np.flatnonzero((tails(lengths0, columns) + moved).any(axis=0))
    levels = int(seen[-1]) + 1 if seen.size else 1
    first, second = (
        np.column_stack([table[:, :levels], table[:, levels:].sum(axis=1)])
        for table in (arrivals, departures)
    )
    return first, second


def tails(lengths: NDArray[np.int32], levels: int) -> Integers:
    """Return how many queues have length ≥ ℓ for ℓ = 1 … `levels`, shape (levels,)."""
    counts = np.zeros(levels + 2, dtype=np.int64)
    for first in range(0, lengths.size, _CHUNK):
        clipped = np.minimum(lengths[first : first + _CHUNK], levels + 1)
        counts += np.bincount(clipped, minlength=levels + 2)
    return _at_least(counts)[1 : levels + 1]


def _at_least(counts: Integers) -> Integers:
    """Sum the last axis from the top: counts at exactly ℓ become counts at ℓ or more."""
    return counts[..., ::-1].cumsum(axis=-1)[..., ::-1]
