"""What every engine offers: it takes tasks from a source and yields what became of them."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from sweep.task import Outcome, Source, resolve

#: Parallelism is one task a worker: every library that keeps threads of its own is told to use one.
ONE_THREAD: Mapping[str, str] = dict.fromkeys(
    [
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ],
    "1",
)


class Engine(ABC):
    """Executes the tasks of a source; a context manager that leaves no process behind.

    Examples
    --------
    >>> from sweep.engines import make_engine
    >>> class Nothing:
    ...     def next_task(self): return None
    ...     def shared(self, name): raise KeyError(name)
    >>> with make_engine("serial") as engine:
    ...     list(engine.run(Nothing()))
    []
    """

    name: ClassVar[str]
    #: Tasks executed at once.
    workers: int

    @abstractmethod
    def run(self, source: Source) -> Iterator[Outcome]:
        """Yield the outcome of each task of `source`, as they finish.

        A task is asked for whenever a worker is free. None from the source means that nothing is ready now;
        it is asked again after each outcome has been consumed. The iterator ends when nothing is executing
        and nothing is ready. Closing it early abandons what is executing.

        Raises
        ------
        EngineError
            The engine itself failed: no worker starts, or the cluster is gone.
        """

    def prepare(self, function: str, *arguments: Any) -> None:
        """Have a "module:name" called before any task wherever tasks are executed: once a machine."""
        resolve(function)(*arguments)

    @abstractmethod
    def close(self) -> None:
        """End every worker at once; harmless when repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def search_path() -> dict[str, str]:
    """Return the variables under which a child finds the modules that this process finds.

    The second keeps `python -m` from looking in the current directory first, where anything may lie.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def occupy_standard_streams() -> None:
    """Open the null device wherever standard input, output or error is closed.

    Else the next sockets and files get their descriptors, to which children and C libraries then write.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
