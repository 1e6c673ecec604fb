"""Sources of tasks for tests of the engines."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.task import Task


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
