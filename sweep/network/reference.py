"""Event-driven simulation of the N-server network in plain Python, slow and simple: what tests trust."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweep.arrivals import Profile
from sweep.cell import Cell
from sweep.delayed import Delayed
from sweep.explicit import Explicit
from sweep.initial import Lengths
from sweep.laws import Exponential, Law

_DEPARTURE, _ARRIVAL = 0, 1  # in this order at equal times
_CHUNK = 64


@dataclass
class _Queue:
    """Service times of the jobs in one queue, in order, and when the first one entered service."""

    jobs: list[float] = field(default_factory=list)
    started: float = 0.0


class Reference:
    """One run of the N-server network; a job's service time is drawn when it arrives.

    Parameters
    ----------
    cell
        Parameters of the network, which starts from lengths with fresh ages or from arrays, without a
        stationary age of arrivals.
    seed
        Seed of this run's own generators.
    levels
        Queue lengths to record, 1 … `levels`.

    Raises
    ------
    ValueError
        Another start, or arrivals of stationary age.

    Notes
    -----
    Jobs and gaps of a given age last for the first time drawn that exceeds it. Arrivals with a profile are
    those of its largest rate, thinned.

    Examples
    --------
    >>> run = Reference(Cell(N=4, d=2, lam=0.5, G="deterministic"), seed=1, levels=3)
    >>> arrays = run.record([0.0, 1.0, 2.0])
    >>> arrays["S"].shape, float(arrays["X"][0])
    ((3, 3), 0.0)
    """

    def __init__(self, cell: Cell, seed: int, levels: int) -> None:
        self.cell, self.levels = cell, levels
        self.random = random.Random(seed)
        self.services = _stream(cell.G, seed * 2)
        self.profile = cell.arrivals if isinstance(cell.arrivals, Profile) else None
        self.gaps = _gaps(cell, seed * 2 + 1)
        self.queues = [_Queue() for _ in range(cell.N)]
        self.completions = [0] * (levels + 1)  # by level, level 0 holding all lengths above `levels`
        self.arrived = 0
        self.events: list[tuple[float, int, int]] = []
        for server, (length, age) in enumerate(_lengths_and_ages(cell)):
            queue = self.queues[server]
            queue.jobs = [next(self.services) for _ in range(length)]
            queue.started = -age
            if length:
                queue.jobs[0] = next(
                    time for time in itertools.chain(queue.jobs[:1], self.services) if time > age
                )
                heapq.heappush(self.events, (queue.jobs[0] - age, _DEPARTURE, server))
        self._schedule_arrival(0.0)

    def record(
        self, times: Sequence[float], snapshots: Sequence[float] = (), ages: Sequence[float] = ()
    ) -> dict[str, NDArray[np.float64]]:
        """Return S, D (t, level), X, E (t) and, with snapshots, nu_cdf (snapshot, level, age), per server."""
        rows: dict[str, list[object]] = {"S": [], "D": [], "X": [], "E": []}
        snaps = []
        moments = sorted([(t, "time") for t in times] + [(t, "snapshot") for t in snapshots])
        for moment, kind in moments:
            self._run_until(moment)
            if kind == "snapshot":
                snaps.append(self._age_counts(moment, ages))
                continue
            lengths = [len(queue.jobs) for queue in self.queues]
            rows["S"].append([sum(n >= level for n in lengths) for level in range(1, self.levels + 1)])
            above = self.completions[0]
            rows["D"].append([above + sum(self.completions[level:]) for level in range(1, self.levels + 1)])
            rows["X"].append(sum(lengths))
            rows["E"].append(self.arrived)
        arrays = {name: np.asarray(values, dtype=np.float64) / self.cell.N for name, values in rows.items()}
        if snaps:
            arrays["nu_cdf"] = np.asarray(snaps, dtype=np.float64) / self.cell.N
        return arrays

    def _run_until(self, moment: float) -> None:
        while self.events[0][0] <= moment:
            now, kind, server = heapq.heappop(self.events)
            if kind == _ARRIVAL:
                self._arrive(now)
            else:
                self._depart(now, server)

    def _arrive(self, now: float) -> None:
        self.arrived += 1
        sampled = self._sample()
        least = min(len(self.queues[server].jobs) for server in sampled)
        chosen = self.random.choice([s for s in sampled if len(self.queues[s].jobs) == least])
        queue = self.queues[chosen]
        queue.jobs.append(next(self.services))
        if len(queue.jobs) == 1:
            self._start(now, chosen)
        self._schedule_arrival(now)

    def _depart(self, now: float, server: int) -> None:
        queue = self.queues[server]
        length = len(queue.jobs)
        self.completions[length if length <= self.levels else 0] += 1
        queue.jobs.pop(0)
        if queue.jobs:
            self._start(now, server)

    def _start(self, now: float, server: int) -> None:
        queue = self.queues[server]
        queue.started = now
        heapq.heappush(self.events, (now + queue.jobs[0], _DEPARTURE, server))

    def _schedule_arrival(self, now: float) -> None:
        now += next(self.gaps) / (self.cell.lam * self.cell.N)
        if self.profile is not None:
            most = self.profile.most
            while self.random.random() * most >= float(self.profile.rate(now)):
                now += next(self.gaps) / (self.cell.lam * self.cell.N)
        heapq.heappush(self.events, (now, _ARRIVAL, -1))

    def _sample(self) -> list[int]:
        servers = range(self.cell.N)
        if self.random.random() >= self.cell.fraction:
            return [self.random.choice(servers)]
        if self.cell.replacement:
            return self.random.choices(servers, k=self.cell.d)
        return self.random.sample(servers, self.cell.d)

    def _age_counts(self, moment: float, ages: Sequence[float]) -> list[list[int]]:
        busy = [(len(queue.jobs), moment - queue.started) for queue in self.queues if queue.jobs]
        return [
            [sum(length >= level and age <= limit for length, age in busy) for limit in ages]
            for level in range(1, self.levels + 1)
        ]


def _lengths_and_ages(cell: Cell) -> list[tuple[int, float]]:
    """Return the jobs at each server and the age of the one in service."""
    if isinstance(cell.initial, Explicit):
        return list(zip(cell.initial.lengths.tolist(), cell.initial.ages.tolist(), strict=True))
    if isinstance(cell.initial, Lengths) and cell.initial.ages == "fresh":
        return [(length, 0.0) for length in cell.initial.lengths(cell.N).tolist()]
    raise ValueError(
        f"initial must be lengths with fresh ages or arrays for the reference, got {cell.initial}"
    )


def _gaps(cell: Cell, seed: int) -> Iterator[float]:
    """Yield gaps of mean 1, the first that of a given age, or those of the largest rate of a profile."""
    if isinstance(cell.arrivals, Profile):
        most = cell.arrivals.most
        for gap in _stream(Exponential(), seed):
            yield gap / most
    elif isinstance(cell.arrivals, Delayed):
        if cell.arrivals.age is None:
            raise ValueError(f"arrivals must have a given age for the reference, got {cell.arrivals}")
        age, gaps = cell.lam * cell.arrivals.age, _stream(cell.arrivals.law, seed)
        yield next(gap for gap in gaps if gap > age) - age
        yield from gaps
    else:
        yield from _stream(cell.arrivals, seed)


def _stream(law: Law, seed: int) -> Iterator[float]:
    generator = np.random.Generator(np.random.SFC64(seed))
    while True:
        yield from law.sample(generator, _CHUNK).tolist()
