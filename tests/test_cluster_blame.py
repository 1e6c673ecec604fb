"""A cell is blamed for its own deaths, never for a node that is lost, which does not end a sweep either."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import ray

from sweep.engines.pool import Event, PoolEngine, Worker
from sweep.engines.ray import PATIENCE, RayEngine, RayWorker
from sweep.errors import EngineError
from sweep.task import Task
from tests.engine_sources import Listed, task


def answer(
    error: Exception,
    tasks: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    gone: bool = False,
    begun: bool = True,
) -> Event[Any]:
    """What the engine makes of an error in place of a task's answer, or of the greeting without tasks."""

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(ray, "get", fail)
    worker, engine = object.__new__(RayWorker), object.__new__(RayEngine)
    Worker.__init__(worker, "host:1", "node" if tasks else "")
    worker.ready, worker.executing = tasks > 0, begun
    worker.answers = [object() for _ in range(max(tasks, 1))]  # type: ignore[misc]
    worker.tasks.extend(task(f"{i}", "draw") for i in range(tasks))
    engine._memory = {} if gone else {"node": 1}
    monkeypatch.setattr(engine, "_survey", lambda: None)
    event = engine._answer(worker)
    assert event is not None
    return event


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (ray.exceptions.ActorDiedError(), True),
        (ray.exceptions.OutOfMemoryError("the node ran low on memory"), True),
        (ray.exceptions.ActorUnavailableError("connection lost", None), False),
        (ray.exceptions.NodeDiedError("the node is gone"), False),
        (ray.exceptions.RaySystemError("GCS is out of reach"), True),
        (ray.exceptions.ObjectLostError("00", None, ""), True),
    ],
)
def test_the_executing_task_is_blamed_if_alone_else_any_may_have_been(
    error: Exception, blamed: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = answer(error, tasks, monkeypatch)
    assert event.outcome is None
    assert event.death
    assert (event.executing, event.unsure) == (blamed and tasks == 1, blamed and tasks == 2)


@pytest.mark.parametrize(
    "error", [ray.exceptions.ActorDiedError(), ray.exceptions.ObjectLostError("00", None, "")]
)
def test_an_actor_whose_node_is_gone_blames_nobody(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    event = answer(error, 1, monkeypatch, gone=True)
    assert not event.executing
    assert not event.unsure
    assert event.lost


def test_a_task_that_has_not_told_that_it_begins_may_be_innocent(monkeypatch: pytest.MonkeyPatch) -> None:
    event = answer(ray.exceptions.ActorDiedError(), 1, monkeypatch, begun=False)
    assert not event.executing
    assert event.unsure


class Died(ray.exceptions.ActorDiedError):
    """A death of which Ray says this."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.error_msg = text


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (Died("The actor died because its node has died. Node Id: 72a0"), True),
        (Died("Worker exits with an exit code 4."), False),
        (ray.exceptions.ActorUnavailableError("connection lost", None), True),
        (ray.exceptions.NodeDiedError("the node is gone"), True),
        (ray.exceptions.RuntimeEnvSetupError("no such package"), False),
        (ray.exceptions.OutOfMemoryError("the node ran low on memory"), False),
    ],
)
def test_a_start_fails_by_itself_unless_its_node_is_lost(
    error: Exception, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = answer(error, 0, monkeypatch, gone=True)  # where it starts is not known yet
    assert (event.lost, event.executing, event.unsure) == (lost, False, False)
    assert event.death


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_result_that_cannot_be_decoded_is_the_error_of_its_task(
    tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What Ray makes of an exception of the decoding: the exception and its traceback as text.
    error = ray.exceptions.RaySystemError(ModuleNotFoundError("No module named 'no'"), "Traceback …")
    event = answer(error, tasks, monkeypatch)
    assert event.outcome is not None
    assert event.outcome.error == (
        "ModuleNotFoundError: No module named 'no' (the task's result cannot be read)"
    )
    assert "Traceback" in event.outcome.details
    assert not event.outcome.lost
    assert answer(error, tasks, monkeypatch, begun=False).unsure  # it is no result that was awaited


def test_a_death_without_a_reason_is_named_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(Died(""), 0, monkeypatch).death == "Died"
    raised = ray.exceptions.RayTaskError("start", "Traceback …", KeyError())
    assert answer(raised, 0, monkeypatch).death == "KeyError"
    assert answer(ray.exceptions.ActorUnavailableError("", None), 1, monkeypatch).death


@pytest.mark.parametrize("fault", [ray.exceptions.ActorDiedError(), ray.exceptions.GetTimeoutError()])
def test_a_suspect_goes_to_a_worker_that_answers_or_is_slow(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, *, timeout: float) -> None:
        assert 0.0 < timeout < 60.0
        raise fault

    monkeypatch.setattr(ray, "get", fail)
    worker = object.__new__(RayWorker)
    monkeypatch.setattr(worker, "_actor", MagicMock(), raising=False)
    assert worker.lives() == isinstance(fault, ray.exceptions.GetTimeoutError)


class VirtualWorker(RayWorker):
    """An actor that answers a call at some time in some way; a task "killer" ends it unseen."""

    def __init__(self, hired: float, answered: float, fate: str) -> None:
        Worker.__init__(self, "starting")
        self.hired, self.executing, self.dead = hired, False, False
        self.answers = [(answered, fate)]  # type: ignore[list-item]

    def execute(self, task: Task, *_: Any) -> None:
        self.dead |= task.name == "killer"
        self.answers.append((0.0, "died" if self.dead else "done"))  # type: ignore[arg-type]

    def lives(self) -> bool:
        return not self.dead

    def kill(self) -> None:
        self.dead = True


class Virtual(RayEngine):
    """Actors of a cluster whose starts take so many virtual seconds and then succeed or are lost, as listed.

    The last fate is that of all others; tasks are done at once.
    """

    def __init__(self, workers: int, *fates: tuple[float, str], monkeypatch: pytest.MonkeyPatch) -> None:
        PoolEngine.__init__(self, workers)
        self.fates = list(fates)
        self.now = self._surveyed = self._news = 0.0
        self._memory, self._references = {"node": 1}, OrderedDict()
        self.hired = 0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        for name in ("sweep.engines.ray.time", "sweep.engines.pool.time"):
            monkeypatch.setattr(name, clock)
        monkeypatch.setattr(self, "_survey", lambda: None)
        monkeypatch.setattr(ray, "wait", self.wait)
        monkeypatch.setattr(ray, "get", self.get)

    def _hire(self) -> RayWorker:
        self.hired += 1
        seconds, fate = self.fates.pop(0) if len(self.fates) > 1 else self.fates[0]
        return VirtualWorker(self.now, self.now + seconds, fate)

    def wait(
        self, answers: list[tuple[float, str]], *, num_returns: int, timeout: float
    ) -> tuple[list[Any], int]:
        assert num_returns >= 1
        self.now = min(self.now + timeout, max(self.now, min(answers)[0]))
        return [one for one in answers if one[0] <= self.now], 0

    def get(self, answer: tuple[float, str]) -> Any:
        if answer[1] == "lost":
            raise Died("The actor died because its node has died.")
        if answer[1] == "died":
            raise Died("Worker exits with an exit code 4.")
        return ("node", "host:1") if answer[1] == "ready" else ({}, "", "", 1.0)


@pytest.mark.parametrize(
    ("workers", "fates", "ends"),
    [
        (1, [(PATIENCE - 1.0, "ready")], None),
        (1, [(PATIENCE + 2.0, "ready")], PATIENCE),
        (1, [(250.0, "lost"), (120.0, "ready")], None),  # a node lost late leaves another start its time
        (1, [(250.0, "lost"), (PATIENCE + 2.0, "ready")], 250.0 + PATIENCE),
        (2, [(9999.0, "ready"), (250.0, "lost"), (120.0, "ready")], None),
        (2, [(250.0, "lost"), (9999.0, "ready")], 250.0 + PATIENCE),
        (1, [*[(250.0, "lost")] * 11, (120.0, "ready")], None),
        (1, [(250.0, "lost")], 10.0 * PATIENCE),
        (3, [(2.5, "lost")], 10.0 * PATIENCE),  # nor is there a start without end
    ],
)
def test_each_start_has_its_time_and_all_have_ten_times_that(
    workers: int, fates: list[tuple[float, str]], ends: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Virtual(workers, *fates, monkeypatch=monkeypatch)
    run = engine.run(Listed(task(f"{i}", "none", cost=10.0) for i in range(3)))
    if ends is None:
        assert len(list(run)) == 3
        return
    with pytest.raises(EngineError) as caught:
        list(run)
    assert ends < engine.now <= ends + 251.0
    assert str(caught.value) == (
        f"no actor has started within {engine.now:.0f} s: each needs a free CPU of the cluster, "
        "on a node that stays; see what is taken with `ray status`"
    )


def test_a_pause_between_runs_is_no_wait_for_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Virtual(1, (120.0, "ready"), monkeypatch=monkeypatch)
    engine.now = 99.0 * PATIENCE
    assert len(list(engine.run(Listed([task("late", "none")])))) == 1


@pytest.mark.parametrize("name", ["innocent", "killer"])
def test_workers_that_died_idle_are_charged_to_no_task(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Virtual(5, (1.0, "ready"), monkeypatch=monkeypatch)
    list(engine.run(Listed(task(f"{i}", "none", cost=10.0) for i in range(5))))
    assert engine.hired == 5
    for worker in engine._crew:
        worker.kill()
    source, lost = Listed([task(name, "none")]), 0
    for outcome in engine.run(source):
        lost += outcome.lost
        if outcome.lost and lost < 3:
            source.tasks.append(outcome.task)
    # The first corpse makes a suspect, which the four others are not sent. A killer has a worker more for
    # its first attempt, and two for each of the others.
    assert (lost, engine.hired) == ((0, 6) if name == "innocent" else (3, 10))
