"""A driver on a Ray cluster of several nodes on this machine: one joins, is used, and is lost under a task.

Run in a process of its own: it starts and ends a Ray of its own.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from tests.engine_nodes import Nodes
from tests.engine_sources import Listed, task


def main(folder: str) -> None:
    """Print what happens."""
    from sweep.engines import make_engine

    with Nodes() as cluster, make_engine("ray", address=cluster.address) as engine:
        print("workers", engine.workers)
        node = cluster.add()

        def lose() -> None:
            while len(list(Path(folder).iterdir())) < 2:
                time.sleep(0.1)
            cluster.lose(node)

        loss = threading.Thread(target=lose)
        loss.start()
        naps = [task(f"{i}", "nap", seconds=4.0, cost=6.0, folder=folder) for i in range(3)]
        for outcome in engine.run(Listed(naps)):
            print("outcome", outcome.task.name, outcome.error or "done", "lost" if outcome.lost else "kept")
        print("processes", len(list(Path(folder).iterdir())))
        print("workers", engine.workers)
        loss.join()


if __name__ == "__main__":
    main(sys.argv[1])
