"""What a spec asks for: cells, limits, what is missing in a store, batches of it, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sweep.catalogue import Index
from sweep.costs import WORKER_BYTES, limit_seconds
from sweep.schema import stored_variables
from sweep.studies.base import Case, Solvable, SweepSpec
from sweep.task import Task

#: A batch takes between a second and a minute where replicas are small enough.
_SHORTEST, _LONGEST = 1.0, 60.0
#: Batches a worker should get in a run, so that all end together.
_BATCHES_A_WORKER = 8

Item = tuple[Case, tuple[int, ...]]


@dataclass(frozen=True)
class Batch:
    """Replicas that one task computes: (case, replica numbers) pairs."""

    items: tuple[Item, ...]

    @property
    def replicas(self) -> int:
        """Number of replicas in the batch."""
        return sum(len(numbers) for _, numbers in self.items)

    @property
    def limits(self) -> tuple[str, ...]:
        """Keys of the limits that its replicas are compared with."""
        return tuple(dict.fromkeys(case.limit_key for case, _ in self.items if case.limit is not None))

    def halves(self) -> list[Batch]:
        """Return two batches, each with half of the replicas of every case that has two or more."""
        first = [(case, numbers[: len(numbers) // 2]) for case, numbers in self.items if len(numbers) > 1]
        second = [(case, numbers[len(numbers) // 2 :]) for case, numbers in self.items]
        return [Batch(tuple(items)) for items in (first, second) if items]

    def split(self) -> list[Batch]:
        """Return a batch for each case."""
        return [Batch((item,)) for item in self.items]

    @property
    def seconds(self) -> float:
        """Estimated seconds of one core."""
        return sum(case.seconds * len(numbers) for case, numbers in self.items)


@dataclass(frozen=True)
class Plan:
    """Everything a run has to do, and everything the finished store will hold."""

    spec: SweepSpec
    cells: tuple[Case, ...]
    limits: tuple[Solvable, ...]
    missing_limits: tuple[Solvable, ...]
    batches: tuple[Batch, ...]
    needed_replicas: int = field(default=0)

    @property
    def positions(self) -> int:
        """Points of the grid: several cases may stand at one."""
        return len({case.values for case in self.cells})

    @property
    def missing_replicas(self) -> int:
        """Replicas still to be computed."""
        return sum(batch.replicas for batch in self.batches)

    @property
    def seconds(self) -> float:
        """Estimated seconds of one core."""
        limits = sum(map(self.limit_seconds, self.missing_limits))
        return limits + sum(batch.seconds for batch in self.batches)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self.batches or self.missing_limits)

    @property
    def memory(self) -> int:
        """Estimated bytes of the largest worker, 0 if there is nothing to compute."""
        batches = max((self.batch_memory(batch) for batch in self.batches), default=0)
        return max(batches, WORKER_BYTES) if self.has_work else 0

    @property
    def stored_bytes(self) -> int:
        """Bytes of the arrays of results.nc, which spans the axes of all cells, before compression."""
        spec = self.spec
        sizes = {axis: len({case.values[i] for case in self.cells}) for i, axis in enumerate(spec.AXES)}
        cells, limits = (math.prod(sizes[axis] for axis in axes) for axes in (spec.AXES, spec.LIMIT_AXES))
        groups = len({case.group for case in self.cells})
        numbers = groups * cells * spec.most_replicas * self._numbers(spec.REPLICA_KIND)
        solved = limits * self._numbers(spec.LIMIT_KIND) if self.limits else 0
        return 8 * (numbers + solved)

    def batch_memory(self, batch: Batch) -> int:
        """Estimated bytes of a worker that computes `batch`."""
        servers = max(case.memory for case, _ in batch.items)
        return WORKER_BYTES + servers + 16 * batch.replicas * self._numbers(self.spec.REPLICA_KIND)

    def batch_task(self, batch: Batch) -> Task:
        """Return the task that computes `batch`."""
        first, numbers = batch.items[0]
        more = f" and {len(batch.items) - 1} more cells" if len(batch.items) > 1 else ""
        return Task(
            name=f"replicas {numbers[0]}-{numbers[-1]} of {first.text}{more}",
            function=self.spec.REPLICA_TASK,
            payload={"items": batch.items, "seed": self.spec.seed, "grids": self._grids},
            needs=batch.limits,
            cost=batch.seconds,
            memory=self.batch_memory(batch),
        )

    def limit_task(self, limit: Solvable) -> Task:
        """Return the task that solves `limit`."""
        return Task(
            name=f"limit {limit.text}",
            function=self.spec.LIMIT_TASK,
            payload={"limit": limit, "grids": self._grids},
            cost=self.limit_seconds(limit),
            memory=2 * WORKER_BYTES,
        )

    def limit_seconds(self, limit: Solvable) -> float:
        """Estimated seconds of one core for one limit."""
        return limit_seconds(self.spec.LIMIT_KIND, limit, self._grids)

    @cached_property
    def _grids(self) -> dict[str, Any]:
        return self.spec.grids()

    def _numbers(self, kind: str) -> int:
        """Numbers that one replica or limit stores."""
        sizes = {dim: len(values) for dim, values in self.spec.coordinates().items()}
        omitted = self.spec.omitted() if kind == self.spec.REPLICA_KIND else ()
        shown = stored_variables(kind, sizes, omitted).values()
        return sum(math.prod(sizes[dim] for dim in variable.dims) for variable in shown)


def make_plan(
    spec: SweepSpec,
    stored_replicas: Index | None = None,
    stored_limits: Collection[str] = (),
    workers: int = 1,
    only: Callable[[Case], bool] = lambda case: True,
    replicas: Callable[[Case], int] | None = None,
) -> Plan:
    """Return what is to be done for `spec` beyond what a store already holds.

    Parameters
    ----------
    spec
        The checked sweep.
    stored_replicas
        What need not be computed; nothing by default.
    stored_limits
        Limit keys that need not be solved.
    workers
        Among how many the batches will be shared.
    only
        Cells to work on; the others stay as they are.
    replicas
        How many replicas a case must have; by default what the spec says of it.
    """
    cells = spec.cells()
    wanted = replicas or (lambda case: case.replicas)
    index = Index() if stored_replicas is None else stored_replicas
    limits = {case.limit.key: case.limit for case in cells if case.limit is not None}
    items = []
    for case in filter(only, cells):
        numbers = _missing(index, case.key, wanted(case))
        if numbers:
            items.append((case, numbers))
    used = {case.limit.key for case in cells if case.limit is not None and only(case)}
    return Plan(
        spec=spec,
        cells=cells,
        limits=tuple(limits.values()),
        missing_limits=tuple(
            limit for key, limit in limits.items() if key in used and key not in stored_limits
        ),
        batches=make_batches(items, workers),
        needed_replicas=sum(map(wanted, filter(only, cells))),
    )


def _missing(index: Index, key: str, count: int) -> tuple[int, ...]:
    """Return which of the first `count` replicas of a case are not stored, increasing.

    A finished case costs no more than its runs of consecutive replicas, most often one.
    """
    stored = index.count(key, below=count)
    if stored == count:
        return ()
    known = set(index.replicas(key)) if stored else set()
    return tuple(number for number in range(count) if number not in known)


def make_batches(items: Sequence[Item], workers: int) -> tuple[Batch, ...]:
    """Pack (case, replicas) items, limit by limit, into batches of about equal cost."""
    total = sum(case.seconds * len(numbers) for case, numbers in items)
    target = min(max(total / (workers * _BATCHES_A_WORKER), _SHORTEST), _LONGEST)
    batches: list[Batch] = []
    pending: list[Item] = []
    filled = 0.0
    for case, numbers in sorted(items, key=lambda item: item[0].limit_key):
        start = 0
        while start < len(numbers):
            room = max(1, int((target - filled) / case.seconds))
            part = numbers[start : start + room]
            pending.append((case, part))
            filled += len(part) * case.seconds
            start += len(part)
            if filled >= target - 0.5 * case.seconds:
                batches.append(Batch(tuple(pending)))
                pending, filled = [], 0.0
    if pending:
        batches.append(Batch(tuple(pending)))
    last = 2 * workers
    if len(batches) > 2 * last:  # the shortest go last, so that workers end together
        batches[-last:] = [half for batch in batches[-last:] for half in batch.halves()]
    return tuple(batches)
