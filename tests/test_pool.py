"""The loop that keeps workers busy: what it hands out to whom, whatever the workers do."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.engines.pool import FAILED_STARTS, QUEUE_BEHIND, REST, Event, PoolEngine, Worker
from sweep.errors import EngineError
from sweep.task import Outcome, Source, Task
from tests.engine_sources import Listed, task


class Played(PoolEngine[Worker]):
    """Workers on two hosts that start, finish and die as a random generator has it."""

    name: ClassVar[str] = "played"
    capacity = 100

    def __init__(self, workers: int, rng: random.Random, deaths: float) -> None:
        super().__init__(workers)
        self.rng = rng
        self.deaths = deaths
        self.hired = 0
        self.executed: Counter[str] = Counter()

    def _capacity(self, host: str) -> int:
        assert host in ("a", "b")
        return self.capacity

    def _hire(self) -> Worker:
        self.hired += 1
        return Worker(f"worker {self.hired}", host=self.rng.choice("ab"))

    def _send(self, worker: Worker, task: Task, _: Source) -> bool:
        if self.rng.random() < self.deaths:
            return False
        assert worker.ready
        assert len(worker.tasks) <= 1
        if worker.tasks:
            assert worker.tasks[0].cost < QUEUE_BEHIND
            assert not {worker.tasks[0].name, task.name} & self._suspects
            assert not self._idle() or not self._fits(
                next(w for w in self._crew if w.ready and not w.tasks), task
            )
        busy = [one for one in self._crew if one.host == worker.host and (one.tasks or one is worker)]
        claims = [max(one.memory, task.memory if one is worker else 0) for one in busy]
        assert len(busy) == 1 or sum(claims) <= self.capacity
        return True

    def _watch(self, _: float) -> list[Event[Worker]]:
        assert len(self._crew) <= self.workers
        if not self._crew:
            return []
        worker = self.rng.choice(self._crew)
        died = self.rng.random() < self.deaths
        if not worker.ready:
            return [Event(worker, death="its node has died" if died else "", lost=died)]
        if died:
            known = bool(worker.tasks) and self.rng.random() < 0.5
            unsure = bool(worker.tasks) and not known
            return [Event(worker, death="exit code 1", executing=known, unsure=unsure)]
        if not worker.tasks:
            return []
        self.executed[worker.tasks[0].name] += 1
        return [Event(worker, worker.outcome({}, "", "", 1.0))]

    def _end(self, workers: Sequence[Worker]) -> None:
        assert not any(worker in self._crew for worker in workers)


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 150)), max_size=30),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.2, 0.6]),
    st.integers(0, 2**32),
)
def test_every_task_has_one_outcome_and_no_rule_is_broken(
    kinds: list[tuple[float, int]], workers: int, deaths: float, seed: int
) -> None:
    tasks = [task(f"{i}", "none", cost=cost, memory=memory) for i, (cost, memory) in enumerate(kinds)]
    with Played(workers, random.Random(seed), deaths) as engine:
        found: list[Outcome] = list(engine.run(Listed(tasks)))
    assert Counter(outcome.task.name for outcome in found) == Counter(task.name for task in tasks)
    done = {outcome.task.name for outcome in found if not outcome.lost}
    assert engine.executed == Counter(
        done
    )  # nothing that was finished is executed again, nothing lost was finished
    assert deaths or len(done) == len(tasks)
    assert not engine._suspects


class Still(Played):
    """Workers that are ready at once and finish the first task of the crew's last worker first."""

    def _watch(self, _: float) -> list[Event[Worker]]:
        starting = [worker for worker in self._crew if not worker.ready]
        if starting:
            return [Event(worker) for worker in starting]
        worker = [worker for worker in self._crew if worker.tasks][-1]
        return [Event(worker, worker.outcome({}, "", "", 1.0))]


def test_long_tasks_are_not_queued_behind_and_short_ones_are() -> None:
    for cost, at_once in [(QUEUE_BEHIND - 0.1, 4), (QUEUE_BEHIND, 2)]:
        source = Listed(task(f"{i}", "none", cost=cost) for i in range(10))
        with Still(2, random.Random(0), 0.0) as engine:
            run = engine.run(source)
            next(run)
            assert len(source.tasks) == 10 - at_once


def test_no_more_workers_are_hired_than_there_are_tasks() -> None:
    with Still(8, random.Random(0), 0.0) as engine:
        assert len(list(engine.run(Listed(task(f"{i}", "none") for i in range(3))))) == 3
        assert engine.hired == 3


def test_a_large_task_is_not_passed_by_small_ones_for_ever() -> None:
    sizes = [60, 60, 150] + [30] * 20
    source = Listed(task(f"{i} {size}", "none", cost=10.0, memory=size) for i, size in enumerate(sizes))
    with Still(2, random.Random(1), 0.0) as engine:
        engine._hire = lambda: Worker("same host", host="a")  # type: ignore[method-assign]
        order = [outcome.task.memory for outcome in engine.run(source)]
    assert order[:3] == [60, 60, 150]


class Starts(Still):
    """Workers that become ready, fail to start or start on a machine that is lost, by turns as listed.

    The last fate is that of all others. A task "poison" ends its worker, a task "unsure" does so unseen.
    """

    def __init__(self, workers: int, *fates: str) -> None:
        super().__init__(workers, random.Random(0), 0.0)
        self.fates = itertools.chain(fates, itertools.repeat(fates[-1]))

    def _hire(self) -> Worker:
        self.hired += 1
        return Worker(next(self.fates), host="a")

    def _watch(self, seconds: float) -> list[Event[Worker]]:
        failed = [worker for worker in self._crew if not worker.ready and worker.label != "ready"]
        if failed:
            return [Event(worker, death="exit code 1", lost=worker.label == "lost") for worker in failed]
        for worker in self._crew:
            if worker.tasks and (name := worker.tasks[0].name) in ("poison", "unsure"):
                return [
                    Event(worker, death="exit code 3", executing=name == "poison", unsure=name == "unsure")
                ]
        return super()._watch(seconds)


def long_tasks(*names: str, count: int = 0) -> Listed:
    """Tasks behind which none is queued: those named, and so many others."""
    return Listed(task(name, "none", cost=10.0) for name in (*names, *map(str, range(count))))


def test_starts_on_lost_machines_are_not_counted() -> None:
    with Starts(4, *["lost"] * 20, "ready") as engine:
        assert sum(not outcome.error for outcome in engine.run(long_tasks(count=6))) == 6
    with Starts(4, *["failed"] * 20, "ready") as engine, pytest.raises(EngineError) as caught:
        list(engine.run(long_tasks(count=6)))
    assert str(caught.value).startswith("4 workers in a row ended before they were ready (exit code 1); see")


def test_workers_that_are_ready_go_on_while_others_fail_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("sweep.engines.pool.time", SimpleNamespace(monotonic=lambda: now))
    with Starts(3, "ready", "failed") as engine:
        hired = []
        for _ in engine.run(long_tasks(count=300)):
            hired.append(engine.hired)
            now += REST / 60.0
    # Beside the first, twice two before it is ready and twice two after that; then one every 60 outcomes.
    assert hired == [9 + i // 60 for i in range(300)]


def test_a_late_death_leaves_as_many_starts_as_at_first() -> None:
    with Starts(2, "ready", *["failed"] * (FAILED_STARTS + 2), "ready") as engine:
        found = {outcome.task.name: outcome.lost for outcome in engine.run(long_tasks("poison", count=3))}
    assert found == {"poison": True, "0": False, "1": False, "2": False}


def test_a_task_that_may_not_have_begun_is_blamed_for_the_second_death() -> None:
    with Starts(1, "ready") as engine:
        (outcome,) = engine.run(long_tasks("unsure"))
        assert outcome.lost
        assert outcome.error == "worker died (exit code 3) while running unsure"
        assert engine.hired == 2


def test_each_attempt_of_a_task_has_the_benefit_of_the_doubt() -> None:
    source = long_tasks("unsure")
    with Starts(1, "ready") as engine:
        attempts = 0
        for outcome in engine.run(source):
            assert outcome.lost
            attempts += 1
            assert engine.hired == 2 * attempts
            if attempts < 3:
                source.tasks.append(outcome.task)
    assert attempts == 3
