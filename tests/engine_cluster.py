"""A driver on a Ray cluster of several nodes on this machine: nodes join, and are lost.

Run in a process of its own: it starts and ends a Ray of its own.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sweep.engines import ray as ray_engine
from sweep.task import Task
from tests.engine_nodes import Nodes
from tests.engine_sources import Listed, task


def main(folder: str) -> None:
    """Print what happens."""
    with Nodes() as cluster:
        for lose, name in [(lose_at_work, "at work"), (lose_at_start, "starting")]:
            place = Path(folder, name)
            place.mkdir()
            lose(cluster, place)


def files(folder: Path, count: int) -> None:
    """Wait until a folder holds so many."""
    while len(list(folder.iterdir())) < count:
        time.sleep(0.1)


def lose_at_work(cluster: Nodes, folder: Path) -> None:
    """A node joins, is used, and is lost under a task."""
    with ray_engine.RayEngine(address=cluster.address) as engine:
        print("workers", engine.workers)
        node = cluster.add()

        def lose() -> None:
            files(folder, 2)
            cluster.lose(node)

        loss = threading.Thread(target=lose)
        loss.start()
        naps = [task(f"{i}", "nap", seconds=4.0, cost=6.0, folder=str(folder)) for i in range(3)]
        for outcome in engine.run(Listed(naps)):
            print("outcome", outcome.task.name, outcome.error or "done", "lost" if outcome.lost else "kept")
        print("processes", len(list(folder.iterdir())))
        print("workers", engine.workers)
        loss.join()


def slowed(executor: type, folder: Path) -> type:
    """Return a class of actors that tell of their start, and take minutes for it."""

    class Slow(executor):  # type: ignore[misc,valid-type]
        def __init__(self, *arguments: Any) -> None:
            Path(folder, f"starts {os.getpid()}").touch()
            time.sleep(300.0)
            super().__init__(*arguments)

    return Slow


class Steady:
    """Short tasks until `last` is set, and a few after that."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.last = folder, threading.Event()
        self.numbers, self.left = itertools.count(), 4

    def next_task(self) -> Task | None:
        if self.last.is_set():
            self.left -= 1
        if self.left < 0:
            return None
        return task(f"{next(self.numbers)}", "nap", seconds=0.5, cost=6.0, folder=str(self.folder))

    def shared(self, name: str) -> Mapping[str, NDArray[Any]]:
        raise KeyError(name)


def lose_at_start(cluster: Nodes, folder: Path) -> None:
    """A node joins, and is lost while four actors start there; the head's goes on."""
    source, plain = Steady(folder), ray_engine.executor
    with ray_engine.RayEngine(address=cluster.address) as engine:

        def lose() -> None:
            files(folder, 5)
            cluster.lose(node)
            while engine.workers > 1:
                time.sleep(0.1)
            ray_engine.executor = plain
            source.last.set()

        loss = threading.Thread(target=lose, daemon=True)
        for outcome in engine.run(source):
            assert not outcome.error
            if not loss.ident:  # the head's is at work
                ray_engine.executor = lambda: slowed(plain(), folder)
                node = cluster.add(4)
                loss.start()
        print("starting", len(list(folder.glob("starts *"))))
        loss.join()


if __name__ == "__main__":
    main(sys.argv[1])
