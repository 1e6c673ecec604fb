"""A unit of work that any engine executes by name, and what became of it."""

from __future__ import annotations

import importlib
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a worker is to do: `function` (as "module:name") applied to `payload` and the objects it `needs`.

    The payload holds plain values (text, numbers, tuples, mappings), so that any engine can send it.
    """

    name: str
    function: str
    payload: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    cost: float = 0.0  # estimated seconds
    memory: int = 0  # bytes at the peak


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a task: its arrays, or an error; `lost` when the worker died with it."""

    task: Task
    arrays: Arrays | None = None
    error: str = ""
    details: str = ""
    seconds: float = 0.0
    lost: bool = False
    worker: str = field(default="")


class Source(Protocol):
    """Where an engine gets its work."""

    def next_task(self) -> Task | None:
        """Return the next task that is ready, or None if none is ready now."""

    def shared(self, name: str) -> Arrays:
        """Return the object that tasks list in `needs`."""


def execute(task: Task, shared: Mapping[str, Arrays]) -> Outcome:
    """Run a task in this process; an exception becomes an outcome with its text, never a raise."""
    started = time.perf_counter()
    try:
        arrays = resolve(task.function)(task.payload, shared)
    except Exception as error:  # noqa: BLE001  one cell's error is that cell's outcome
        return Outcome(
            task=task,
            error=f"{type(error).__name__}: {error}",
            details=traceback.format_exc(),
            seconds=time.perf_counter() - started,
        )
    return Outcome(task=task, arrays=arrays, seconds=time.perf_counter() - started)


def resolve(function: str) -> Callable[[Mapping[str, Any], Mapping[str, Arrays]], dict[str, NDArray[Any]]]:
    """Return the callable that a "module:name" text names."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
