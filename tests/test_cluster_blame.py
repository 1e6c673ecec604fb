"""A cell is blamed for its own deaths, never for a node that is lost or out of reach."""

from __future__ import annotations

from typing import Any

import pytest
import ray

from sweep.engines.pool import Event, Worker
from sweep.engines.ray import RayEngine, RayWorker
from tests.engine_sources import task


def answer(
    error: Exception, tasks: int, monkeypatch: pytest.MonkeyPatch, *, gone: bool = False
) -> Event[Any]:
    """What the engine makes of an error in place of the first task's answer."""

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(ray, "get", fail)
    worker, engine = object.__new__(RayWorker), object.__new__(RayEngine)
    Worker.__init__(worker, "host:1", "node")
    worker.ready = True
    worker.answers = [object() for _ in range(tasks)]  # type: ignore[misc]
    worker.tasks.extend(task(f"{i}", "draw") for i in range(tasks))
    engine._memory = {} if gone else {"node": 1}
    monkeypatch.setattr(engine, "_survey", lambda: None)
    return engine._answer(worker)


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
