"""The engine without workers: tasks run in this process, one after the other."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from sweep.engines.base import Engine
from sweep.engines.pool import SHARED_OBJECTS
from sweep.task import Arrays, Outcome, Source, execute


class SerialEngine(Engine):
    """Runs each task in this process, for debugging and as the standard the others are held to."""

    name: ClassVar[str] = "serial"

    def __init__(self, workers: int | None = None) -> None:
        if workers not in (None, 1):
            raise ValueError(f"workers must be 1 for engine 'serial', got {workers}; engine 'local' has more")
        self.workers = 1

    def run(self, source: Source) -> Iterator[Outcome]:
        """Yield the outcome of each task, in the source's order (see `Engine.run`)."""
        worker = f"{os.uname().nodename}:{os.getpid()}"
        shared: OrderedDict[str, Arrays] = OrderedDict()
        while (task := source.next_task()) is not None:
            for name in task.needs:
                if name not in shared:
                    shared[name] = source.shared(name)
                shared.move_to_end(name)
            while len(shared) > max(SHARED_OBJECTS, len(task.needs)):
                shared.popitem(last=False)
            try:
                outcome = execute(task, {name: shared[name] for name in task.needs})
            except SystemExit as stop:  # where there are workers, this would end one of them
                error = f"worker died (exit code {stop.code}) while running {task.name}"
                outcome = Outcome(task=task, lost=True, error=error)
            yield replace(outcome, worker=worker)

    def prepare(self, function: str, *arguments: Any) -> None:
        """Do nothing: the first task does it."""

    def close(self) -> None:
        """Do nothing: there are no workers."""
