"""What a spec asks for: cells, limits, what is missing in a store, batches of it, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.cell import Cell, Limit
from sweep.schema import LIMIT_GRID
from sweep.spec import SweepSpec
from sweep.task import Task
from sweep.work import RUN_REPLICAS, SOLVE_LIMIT

#: A batch takes between a second and a minute where replicas are small enough.
_SHORTEST, _LONGEST = 1.0, 60.0
#: Batches a worker should get in a run, so that all end together.
_BATCHES_A_WORKER = 8
_SERVER_BYTES = 32
_SNAPSHOT_BYTES = 40  # age and length of a server, and their sorted copy
_WORKER_BYTES = 250_000_000
_LIMIT_SECONDS = 0.2
#: Prohorov distances and V at one snapshot: for any N, and for each server.
_DISTANCE_SECONDS, _DISTANCE_SERVER_SECONDS = 0.05, 1e-6

Item = tuple[Cell, tuple[int, ...]]


@dataclass(frozen=True)
class Batch:
    """Replicas that one task computes: (cell, replica numbers) pairs."""

    items: tuple[Item, ...]

    @property
    def replicas(self) -> int:
        """Number of replicas in the batch."""
        return sum(len(numbers) for _, numbers in self.items)

    @property
    def limits(self) -> tuple[str, ...]:
        """Keys of the limits that its replicas are compared with."""
        return tuple(dict.fromkeys(cell.limit.key for cell, _ in self.items))

    def split(self) -> list[Batch]:
        """Return a batch for each cell."""
        return [Batch((item,)) for item in self.items]


@dataclass(frozen=True)
class Plan:
    """Everything a run has to do, and everything the finished store will hold."""

    spec: SweepSpec
    cells: tuple[Cell, ...]
    limits: tuple[Limit, ...]
    missing_limits: tuple[Limit, ...]
    batches: tuple[Batch, ...]
    needed_replicas: int = field(default=0)

    @property
    def missing_replicas(self) -> int:
        """Replicas still to be computed."""
        return sum(batch.replicas for batch in self.batches)

    @property
    def seconds(self) -> float:
        """Estimated seconds of one core."""
        limits = _LIMIT_SECONDS * len(self.missing_limits)
        return limits + sum(self.batch_seconds(batch) for batch in self.batches)

    @property
    def distance_seconds(self) -> float:
        """The part of `seconds` that goes into distances at snapshots."""
        horizon = float(self.spec.times[-1])
        paths = sum(
            len(numbers) * path_seconds(cell, horizon)
            for batch in self.batches
            for cell, numbers in batch.items
        )
        return sum(self.batch_seconds(batch) for batch in self.batches) - paths

    @property
    def memory(self) -> int:
        """Estimated bytes of the largest worker."""
        return max((self.batch_memory(batch) for batch in self.batches), default=_WORKER_BYTES)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the arrays of results.nc, which spans the axes of all cells, before compression."""
        limits = math.prod(len({getattr(cell, axis) for cell in self.cells}) for axis in LIMIT_GRID)
        servers = len({cell.N for cell in self.cells})
        return 8 * self._replica_numbers() * limits * (servers * self.spec.run.replicas + 1)

    def batch_seconds(self, batch: Batch) -> float:
        """Estimated seconds of one core for `batch`."""
        horizon, snapshots = float(self.spec.times[-1]), self.spec.snapshots.size
        return sum(len(numbers) * replica_seconds(cell, horizon, snapshots) for cell, numbers in batch.items)

    def batch_memory(self, batch: Batch) -> int:
        """Estimated bytes of a worker that computes `batch`."""
        servers = max(cell.N for cell, _ in batch.items)
        state = servers * (_SERVER_BYTES + _SNAPSHOT_BYTES * self.spec.snapshots.size)
        return _WORKER_BYTES + state + 16 * batch.replicas * self._replica_numbers()

    def batch_task(self, batch: Batch) -> Task:
        """Return the task that computes `batch`."""
        first, numbers = batch.items[0]
        more = f" and {len(batch.items) - 1} more cells" if len(batch.items) > 1 else ""
        return Task(
            name=f"replicas {numbers[0]}-{numbers[-1]} of {first.text}{more}",
            function=RUN_REPLICAS,
            payload={"items": batch.items, "seed": self.spec.seed, "grids": self._grids()},
            needs=batch.limits,
            cost=self.batch_seconds(batch),
            memory=self.batch_memory(batch),
        )

    def limit_task(self, limit: Limit) -> Task:
        """Return the task that solves `limit`."""
        return Task(
            name=f"limit {limit.text}",
            function=SOLVE_LIMIT,
            payload={"limit": limit, "grids": self._grids(), "tolerance": self.spec.run.tolerance},
            cost=_LIMIT_SECONDS,
            memory=2 * _WORKER_BYTES,
        )

    def _grids(self) -> dict[str, Any]:
        spec = self.spec
        return {
            "times": spec.times,
            "levels": spec.run.levels,
            "snapshots": spec.snapshots,
            "ages": spec.ages,
        }

    def _replica_numbers(self) -> int:
        spec = self.spec
        levels = spec.run.levels
        ages = spec.ages.size if spec.snapshots.size else 0
        at_snapshot = levels * (ages + 2) + 1
        return spec.times.size * (2 * levels + 2) + spec.snapshots.size * at_snapshot + 1


def make_plan(
    spec: SweepSpec,
    stored_replicas: Collection[tuple[str, int]] = (),
    stored_limits: Collection[str] = (),
    workers: int = 1,
    only: Callable[[Cell], bool] = lambda cell: True,
) -> Plan:
    """Return what is to be done for `spec` beyond what a store already holds.

    Parameters
    ----------
    spec
        The checked sweep.
    stored_replicas
        (cell key, replica) pairs that need not be computed.
    stored_limits
        Limit keys that need not be solved.
    workers
        Among how many the batches will be shared.
    only
        Cells to work on; the others stay as they are.
    """
    cells = spec.cells()
    limits = {cell.limit.key: cell.limit for cell in cells}
    wanted = range(spec.run.replicas)
    items = []
    for cell in filter(only, cells):
        numbers = tuple(number for number in wanted if (cell.key, number) not in stored_replicas)
        if numbers:
            items.append((cell, numbers))
    used = {cell.limit.key for cell, _ in items} | {cell.limit.key for cell in cells if only(cell)}
    return Plan(
        spec=spec,
        cells=cells,
        limits=tuple(limits.values()),
        missing_limits=tuple(
            limit for key, limit in limits.items() if key in used and key not in stored_limits
        ),
        batches=_batches(items, float(spec.times[-1]), spec.snapshots.size, workers),
        needed_replicas=len(cells) * len(wanted),
    )


def replica_seconds(cell: Cell, horizon: float, snapshots: int = 0) -> float:
    """Estimate the seconds of one replica, compared with its limit at so many snapshots."""
    return path_seconds(cell, horizon) + snapshots * (_DISTANCE_SECONDS + _DISTANCE_SERVER_SECONDS * cell.N)


def path_seconds(cell: Cell, horizon: float) -> float:
    """Estimate the seconds of one path: an event costs more where servers outgrow the cache."""
    events = cell.lam * cell.N * horizon * (cell.d + 2)
    nanoseconds = 8.0 + 6.0 * max(0.0, math.log10(cell.N / 1e5))
    return 5e-4 + 1e-9 * (events * nanoseconds + 2.0 * cell.N * horizon)


def _batches(items: Sequence[Item], horizon: float, snapshots: int, workers: int) -> tuple[Batch, ...]:
    """Pack (cell, replicas) items, limit by limit, into batches of about equal cost."""
    total = sum(len(numbers) * replica_seconds(cell, horizon, snapshots) for cell, numbers in items)
    target = min(max(total / (workers * _BATCHES_A_WORKER), _SHORTEST), _LONGEST)
    batches: list[Batch] = []
    pending: list[Item] = []
    filled = 0.0
    by_limit = sorted(items, key=lambda item: item[0].limit.key)
    for cell, numbers in by_limit:
        seconds = replica_seconds(cell, horizon, snapshots)
        start = 0
        while start < len(numbers):
            room = max(1, int((target - filled) / seconds))
            part = numbers[start : start + room]
            pending.append((cell, part))
            filled += len(part) * seconds
            start += len(part)
            if filled >= target - 0.5 * seconds:
                batches.append(Batch(tuple(pending)))
                pending, filled = [], 0.0
    if pending:
        batches.append(Batch(tuple(pending)))
    return tuple(batches)
