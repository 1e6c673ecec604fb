"""Exact simulation of one replica of the N-server network SQ(d)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.cell import Cell, check_count
from sweep.grids import check_ages, check_levels, check_snapshots, check_times
from sweep.initial import Initial
from sweep.laws import Law
from sweep.network import kernels, state
from sweep.network.supply import BLOCK, Supply
from sweep.schema import dataset

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Levels the tables start with when their number is automatic.
_LEVELS = 16


def simulate(
    *,
    N: int,
    d: int,
    lam: float,
    G: str | Law,
    times: ArrayLike,
    seed: int,
    replica: int = 0,
    levels: int | None = None,
    arrivals: str | Law = "exponential",
    initial: str | Initial = "empty",
    replacement: bool = True,
    fraction: float = 1.0,
    snapshots: ArrayLike = (),
    ages: ArrayLike | None = None,
) -> xr.Dataset:
    """Simulate one replica of the N-server network SQ(d), exactly.

    N servers with infinite FCFS queues serve jobs of unit mean service time. A job arrives, samples d queues
    uniformly and joins the shortest, ties uniformly; all but a share `fraction` of jobs join one uniform
    queue. Paths are càdlàg: an event at a stored time counts there. Among simultaneous events departures
    come before arrivals, and equal arrivals are served in the order they were generated.

    Parameters
    ----------
    N
        Number of servers, below 2³².
    d
        Queues sampled by an arrival, ≥ 1.
    lam
        Arrival rate per server λ > 0, in units of the service rate; λ ≥ 1 is simulated as well.
    G
        Service law, e.g. "lomax(beta=1.5)".
    times
        Increasing times ≥ 0 to store, shape (t,), in mean service times. The last is the horizon.
    seed
        Root seed ≥ 0. Together with the parameters above (but not `times`), those below that define the
        law, and `replica` it determines the path; times, levels and snapshots only select what is seen of it.
    replica
        Which of the independent replicas, from 0.
    levels
        Queue lengths ℓ = 1 … `levels` to store; the longest queue seen at a stored time by default.
    arrivals
        Law of the gaps between arrivals, scaled to mean 1/(λN). The first gap is an ordinary one.
    initial
        "empty", or "lengths(2: 0.2, 3: 0.8)": exact proportions, all services fresh at time 0.
    replacement
        Whether the d queues are sampled with replacement.
    fraction
        Share p of arrivals that use d choices.
    snapshots
        Increasing times in [0, horizon] at which ages of jobs in service are taken.
    ages
        Increasing ages a ≥ 0 of the stored distributions; inf is appended. By default 65 ages from 0 to the
        last snapshot.

    Returns
    -------
    xarray.Dataset
        S (t, level), D (t, level), X (t), E (t), all per server and dimensionless, and with `snapshots`
        also nu_cdf (snapshot, level, age). X counts all jobs, and D the completions from queues of length ≥
        ℓ just before, whatever `levels` is.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range, before anything is computed.

    Notes
    -----
    The network and S^(N), D^(N), X^(N), E^(N) are those of section 2 of R. Aghajani and K. Ramanan, The
    hydrodynamic limit of a randomized load balancing network, 2019. Service times are independent of
    routing, so each is drawn when the job enters service, and the departures of a queue are applied when it
    is next probed: no event list. A path costs O(λ N d · horizon) time and 16 bytes per server (32 with
    snapshots, and 20 for each).

    Examples
    --------
    >>> data = simulate(N=1000, d=2, lam=0.9, G="exponential", times=[0.0, 5.0, 10.0], seed=1, levels=3)
    >>> dict(data.sizes)
    {'t': 3, 'level': 3}
    >>> bool(data.X[0] == 0), bool(abs(data.S.sel(t=10, level=1) - 0.9) < 0.05)
    (True, True)
    """
    cell = Cell(
        N=N, d=d, lam=lam, G=G, arrivals=arrivals, initial=initial, replacement=replacement, fraction=fraction
    )
    grid = check_times(times)
    moments = check_snapshots(snapshots, float(grid[-1]))
    bounds = check_ages(ages, moments)
    path = run_path(
        cell,
        times=grid,
        seed=check_count("seed", seed, 0),
        replica=check_count("replica", replica, 0),
        levels=check_levels(levels),
        snapshots=moments,
    )
    arrays = path.arrays(bounds)
    coordinates = {
        "t": grid,
        "level": np.arange(1, path.levels + 1),
        "snapshot": moments,
        "age": bounds,
    }
    return dataset("network", arrays, coordinates)


def run_replica(
    cell: Cell,
    *,
    times: Floats,
    seed: int,
    replica: int,
    levels: int,
    snapshots: Floats,
    ages: Floats,
) -> dict[str, Floats]:
    """Return the arrays of one replica: what `simulate` labels, for arguments that are checked already."""
    path = run_path(cell, times=times, seed=seed, replica=replica, levels=levels, snapshots=snapshots)
    return path.arrays(ages)


@dataclass(frozen=True, kw_only=True)
class Path:
    """What was seen of a path: event counts by time bin and level, and ages and lengths at each snapshot.

    `arrivals` and `departures` have shape (t, level + 1), cumulated in time; the last column holds all
    levels above. `ages` and `lengths` have shape (snapshot, N); the age of an idle server is 0.
    """

    lengths0: NDArray[np.int32]
    arrivals: Integers
    departures: Integers
    ages: Floats
    lengths: NDArray[np.int32]

    @property
    def levels(self) -> int:
        """Number of levels that are counted one by one."""
        return int(self.arrivals.shape[1]) - 1

    def arrays(self, ages: Floats) -> dict[str, Floats]:
        """Return S, D, X, E and, if there are snapshots, nu_cdf on `ages` (the last one inf), per server."""
        levels, N = self.levels, self.lengths0.size
        start = _at_least(np.bincount(self.lengths0, minlength=levels + 2)[1:])[:levels]
        longer = start + self.arrivals[:, :levels] - self.departures[:, :levels]
        total, gone = self.arrivals.sum(axis=1), self.departures.sum(axis=1)
        arrays = {
            "S": longer / N,
            "D": _at_least(self.departures)[:, :levels] / N,
            "X": (int(self.lengths0.sum(dtype=np.int64)) + total - gone) / N,
            "E": total / N,
        }
        if len(self.ages):
            arrays["nu_cdf"] = self._age_counts(ages) / N
        return arrays

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


def run_path(
    cell: Cell,
    *,
    times: Floats,
    seed: int,
    replica: int,
    levels: int | None,
    snapshots: Floats,
    block: int | None = None,
) -> Path:
    """Run one replica for arguments that are checked already.

    `levels=None` counts every level up to the longest queue at a stored time, at least 1.

    Raises
    ------
    ValueError
        A start that N servers cannot take exactly.
    """
    lengths0 = cell.initial.lengths(cell.N)
    rules = state.make_rules(cell, max([float(times[-1]), *snapshots.tolist()]), widen=levels is None)
    supply = Supply(cell, seed, replica, block or _block(cell, rules.end))
    draws, scratch = supply.draws, state.make_scratch(cell.N, cell.d)
    clock, bins, watch = state.make_clock(draws), state.make_bins(times), state.make_watch(cell.N, snapshots)
    counts = state.make_counts(bins, max(_LEVELS, cell.initial.longest) if levels is None else levels)
    servers = state.make_servers(lengths0, supply.initial_services(int(np.count_nonzero(lengths0))))
    while True:
        reason = kernels.run(rules, draws, clock, bins, counts, watch, servers, scratch)
        if reason == state.DONE:
            break
        if reason == state.NEEDS_LEVELS:
            wider = ((0, 0), (0, counts.arrivals.shape[1]))
            counts = state.Counts(np.pad(counts.arrivals, wider), np.pad(counts.departures, wider))
        else:
            supply.refill(clock.used)
    arrivals, departures = (table[:-1].cumsum(axis=0) for table in counts)
    if levels is None:
        arrivals, departures = _trim(lengths0, arrivals, departures)
    return Path(
        lengths0=lengths0,
        arrivals=arrivals,
        departures=departures,
        ages=np.empty((0, cell.N)) if watch is None else np.where(watch.lengths > 0, watch.ages, 0.0),
        lengths=np.empty((0, cell.N), dtype=np.int32) if watch is None else watch.lengths,
    )


def _block(cell: Cell, end: float) -> int:
    """Arrivals to draw at a time: about what a short run needs in all."""
    return math.ceil(min(BLOCK, 1.1 * cell.lam * cell.N * end + 32))


def _trim(lengths0: NDArray[np.int32], arrivals: Integers, departures: Integers) -> tuple[Integers, Integers]:
    """Cut the tables behind the highest level seen at a stored time; the rest is the overflow column."""
    columns = arrivals.shape[1]
    start = _at_least(np.bincount(lengths0, minlength=columns + 1)[1:])
    seen = np.flatnonzero((start[:columns] + arrivals - departures).any(axis=0))
    levels = int(seen[-1]) + 1 if seen.size else 1
    first, second = (
        np.column_stack([table[:, :levels], table[:, levels:].sum(axis=1)])
        for table in (arrivals, departures)
    )
    return first, second


def _at_least(counts: Integers) -> Integers:
    """Sum the last axis from the top: counts at exactly ℓ become counts at ℓ or more."""
    return counts[..., ::-1].cumsum(axis=-1)[..., ::-1]
