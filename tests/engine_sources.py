"""Tasks and their sources for tests of the engines."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.engines import ENGINES
from sweep.engines.base import Engine
from sweep.task import Outcome, Task

#: Engines whose workers can die without the driver.
POOLS = [name for name in ENGINES if name != "serial"]
#: As `make_engine`.
Make = Callable[..., AbstractContextManager[Engine]]


def task(
    name: str,
    function: str,
    *,
    needs: tuple[str, ...] = (),
    cost: float = 0.0,
    memory: int = 0,
    **payload: Any,
) -> Task:
    """A task of `tests.engine_tasks`."""
    return Task(
        name=name,
        function=f"tests.engine_tasks:{function}",
        payload=payload,
        needs=needs,
        cost=cost,
        memory=memory,
    )


class Listed:
    """Tasks from a list; shared object "k" holds k ones, and how often each was asked for is counted."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks = deque(tasks)
        self.asked: Counter[str] = Counter()

    def next_task(self) -> Task | None:
        return self.tasks.popleft() if self.tasks else None

    def shared(self, name: str) -> Mapping[str, NDArray[Any]]:
        self.asked[name] += 1
        return {"x": np.ones(int(name))}


def outcomes(engine: Engine, *tasks: Task) -> dict[str, Outcome]:
    """Run tasks of different names, and return what became of each."""
    found = list(engine.run(Listed(tasks)))
    assert sorted(outcome.task.name for outcome in found) == sorted(task.name for task in tasks)
    return {outcome.task.name: outcome for outcome in found}


def wait_for(condition: Callable[[], Any], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
