"""Gives engines their next task: limits first, then batches whose limits are known, the longest first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from sweep.plan import Batch, Plan
from sweep.studies.base import Case, Solvable
from sweep.task import Arrays, Outcome, Task

#: Deaths of the worker that executes a single cell after which the cell has failed.
MAX_DEATHS = 3
#: Limits that are kept in memory for the workers that will ask for them.
_KEPT = 32


@dataclass(frozen=True)
class CellFailure:
    """A cell that will not be finished in this run, and why."""

    case: Case
    error: str
    details: str
    attempts: int
    quarantined: bool = False  # it killed its worker, again and again


class Scheduler:
    """The `Source` of a run: knows what is ready, what waits for a limit, and what to do about failures.

    A failed batch of several cells is split into one for each, so that blame falls on the right one. A cell
    fails when an exception ends its own task, or when its worker died `MAX_DEATHS` times.
    """

    def __init__(self, plan: Plan, load_limit: Callable[[str], Arrays]) -> None:
        self._plan = plan
        self._load_limit = lru_cache(maxsize=_KEPT)(load_limit)
        self._ready: list[tuple[bool, int, float, str, Task]] = []
        self._work: dict[str, Batch | Solvable] = {}
        self._deaths: dict[str, int] = {}
        self._unsolved = {limit.key for limit in plan.missing_limits}
        self._waiting: list[Batch] = []
        for limit in plan.missing_limits:
            self._push(limit)
        for batch in plan.batches:
            self._release(batch)

    def next_task(self) -> Task | None:
        """Return the next task that is ready, or None."""
        return heapq.heappop(self._ready)[-1] if self._ready else None

    def shared(self, name: str) -> Arrays:
        """Return the stored arrays of a limit, by its key."""
        return self._load_limit(name)

    def batch(self, task: Task) -> Batch | Solvable:
        """Return what a task computes."""
        return self._work[task.name]

    def add(self, batch: Batch) -> None:
        """Take in another batch, found to be needed while the run goes on."""
        self._release(batch)

    def settle(self, outcome: Outcome) -> list[CellFailure]:
        """Take note of an outcome (its arrays already stored) and return the cells that failed by it."""
        work = self._work[outcome.task.name]
        if outcome.arrays is not None:
            if not isinstance(work, Batch):
                self._unsolved.discard(work.key)
                waiting, self._waiting = self._waiting, []
                for batch in waiting:
                    self._release(batch)
            return []
        if isinstance(work, Batch) and len(work.items) > 1:
            for batch in work.split():
                self._push(batch)
            return []
        attempts = self._deaths[outcome.task.name] = self._deaths.get(outcome.task.name, 0) + 1
        if outcome.lost and attempts < MAX_DEATHS:
            self._push(work)
            return []
        return self._give_up(work, outcome, attempts)

    def _give_up(self, work: Batch | Solvable, outcome: Outcome, attempts: int) -> list[CellFailure]:
        if isinstance(work, Batch):
            cases = [case for case, _ in work.items]
        else:
            waiting, self._waiting = self._waiting, []
            pieces = [piece for batch in waiting for piece in batch.split()]
            cases = [piece.items[0][0] for piece in pieces if work.key in piece.limits]
            if not cases:  # all of its replicas were stored already
                cases = [case for case in self._plan.cells if case.limit_key == work.key]
            for piece in pieces:
                if work.key not in piece.limits:
                    self._release(piece)
        error = outcome.error if isinstance(work, Batch) else f"{outcome.task.name}: {outcome.error}"
        return [
            CellFailure(case, error, outcome.details, attempts, quarantined=outcome.lost)
            for case in dict.fromkeys(cases)
        ]

    def _release(self, batch: Batch) -> None:
        if self._unsolved.isdisjoint(batch.limits):
            self._push(batch)
        else:
            self._waiting.append(batch)

    def _push(self, work: Batch | Solvable) -> None:
        task = self._plan.limit_task(work) if not isinstance(work, Batch) else self._plan.batch_task(work)
        self._work[task.name] = work
        # What killed a worker goes last: whoever kills workers from outside will have moved on by then.
        deaths = self._deaths.get(task.name, 0)
        heapq.heappush(self._ready, (isinstance(work, Batch), deaths, -task.cost, task.name, task))
