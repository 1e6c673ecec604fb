"""A driver on a Ray cluster of several nodes on this machine: one joins, is used, and is lost under a task.

Run in a process of its own: it starts and ends a Ray of its own.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from pathlib import Path

from tests.engine_sources import Listed, task


def main(folder: str) -> None:
    """Print what happens."""
    os.environ |= {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_health_check_period_ms": "500",  # a lost node is noticed sooner
        "RAY_health_check_failure_threshold": "3",
    }
    from ray.cluster_utils import Cluster

    from sweep.engines import make_engine

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        with make_engine("ray", address=cluster.address) as engine:
            print("workers", engine.workers)
            node = cluster.add_node(num_cpus=1)

            def lose() -> None:
                while len(list(Path(folder).iterdir())) < 2:
                    time.sleep(0.1)
                cluster.remove_node(node, allow_graceful=False)

            loss = threading.Thread(target=lose)
            loss.start()
            naps = [task(f"{i}", "nap", seconds=6.0, cost=6.0, folder=folder) for i in range(3)]
            for outcome in engine.run(Listed(naps)):
                print(
                    "outcome", outcome.task.name, outcome.error or "done", "lost" if outcome.lost else "kept"
                )
            print("processes", len(list(Path(folder).iterdir())))
            print("workers", engine.workers)
            loss.join()
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(sys.argv[1])
