"""Exact simulation of one replica of the N-server network SQ(d)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep.arguments import check_count, check_memory, check_switch
from sweep.arrivals import Profile, check_periods
from sweep.cell import Cell
from sweep.delayed import Delayed
from sweep.grids import check_ages, check_levels, check_snapshots, check_tables, check_times
from sweep.initial import Initial
from sweep.laws import Law
from sweep.network import kernels, state
from sweep.network.path import Path as Path
from sweep.network.path import check_columns, check_noted, tails
from sweep.network.path import trim as _trim
from sweep.network.replica import check_method, run_cell
from sweep.network.start import servers_at_start
from sweep.network.supply import BLOCK, Supply
from sweep.schema import dataset

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Levels the tables start with at least when their number is automatic.
_LEVELS = 16
#: Bytes of a server, more for each snapshot, and more where jobs are measured.
_SERVER, _SNAPSHOT, _MEASURED = 20, 36, 24
#: Jobs of one path at most, and looks at servers, one a unit of time at each; days that one takes, about.
_MOST_STEPS, _STEP_DAYS = 1e14, 1e-12


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
    arrivals: str | Law | Delayed | Profile = "exponential",
    initial: str | Initial | tuple[ArrayLike, ArrayLike] = "empty",
    replacement: bool = True,
    fraction: float = 1.0,
    snapshots: ArrayLike = (),
    ages: ArrayLike | None = None,
    averages: bool = False,
    measure: bool = False,
    routing: str = "sampled",
    method: str = "servers",
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
        Law of the gaps between arrivals, scaled to mean 1/(λN). The first gap is an ordinary one, but with
        "renewal(lomax(beta=1.5), age=2)" what is left of one of age 2 on the clock of one server's share, or
        with age=stationary of a process that has run for ever. Or Poisson arrivals of rate λ · profile(t):
        "profile(0: 1.5, 5: 0.5, period=10)".
    initial
        "empty"; "lengths(2: 0.2, 3: 0.8)": exact proportions, services fresh at time 0 or, with a last entry
        ages=equilibrium, of independent ages of density Ḡ; "invariant": servers drawn independently from the
        invariant state of the limit, ages included; "scaled(law(exponential, mean=0.7), m=100)": see
        `sweep.initial.Scaled`; or two arrays (lengths, ages) of shape (N,), with ages of the jobs in service.
    replacement
        Whether the d queues are sampled with replacement.
    fraction
        Share p of arrivals that use d choices.
    snapshots
        Increasing times in [0, horizon] at which ages of jobs in service are taken.
    ages
        Increasing ages a ≥ 0 of the stored distributions; inf is appended. By default 65 ages from 0 to the
        last snapshot.
    averages
        Whether time averages are returned as well, exact, from the time of every event.
    measure
        Whether times in system and waiting times are returned as well, measured job by job.
    routing
        Rule by which arrivals choose: "sampled" as above, "shortest" of all N queues, "idle" (an idle server
        if there is one, else as sampled) or "round-robin".
    method
        "servers"; "lumped", for exponential service and sampled routing, which keeps level counts alone, in
        memory independent of N; or "auto", the faster one for such a cell. All are exact in law; the paths
        differ.

    Returns
    -------
    xarray.Dataset
        S (t, level), D (t, level), X (t), E (t), all per server and dimensionless; R_E (t), the time since
        the last arrival at the network; longest (), the longest queue at any time up to the last stored
        one. X counts all jobs, and D the completions from queues of length ≥ ℓ just before, whatever
        `levels` is. With `snapshots` also nu_cdf (snapshot, level, age). With `averages` also S_average (t,
        level) and X_average (t), over the interval that ends at t and begins at the stored time before or
        at 0. With `measure` also time_in_system (t) and waiting_time (t), means over the jobs that leave in
        that interval and were not there at time 0, NaN where there is none.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong type or outside its range, before anything is computed.

    Notes
    -----
    The network and S^(N), D^(N), X^(N), E^(N) are those of section 2 of R. Aghajani and K. Ramanan, The
    hydrodynamic limit of a randomized load balancing network, 2019. Service times are independent of
    routing, so each is drawn when the job enters service, and the departures of a queue are applied when it
    is next probed: no event list. A path costs O((1 + λ d) N · horizon) time and 20 bytes per server (36 with
    snapshots, and 20 for each; with `measure` 24 more, and 24 a job).

    Examples
    --------
    >>> data = simulate(N=1000, d=2, lam=0.9, G="exponential", times=[0.0, 5.0, 10.0], seed=1, levels=3)
    >>> dict(data.sizes)
    {'t': 3, 'level': 3}
    >>> bool(data.X[0] == 0), bool(abs(data.S.sel(t=10, level=1) - 0.845) < 0.04)  # the limit is 0.8453
    (True, True)
    """
    cell = Cell(
        N=N,
        d=d,
        lam=lam,
        G=G,
        arrivals=arrivals,
        initial=initial,
        replacement=replacement,
        fraction=fraction,
        routing=routing,
        method=method,
    )
    grid = check_times(times)
    moments = check_snapshots(snapshots, float(grid[-1]))
    bounds = check_ages(ages, moments)
    outputs: dict[str, Any] = {
        "seed": check_count("seed", seed, 0),
        "replica": check_count("replica", replica, 0),
        "levels": check_levels(levels),
        "averages": check_switch("averages", averages),
        "measure": check_switch("measure", measure),
    }
    check_tables(outputs["levels"], grid.size, moments.size, bounds.size)
    check_method(cell, snapshots=moments.size, measure=outputs["measure"])
    _check_size(cell, grid, moments.size, outputs["measure"])
    path = run_cell(cell, times=grid, snapshots=moments, **outputs)
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


def run_path(
    cell: Cell,
    *,
    times: Floats,
    seed: int,
    replica: int,
    levels: int | None,
    snapshots: Floats,
    averages: bool = False,
    measure: bool = False,
    block: int | None = None,
) -> Path:
    """Run one replica for arguments that are checked already.

    `levels=None` counts every level up to the longest queue at a stored time, at least 1. The path does not
    depend on `block`, the random numbers drawn at a time.

    Raises
    ------
    ValueError
        A start that N servers cannot take exactly.
    """
    run = _Run(cell, times, seed, replica, levels, snapshots, averages, measure, block)
    run.complete()
    return run.path()


class _Run:
    """One replica under way: what its kernel works on."""

    def __init__(
        self,
        cell: Cell,
        times: Floats,
        seed: int,
        replica: int,
        levels: int | None,
        snapshots: Floats,
        averages: bool,
        measure: bool,
        block: int | None,
    ) -> None:
        self.cell, self.times, self.levels = cell, times, levels
        end = max([float(times[-1]), *snapshots.tolist()])
        if snapshots.size:
            check_noted(cell, end)
        self.supply = Supply(cell, seed, replica, block or _block(cell, end))
        self.watch = state.make_watch(cell.N, snapshots)
        self.servers = np.empty(cell.N, dtype=state.SERVER)
        self.lengths0 = np.empty(cell.N, dtype=np.int32)
        for group in servers_at_start(cell, seed, replica, self.supply.initial_services):
            part = slice(group.first, group.first + group.lengths.size)
            self.lengths0[part] = self.servers["length"][part] = group.lengths
            self.servers["completion"][part] = group.completions
            if self.watch is not None:
                self.watch.started[part] = -group.ages
        longest = int(self.lengths0.max())
        if levels is None:
            check_columns(longest, times.size)
        self.rules = state.make_rules(cell, end, widen=levels is None)
        self.clock = state.make_clock(self.supply.draws, longest)
        self.counts = state.make_counts(times.size, levels or max(_LEVELS, longest))
        self.sums = state.make_sums(self.counts, averages)
        self.jobs = state.make_jobs(self.lengths0, times.size, _LEVELS + cell.N) if measure else None

    def complete(self) -> None:
        """Run to the end, with more of what runs out on the way."""
        bins, due = state.make_bins(self.times), state.make_due(self.cell.N, self.cell.d)
        while True:
            reason = kernels.run(
                self.rules,
                self.supply.routing,
                self.supply.draws,
                self.clock,
                bins,
                self.counts,
                self.watch,
                self.sums,
                self.jobs,
                self.servers,
                due,
            )
            if reason == state.DONE:
                return
            if reason == state.NEEDS_LEVELS:
                self._widen()
            elif reason == state.NEEDS_JOBS and self.jobs is not None:
                self.jobs = state.with_room(self.jobs)
            else:
                self.supply.refill(reason, self.clock.used)

    def _widen(self) -> None:
        """Double the levels of all tables: their overflow column, still empty, becomes one of them."""
        more = self.counts.arrivals.shape[1]
        check_columns(2 * more, self.times.size)
        wider = ((0, 0), (0, more))
        arrivals, departures = (np.pad(table, wider) for table in self.counts[:2])
        self.counts = self.counts._replace(arrivals=arrivals, departures=departures)
        if self.sums is not None:
            self.sums = state.Sums(*(np.pad(table, wider) for table in self.sums))

    def path(self) -> Path:
        """Return what was seen."""
        N, watch = self.cell.N, self.watch
        arrivals, departures = (table[:-1].cumsum(axis=0) for table in self.counts[:2])
        averages = self._averages(arrivals, departures)
        if self.levels is None:
            arrivals, departures = _trim(self.lengths0, arrivals, departures)
        if "S_average" in averages:
            averages["S_average"] = averages["S_average"][:, : arrivals.shape[1] - 1]
        # Bins that no arrival has passed end after the last one.
        unseen = self.counts.longest[:-1] < 0
        longest = np.where(unseen, self.clock.place[state.LONGEST], self.counts.longest[:-1])
        last = np.where(unseen, self.clock.time[state.NOW], self.counts.last[:-1])
        return Path(
            lengths0=self.lengths0,
            arrivals=arrivals,
            departures=departures,
            ages=np.empty((0, N)) if watch is None else np.where(watch.lengths > 0, watch.ages, 0.0),
            lengths=np.empty((0, N), dtype=np.int32) if watch is None else watch.lengths,
            R_E=self.times - np.where(arrivals.sum(axis=1) > 0, last, -self.supply.age),
            longest=int(longest[-1]),
            averages={**averages, **self._measured()},
        )

    def _averages(self, arrivals: Integers, departures: Integers) -> dict[str, Floats]:
        """Averages over the interval that ends at each time, of all levels counted; of an empty one the end.

        ∫ S_ℓ over an interval is S_ℓ at its start times its length, plus the time left at each event that
        raises it, minus that at each one that lowers it.
        """
        if self.sums is None:
            return {}
        N, levels = self.cell.N, arrivals.shape[1] - 1
        length = np.diff(self.times, prepend=0.0)
        gained = self.sums.arrivals[:-1] - self.sums.departures[:-1]
        at_end = arrivals - departures
        at_start = np.vstack([np.zeros_like(at_end[:1]), at_end[:-1]])
        before = np.where(length[:, np.newaxis] > 0.0, at_start, at_end)
        whole = np.where(length > 0.0, length, math.inf)[:, np.newaxis]
        jobs = np.zeros(length.size)
        for column in gained.T:  # in order, as sums of many numbers by NumPy differ between processors
            jobs += column
        S = before[:, :levels] + tails(self.lengths0, levels) + gained[:, :levels] / whole
        X = before.sum(axis=1) + int(self.lengths0.sum(dtype=np.int64)) + jobs / whole[:, 0]
        return {"S_average": S / N, "X_average": X / N}

    def _measured(self) -> dict[str, Floats]:
        """Mean time in system and wait of the jobs that leave in the interval that ends at each time."""
        if self.jobs is None:
            return {}
        left = self.jobs.left[:-1]
        return {
            name: np.divide(table[:-1], left, out=np.full(left.size, math.nan), where=left > 0)
            for name, table in (("time_in_system", self.jobs.system), ("waiting_time", self.jobs.waiting))
        }


def _block(cell: Cell, end: float) -> int:
    """Arrivals to draw at a time: about what a short run needs in all."""
    return math.ceil(min(BLOCK, 1.1 * cell.lam * cell.N * (end + 1.0) + 32))


def _check_size(cell: Cell, times: Floats, snapshots: int, measure: bool) -> None:
    """Refuse a network that memory cannot hold, and times up to which too many jobs arrive."""
    end = float(times[-1])
    check_periods(cell.arrivals, end)
    if cell.method == "servers":
        size = cell.N * (_SERVER + _SNAPSHOT * snapshots + _MEASURED * measure)
        check_memory("N", cell.N, size, 'take fewer servers, or method = "lumped" for exponential service')
    jobs = cell.N * float(cell.mean_arrivals(times[-1:])[0])
    if jobs > _MOST_STEPS:
        raise ValueError(
            f"times must end before {_MOST_STEPS:.0e} jobs have arrived, got {end:g} with N = {cell.N} "
            f"and lam = {cell.lam:g}: those are {jobs:.1e} jobs, or {jobs * _STEP_DAYS:.1e} days, and "
            "float64 would no longer tell their times apart"
        )
    looks = cell.N * end
    if looks > _MOST_STEPS:
        raise ValueError(
            f"times must end before servers were looked at {_MOST_STEPS:.0e} times, each once in a unit of "
            f"time, got {end:g} with N = {cell.N}: that takes {looks * _STEP_DAYS:.1e} days; take an earlier "
            "last time"
        )
