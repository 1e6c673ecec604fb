"""A cell is blamed for its own deaths, never for a node that is lost or out of reach."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from sweep.engines.pool import Event, Worker
from sweep.engines.ray import RayEngine, RayWorker
from tests.engine_sources import task


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
        (ray.exceptions.RaySystemError("GCS is out of reach"), False),
    ],
)
def test_the_executing_task_is_blamed_if_alone_else_any_may_have_been(
    error: Exception, blamed: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = answer(error, tasks, monkeypatch)
    assert event.outcome is None
    assert event.death
    assert (event.executing, event.unsure) == (blamed and tasks == 1, blamed and tasks == 2)


def test_an_actor_whose_node_is_gone_blames_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    event = answer(ray.exceptions.ActorDiedError(), 1, monkeypatch, gone=True)
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
